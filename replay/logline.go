package replay

import "bytes"

// The reasons for which a line cannot be parsed. They are constants, so that a log
// without valid lines costs no memory.
const (
	badEmpty    = "the line is empty"
	badTooLong  = "the line is longer than 1 MiB"
	badCutOff   = "the log ends in the middle of the line"
	badFormat   = "neither a log line (Combined or Common Log Format) nor a JSON record"
	badNoTime   = "no [time] after the host, identity and user"
	badTime     = "the time is not like 02/Jan/2006:15:04:05 -0700"
	badInstant  = "the time is before 1970 or after 2155"
	badRequest  = "no quoted request, status and size after the time"
	badNotJSON  = "not a JSON object"
	errBadUTF8  = "not UTF-8, as JSON must be"
	badNoFields = "a JSON record requires the fields ts_us (µs since 1970) and key"
	badTS       = "ts_us is missing or not a whole number of microseconds"
	badTSRange  = "ts_us is before 1970 or after 2155"
	badKey      = "key is missing or not a string"
	badCost     = "cost is not a whole number"
	badNegative = "cost is negative"
)

// logLine holds the fields of a line in Combined or Common Log Format:
//
//	host identity user [time] "request" status size "referer" "user agent"
//
// Everything after the size is ignored: it contains neither a key nor a time, and user
// agents are often truncated in real logs.
type logLine struct {
	host, user, request []byte
	at                  int64 // µs since the epoch
}

// field returns the field f of the line. If the request does not have the form “method
// path …”, its missing parts are "-".
func (l *logLine) field(f keyField) []byte {
	switch f {
	case keyUser:
		return l.user
	case keyMethod:
		method, _ := splitRequest(l.request)
		return method
	case keyPath:
		_, path := splitRequest(l.request)
		return path
	default:
		return l.host
	}
}

var none = []byte("-")

// splitRequest splits a request such as “GET /a b?c HTTP/1.1” into its method, GET, and
// its path, “/a b”. The path ends at the query, or before “ HTTP/” if there is no
// query.
func splitRequest(request []byte) (method, path []byte) {
	space := bytes.IndexByte(request, ' ')
	if space <= 0 {
		return none, none
	}
	method, path = request[:space], request[space+1:]
	if i := bytes.LastIndex(path, []byte(" HTTP/")); i >= 0 {
		path = path[:i]
	}
	if i := bytes.IndexByte(path, '?'); i >= 0 {
		path = path[:i]
	}
	if len(path) == 0 {
		path = none
	}
	return method, path
}

// parse parses a line. If the line cannot be parsed, parse returns the reason, else an
// empty string. The fields of l refer to memory of line.
func (l *logLine) parse(line []byte, clock *logClock) (reason string) {
	space := bytes.IndexByte(line, ' ')
	if space <= 0 {
		return badNoTime
	}
	l.host = line[:space]
	rest := line[space+1:]
	if space = bytes.IndexByte(rest, ' '); space <= 0 {
		return badNoTime
	}
	rest = rest[space+1:]
	open := bytes.Index(rest, []byte(" ["))
	if open <= 0 {
		return badNoTime
	}
	l.user, rest = rest[:open], rest[open+2:]
	if len(rest) < timeLength+1 || rest[timeLength] != ']' {
		return badTime
	}
	if l.at, reason = clock.read(rest[:timeLength]); reason != "" {
		return reason
	}
	return l.parseRequest(rest[timeLength+1:])
}

// parseRequest parses the part of a line after the time. The request ends at the first
// unescaped quote that is followed by a status and a size, so that an unescaped quote
// inside the request is accepted.
func (l *logLine) parseRequest(rest []byte) (reason string) {
	if len(rest) < 2 || rest[0] != ' ' || rest[1] != '"' {
		return badRequest
	}
	rest = rest[2:]
	for end := 0; ; end++ {
		i := bytes.IndexByte(rest[end:], '"')
		if i < 0 {
			return badRequest
		}
		if end += i; !escaped(rest[:end]) && statusAndSize(rest[end+1:]) {
			l.request = rest[:end]
			return ""
		}
	}
}

// escaped reports whether text ends with an odd number of backslashes.
func escaped(text []byte) bool {
	n := len(text)
	for n > 0 && text[n-1] == '\\' {
		n--
	}
	return (len(text)-n)%2 == 1
}

// statusAndSize reports whether rest begins with a status and a size, such as “ 200
// 5316”. Either may be "-".
func statusAndSize(rest []byte) bool {
	rest, ok := number(rest)
	if !ok {
		return false
	}
	rest, ok = number(rest)
	return ok && (len(rest) == 0 || rest[0] == ' ')
}

// number skips a space and a whole number or "-", and returns the text after them. It
// returns false if rest does not begin with them.
func number(rest []byte) ([]byte, bool) {
	if len(rest) < 2 || rest[0] != ' ' {
		return nil, false
	}
	if rest = rest[1:]; rest[0] == '-' {
		return rest[1:], true
	}
	n := 0
	for n < len(rest) && rest[n]-'0' <= 9 {
		n++
	}
	return rest[n:], n > 0
}
