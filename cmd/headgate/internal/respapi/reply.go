package respapi

import "strconv"

// The methods in this file append a reply to w.out. They use RESP2, or RESP3 if the
// client has chosen it and it has a specific type for the reply.

const crlf = "\r\n"

func (w *worker) ok() { w.out = append(w.out, "+OK\r\n"...) }

// simple appends a simple string. text must not contain line ends.
func (w *worker) simple(text string) {
	w.out = append(append(append(w.out, '+'), text...), crlf...)
}

// fail appends an error reply. It replaces control characters, which may come from the
// client, by question marks.
func (w *worker) fail(text string) {
	w.out = append(w.out, '-')
	for i := range len(text) {
		c := text[i]
		if c < ' ' || c == 0x7f {
			c = '?'
		}
		w.out = append(w.out, c)
	}
	w.out = append(w.out, crlf...)
}

func (w *worker) number(n int64) { w.out = appendNumber(w.out, ':', n) }

func appendNumber(out []byte, kind byte, n int64) []byte {
	out = append(out, kind)
	if n >= 0 && n < 10 {
		return append(out, byte('0'+n), '\r', '\n')
	}
	return append(strconv.AppendInt(out, n, 10), crlf...)
}

func (w *worker) bulk(text string) {
	w.out = appendNumber(w.out, '$', int64(len(text)))
	w.out = append(append(w.out, text...), crlf...)
}

// text appends text that people read: a verbatim string in RESP3, a bulk string in
// RESP2.
func (w *worker) text(text string) {
	if w.s.version < 3 {
		w.bulk(text)
		return
	}
	w.out = appendNumber(w.out, '=', int64(len(text)+len("txt:")))
	w.out = append(append(append(w.out, "txt:"...), text...), crlf...)
}

func (w *worker) null() {
	if w.s.version < 3 {
		w.out = append(w.out, "$-1\r\n"...)
		return
	}
	w.out = append(w.out, "_\r\n"...)
}

func (w *worker) boolean(b bool) {
	switch {
	case w.s.version < 3 && b:
		w.out = append(w.out, ":1\r\n"...)
	case w.s.version < 3:
		w.out = append(w.out, ":0\r\n"...)
	case b:
		w.out = append(w.out, "#t\r\n"...)
	default:
		w.out = append(w.out, "#f\r\n"...)
	}
}

// array appends the header of an array of n elements.
func (w *worker) array(n int) { w.out = appendNumber(w.out, '*', int64(n)) }

// set appends the header of a set of n elements, or of an array in RESP2.
func (w *worker) set(n int) {
	if w.s.version < 3 {
		w.array(n)
		return
	}
	w.out = appendNumber(w.out, '~', int64(n))
}

// fields appends the header of a map of n fields, or in RESP2 of an array in which
// names and values alternate.
func (w *worker) fields(n int) {
	if w.s.version < 3 {
		w.array(2 * n)
		return
	}
	w.out = appendNumber(w.out, '%', int64(n))
}

func (w *worker) bulks(texts []string) {
	w.array(len(texts))
	for _, text := range texts {
		w.bulk(text)
	}
}
