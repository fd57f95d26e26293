package respapi

// span is where an argument lies in the input, from start to before end.
type span struct{ start, end int32 }

// bounds are how large a request may be. Nothing is kept of one that is larger.
type bounds struct {
	request int // bytes of a whole request
	args    int // arguments, the command's name among them
	bulk    int // bytes of one argument
}

// The bounds of a client that has yet to say who it is.
const (
	unauthenticatedArgs  = 10
	unauthenticatedBytes = 4 << 10
)

// mostDigits is the longest number of arguments or bytes: whatever has more is above every bound.
const mostDigits = 9

// reader finds requests in the input of one connection. It remembers how far it came in a request that has not arrived whole, so that
// each byte is looked at once however the input is cut. Its zero value is ready.
type reader struct {
	args   []span
	pos    int  // how far the request has been read, from its beginning
	left   int  // arguments to come
	inside bool // a request in the form of an array has begun
}

// protocolError is what a client is told that broke the protocol, behind “Protocol error: ”.
type protocolError string

// Error is what the client is told.
func (e protocolError) Error() string { return "Protocol error: " + string(e) }

// What can be wrong with a request.
const (
	errArrayLength  = protocolError("invalid multibulk length")
	errBulkLength   = protocolError("invalid bulk length")
	errBulkEnd      = protocolError("expected CRLF behind a bulk string")
	errInlineLength = protocolError("too big inline request")
	errInlineQuotes = protocolError("unbalanced quotes in request")
	errTooBig       = protocolError("too big request")
)

// next reads the request at the beginning of in, which goes on from what was there at the last call. It gives back its length, or 0 if
// the rest is yet to come; the arguments are then in r.args, none if the request asks for nothing. in may be changed inside of the
// request.
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
		count, end, err := header(in, 1, errArrayLength)
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

// done ends a request of n bytes.
func (r *reader) done(n int) int {
	r.pos, r.left, r.inside = 0, 0, false
	return n
}

// bulk reads one argument at r.pos, unless it is not there as a whole.
func (r *reader) bulk(in []byte, b bounds) (done bool, err error) {
	if r.pos >= len(in) {
		return false, tooBig(r.pos+1, b)
	}
	if in[r.pos] != '$' {
		return false, protocolError("expected '$', got '" + string(shown(in[r.pos])) + "'")
	}
	size, start, err := header(in, r.pos+1, errBulkLength)
	if err != nil {
		return false, err
	}
	if start == 0 {
		return false, tooBig(len(in)+1, b)
	}
	if size < 0 || size > b.bulk {
		return false, errBulkLength
	}
	end := start + size
	if err := tooBig(end+2, b); err != nil {
		return false, err
	}
	if end < len(in) && in[end] != '\r' || end+1 < len(in) && in[end+1] != '\n' {
		return false, errBulkEnd
	}
	if end+2 > len(in) {
		return false, nil
	}
	r.args = append(r.args, span{int32(start), int32(end)})
	r.pos = end + 2
	return true, nil
}

func tooBig(n int, b bounds) error {
	if n > b.request {
		return errTooBig
	}
	return nil
}

// header reads the number in a line that begins at from. end is behind the line, and 0 if it has not arrived whole. What cannot become a
// number any more is wrong at once, so that an answer does not depend on how the input is cut.
func header(in []byte, from int, wrong protocolError) (n, end int, err error) {
	if from+2 < len(in) && in[from+1] == '\r' && in[from+2] == '\n' && in[from]-'0' <= 9 { // as almost always
		return int(in[from] - '0'), from + 3, nil
	}
	i, negative := from, false
	if i < len(in) && in[i] == '-' {
		negative = true
		i++
	}
	digits := i
	for ; i < len(in) && in[i] >= '0' && in[i] <= '9'; i++ {
		if i-digits == mostDigits {
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

// shown is c, or a question mark if c does not print.
func shown(c byte) byte {
	if c < ' ' || c > '~' {
		return '?'
	}
	return c
}
