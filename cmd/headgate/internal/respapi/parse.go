package respapi

// argRange is the position of an argument in the input: from index start up to, not
// including, end.
type argRange struct{ start, end int32 }

// bounds are the maximum sizes of a request. A larger request is an error and is not
// buffered.
type bounds struct {
	request int // size of the whole request, in bytes
	args    int // number of arguments, including the command name
	bulk    int // size of one argument, in bytes
}

// The bounds that apply before a client has authenticated.
const (
	unauthenticatedArgs  = 10
	unauthenticatedBytes = 4 << 10
)

// maxDigits is the maximum number of digits of a length or count. A number with more
// digits exceeds every bound.
const maxDigits = 9

// reader parses requests from the input of one connection. It remembers its position in
// an incomplete request, so that each byte is parsed only once, even if the request
// arrives in many pieces. The zero value is ready to use.
type reader struct {
	args   []argRange
	pos    int  // number of bytes of the current request that are already parsed
	left   int  // number of arguments that are not yet parsed
	inside bool // whether a request in array form has begun and is incomplete
}

// protocolError is the description of a client's protocol error.
type protocolError string

// Error returns the text that is sent to the client.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// All protocol errors except the one for an unexpected type.
const (
	errArrayLength  = protocolError("invalid multibulk length")
	errBulkLength   = protocolError("invalid bulk length")
	errBulkEnd      = protocolError("expected CRLF after a bulk string")
	errInlineLength = protocolError("too big inline request")
	errInlineQuotes = protocolError("unbalanced quotes in request")
	errTooBig       = protocolError("too big request")
)

// next parses the request at the beginning of in. If the previous call found an
// incomplete request, in must begin with the same bytes as in that call. next returns
// the length of the request, or 0 if the request is still incomplete. It stores the
// positions of the arguments in r.args, which is empty for an empty request. It may
// modify the bytes of the request.
func (r *reader) next(in []byte, b bounds) (n int, err error) {
	if !r.inside {
		if len(in) == 0 {
			return 0, nil
		}
		if r.pos == 0 {
			r.args = r.args[:0]
		}
		if in[0] != '*' {
			return r.inline(in, b)
		}
		count, end, err := readHeader(in, 1, errArrayLength)
		if end == 0 || err != nil {
			return 0, err
		}
		if count > b.args {
			return 0, errArrayLength
		}
		r.pos, r.left, r.inside = end, count, true
	}
	for ; r.left > 0; r.left-- {
		done, err := r.bulk(in, b)
		if !done || err != nil {
			return 0, err
		}
	}
	return r.done(r.pos), nil
}

// done resets the reader after a complete request of n bytes, and returns n.
func (r *reader) done(n int) int {
	r.pos, r.left, r.inside = 0, 0, false
	return n
}

// bulk parses one argument at r.pos. done is false if the argument is incomplete.
func (r *reader) bulk(in []byte, b bounds) (done bool, err error) {
	if r.pos >= len(in) {
		return false, checkSize(r.pos+1, b)
	}
	if in[r.pos] != '$' {
		return false, protocolError("expected '$', got '" + string(printableByte(in[r.pos])) + "'")
	}
	size, start, err := readHeader(in, r.pos+1, errBulkLength)
	if err != nil {
		return false, err
	}
	if start == 0 {
		return false, checkSize(len(in)+1, b)
	}
	if size < 0 || size > b.bulk {
		return false, errBulkLength
	}
	end := start + size
	if err := checkSize(end+2, b); err != nil {
		return false, err
	}
	if end < len(in) && in[end] != '\r' || end+1 < len(in) && in[end+1] != '\n' {
		return false, errBulkEnd
	}
	if end+2 > len(in) {
		return false, nil
	}
	r.args = append(r.args, argRange{int32(start), int32(end)})
	r.pos = end + 2
	return true, nil
}

func checkSize(n int, b bounds) error {
	if n > b.request {
		return errTooBig
	}
	return nil
}

// readHeader parses the number in the line that begins at the index from. end is the
// index after the line, or 0 if the line is incomplete. If the line is invalid,
// readHeader returns the error wrong. It fails at the first byte that cannot be part of a
// number, so that errors do not depend on how the input is split into reads.
func readHeader(in []byte, from int, wrong protocolError) (n, end int, err error) {
	// The most frequent case: one digit.
	if from+2 < len(in) && in[from+1] == '\r' && in[from+2] == '\n' && in[from]-'0' <= 9 {
		return int(in[from] - '0'), from + 3, nil
	}
	i, negative := from, false
	if i < len(in) && in[i] == '-' {
		negative = true
		i++
	}
	digits := i
	for ; i < len(in) && in[i] >= '0' && in[i] <= '9'; i++ {
		if i-digits == maxDigits {
			return 0, 0, wrong
		}
		n = n*10 + int(in[i]-'0')
	}
	switch {
	case i == len(in), i > digits && in[i] == '\r' && i+1 == len(in):
		return 0, 0, nil
	case i == digits || in[i] != '\r' || in[i+1] != '\n':
		return 0, 0, wrong
	}
	if negative {
		n = -n
	}
	return n, i + 2, nil
}

// printableByte returns c, or a question mark if c is not printable.
func printableByte(c byte) byte {
	if c < ' ' || c > '~' {
		return '?'
	}
	return c
}
