package respapi

// inline parses an inline request: one line of text, as typed by a person. r.pos is the
// position up to which the end of the line has already been searched. It returns the
// length of the request, or 0 if the line is incomplete.
func (r *reader) inline(in []byte, b bounds) (n int, err error) {
	most := min(len(in), b.request)
	for i := r.pos; i < most; i++ {
		if in[i] != '\n' {
			continue
		}
		line := in[:i]
		if i > 0 && line[i-1] == '\r' {
			line = line[:i-1]
		}
		if err := r.split(line, b); err != nil {
			return 0, err
		}
		return r.done(i + 1), nil
	}
	if len(in) >= b.request {
		return 0, errInlineLength
	}
	r.pos = most
	return 0, nil
}

// split splits a line into arguments with the quoting rules of redis-cli: "double
// quotes" with the escapes \n \r \t \a \b \" \\ and \xff, or 'single quotes' with the
// escape \'. It removes the quotes and escapes in place.
func (r *reader) split(line []byte, b bounds) error {
	r.args = r.args[:0]
	for i := 0; ; {
		for i < len(line) && isBlank(line[i]) {
			i++
		}
		if i == len(line) {
			return nil
		}
		if len(r.args) == b.args {
			return errArrayLength
		}
		end, next, ok := readWord(line, i)
		switch {
		case !ok:
			return errInlineQuotes
		case end-i > b.bulk:
			return errBulkLength
		}
		r.args = append(r.args, argRange{int32(i), int32(end)})
		i = next
	}
}

func isBlank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// readWord reads the word at the index from, and replaces it in line by the same word
// without quotes. It returns the end of the new word and the end of the original word.
// ok is false if the quotes are not closed.
func readWord(line []byte, from int) (end, next int, ok bool) {
	end = from
	for i := from; i < len(line); {
		switch c := line[i]; {
		case isBlank(c):
			return end, i, true
		case c == '"' || c == '\'':
			n, next, ok := readQuoted(line, i, end)
			if !ok || next < len(line) && !isBlank(line[next]) {
				return 0, 0, false
			}
			end, i = n, next
		default:
			line[end] = c
			end, i = end+1, i+1
		}
	}
	return end, len(line), true
}

// readQuoted copies the text between the quote at index i and the closing quote to
// index end of line. It returns the end of the copy and the index after the closing
// quote.
func readQuoted(line []byte, i, end int) (newEnd, next int, ok bool) {
	quote := line[i]
	for i++; i < len(line); {
		c, length := line[i], 1
		switch {
		case c == quote:
			return end, i + 1, true
		case c == '\\' && i+1 < len(line):
			c, length = unescape(line[i:], quote)
		}
		line[end] = c
		end, i = end+1, i+length
	}
	return 0, 0, false
}

// unescape returns the character that the escape sequence at the beginning of text
// represents, and the length of the sequence in bytes. quote is the quotation mark
// around the text.
func unescape(text []byte, quote byte) (c byte, length int) {
	next := text[1]
	if quote == '\'' {
		if next == '\'' {
			return next, 2
		}
		return '\\', 1
	}
	switch next {
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'b':
		return '\b', 2
	case 'a':
		return '\a', 2
	case 'x':
		if len(text) >= 4 && hexDigit(text[2]) >= 0 && hexDigit(text[3]) >= 0 {
			return byte(hexDigit(text[2])<<4 | hexDigit(text[3])), 4
		}
	}
	return next, 2
}

func hexDigit(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}
