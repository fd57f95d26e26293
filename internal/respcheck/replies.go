package respcheck

// replies parses the bytes from the server, split into chunks anywhere.
type replies struct {
	limits   Limits
	state    replyState
	kind     byte // type of the value that is being read
	number   int64
	digits   int
	negative bool
	line     int   // bytes of the line that is being read
	skip     int64 // bytes of the string that were not read yet
	depth    int
	stack    [maxDepth]aggregate
	size     int64 // bytes of the message, including announced strings
	elements int64
	message  message
}

type replyState uint8

const (
	stateType    replyState = iota
	stateNumber             // an integer, or a length
	stateLine               // the text of a line
	stateLineEnd            // the line feed after a line
	stateString             // the bytes of a string
	stateStringCR
	stateStringLF
)

// aggregate is an array, map, set, push message or attribute that is being read.
type aggregate struct {
	length, left int64
	attribute    bool
}

// message is a complete message from the server: a reply or a push message.
type message struct {
	kind   byte
	length int64   // number of elements; 0 for a scalar
	text   [2]text // of the scalar itself, or of the first two elements
	spaces int     // spaces in the scalar itself, or in the third element
}

// text is the beginning of a string.
type text struct {
	bytes [128]byte
	n     int
	cut   bool // whether the string is longer
}

func (t *text) is(s string) bool { return !t.cut && string(t.bytes[:t.n]) == s }

func (t *text) hasPrefix(s string) bool { return t.n >= len(s) && string(t.bytes[:len(s)]) == s }

func (t *text) add(p []byte) {
	n := copy(t.bytes[t.n:], p)
	t.n += n
	t.cut = t.cut || n < len(p)
}

// parse parses the next chunk and passes each complete message to m, if m is not nil.
// After a violation, valid is the offset in p up to which all messages are complete and
// valid.
func (r *replies) parse(p []byte, m *matcher) (valid int, err error) {
	for i := 0; i < len(p); {
		n := 1
		complete := false
		switch r.state {
		case stateType:
			err = r.begin(p[i], m)
		case stateNumber:
			n, complete, err = r.numberBytes(p[i:])
		case stateLine:
			n, err = r.lineBytes(p[i:])
		case stateLineEnd:
			if err = expect(p[i], '\n', errLine); err == nil {
				complete = r.endValue()
			}
		case stateString:
			n = r.stringBytes(p[i:])
		case stateStringCR:
			err, r.state = expect(p[i], '\r', errTerminator), stateStringLF
		case stateStringLF:
			if err = expect(p[i], '\n', errTerminator); err == nil {
				complete = r.endValue()
			}
		}
		if err == nil {
			err = r.grow(int64(n))
		}
		if err == nil && complete {
			err = r.deliver(m)
		}
		if err != nil {
			return valid, err
		}
		if i += n; complete {
			valid = i
		}
	}
	return valid, nil
}

func expect(got, want byte, err Error) error {
	if got != want {
		return err
	}
	return nil
}

// grow adds n bytes to the size of the message.
func (r *replies) grow(n int64) error {
	if r.size += n; r.size > r.limits.Bytes {
		return errTooLarge
	}
	return nil
}

// deliver passes a complete message to m.
func (r *replies) deliver(m *matcher) error {
	r.size, r.elements = 0, 0
	if m == nil {
		return nil
	}
	return m.message(&r.message)
}

// begin reads the type of a value.
func (r *replies) begin(kind byte, m *matcher) error {
	if r.depth == 0 && kind != '|' {
		r.message.reset(kind)
	}
	r.kind, r.number, r.digits, r.negative, r.line = kind, 0, 0, false, 0
	switch kind {
	case '$', '*', ':', '!', '=', '%', '~', '|':
		r.state = stateNumber
	case '>':
		if r.state = stateNumber; r.depth > 0 {
			return errNestedPush
		}
	case '+', '-', ',', '(', '#', '_':
		r.state = stateLine
	default:
		if m != nil && m.answered == 0 && r.depth == 0 {
			return ErrNotRedis
		}
		return errType
	}
	return nil
}

func (m *message) reset(kind byte) {
	m.kind, m.length, m.spaces = kind, 0, 0
	for i := range m.text {
		m.text[i].n, m.text[i].cut = 0, false
	}
}

// numberBytes reads bytes of an integer or a length, and its line end.
func (r *replies) numberBytes(p []byte) (n int, complete bool, err error) {
	for i, b := range p {
		switch {
		case '0' <= b && b <= '9' && r.digits < 19 && r.line == 0:
			r.number = r.number*10 + int64(b-'0')
			r.digits++
		case b == '\r' && r.digits > 0 && r.line == 0:
			r.line = 1
		case b == '\n' && r.line == 1:
			complete, err = r.endNumber()
			return i + 1, complete, err
		case b == '-' && r.digits == 0 && !r.negative:
			r.negative = true
		default:
			return 0, false, errNumber
		}
	}
	return len(p), false, nil
}

// endNumber uses an integer or a length that is complete.
func (r *replies) endNumber() (complete bool, err error) {
	switch {
	case r.kind == ':':
		return r.endValue(), nil
	case r.negative && r.number == 1 && (r.kind == '$' || r.kind == '*'):
		if r.depth == 0 {
			r.message.kind = '_'
		}
		return r.endValue(), nil // null in RESP2
	case r.negative || r.number < 0:
		return false, errLength
	case r.kind == '$' || r.kind == '!' || r.kind == '=':
		if r.skip = r.number; r.number > r.limits.Bytes-r.size {
			return false, errTooLarge
		}
		r.size += r.number
		if r.state = stateString; r.skip == 0 {
			r.state = stateStringCR
		}
		return false, nil
	}
	return r.beginAggregate()
}

// beginAggregate begins an array, map, set, push message or attribute.
func (r *replies) beginAggregate() (complete bool, err error) {
	if r.number > maxAggregate {
		return false, errTooLarge
	}
	length := r.number
	if r.kind == '%' || r.kind == '|' {
		length *= 2
	}
	if r.elements += length; r.elements > r.limits.Elements {
		return false, errTooLarge
	}
	attribute := r.kind == '|'
	if r.depth == 0 && !attribute {
		r.message.length = length
	}
	if r.state = stateType; length == 0 {
		return !attribute && r.endValue(), nil
	}
	if r.depth == maxDepth {
		return false, errTooDeep
	}
	r.stack[r.depth] = aggregate{length, length, attribute}
	r.depth++
	return false, nil
}

// lineBytes reads bytes of a line, up to its carriage return.
func (r *replies) lineBytes(p []byte) (n int, err error) {
	for n < len(p) && p[n] != '\r' {
		if p[n] == '\n' || r.line+n >= maxLine {
			return 0, errLine
		}
		n++
	}
	if !r.validLine(p[:n]) {
		return 0, errBoolean
	}
	r.capture(p[:n])
	if r.line += n; n == len(p) {
		return n, nil
	}
	if r.kind == '#' && r.line != 1 {
		return 0, errBoolean
	}
	r.state = stateLineEnd
	return n + 1, nil
}

// validLine reports whether the bytes may be part of a line of this type. A boolean is
// t or f, and a null has no text: clients do not search for their line ends.
func (r *replies) validLine(p []byte) bool {
	switch {
	case len(p) == 0:
		return true
	case r.kind == '#':
		return r.line == 0 && len(p) == 1 && (p[0] == 't' || p[0] == 'f')
	default:
		return r.kind != '_'
	}
}

// stringBytes reads bytes of a string.
func (r *replies) stringBytes(p []byte) int {
	n := int(min(r.skip, int64(len(p))))
	if r.depth > 0 || r.kind == '!' {
		r.capture(p[:n])
	}
	r.size -= int64(n) // they were counted when they were announced
	if r.skip -= int64(n); r.skip == 0 {
		r.state = stateStringCR
	}
	return n
}

// capture stores a part of a string that the matcher needs.
func (r *replies) capture(p []byte) {
	index := int64(0)
	switch r.depth {
	case 0:
		r.countSpaces(p)
	case 1:
		top := &r.stack[0]
		if index = top.length - top.left; top.attribute {
			return
		}
		if index == 2 {
			r.countSpaces(p)
		}
	default:
		return
	}
	if index < int64(len(r.message.text)) {
		r.message.text[index].add(p)
	}
}

func (r *replies) countSpaces(p []byte) {
	for _, b := range p {
		if b == ' ' {
			r.message.spaces++
		}
	}
}

// endValue ends a value, and each aggregate whose last element it is. It reports
// whether a message is complete.
func (r *replies) endValue() (complete bool) {
	for r.state = stateType; r.depth > 0; {
		top := &r.stack[r.depth-1]
		if top.left--; top.left > 0 {
			return false
		}
		if r.depth--; top.attribute {
			return false // the value follows
		}
	}
	return true
}
