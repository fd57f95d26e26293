package respapi

// inline reads a request in the form of a line, as a person types it. r.pos is how far it was searched for its end.
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

// split finds the words of a line, as redis-cli writes them: "in double quotes" with \n \r \t \a \b \" \\ and \xff, or 'in single
// quotes' with \'. A word without its quotes takes their place in the line.
func (r *reader) split(line []byte, b bounds) error {
	r.args = r.args[:0]
	for i := 0; ; {
		for i < len(line) && blank(line[i]) {
			i++
		}
		if i == len(line) {
			return nil
		}
		if len(r.args) == b.args {
			return errArrayLength
		}
		end, behind, ok := word(line, i)
		switch {
		case !ok:
			return errInlineQuotes
		case end-i > b.bulk:
			return errBulkLength
		}
		r.args = append(r.args, span{int32(i), int32(end)})
		i = behind
	}
}

func blank(c byte) bool { return c == ' ' || c >= '\t' && c <= '\r' || c == 0 }

// word reads the word that begins at from, writes it there without quotes, and says where it ends and where its text ended.
func word(line []byte, from int) (end, behind int, ok bool) {
	end = from
	for i := from; i < len(line); {
		switch c := line[i]; {
		case blank(c):
			return end, i, true
		case c == '"' || c == '\'':
			n, next, ok := quoted(line, i, end)
			if !ok || next < len(line) && !blank(line[next]) {
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

// quoted copies what is between the quote at i and its partner to the place at end.
func quoted(line []byte, i, end int) (newEnd, next int, ok bool) {
	quote := line[i]
	for i++; i < len(line); {
		c, length := line[i], 1
		switch {
		case c == quote:
			return end, i + 1, true
		case c == '\\' && i+1 < len(line):
			c, length = escaped(line[i:], quote)
		}
		line[end] = c
		end, i = end+1, i+length
	}
	return 0, 0, false
}

// escaped is what a backslash and what follows it mean between quotes, and how many bytes that is.
func escaped(text []byte, quote byte) (c byte, length int) {
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
		if len(text) >= 4 && hex(text[2]) >= 0 && hex(text[3]) >= 0 {
			return byte(hex(text[2])<<4 | hex(text[3])), 4
		}
	}
	return next, 2
}

func hex(c byte) int {
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
