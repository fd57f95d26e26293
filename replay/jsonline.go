package replay

import (
	"bytes"
	"encoding/json"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// jsonRecord is a request in a JSON line such as
// {"ts_us":1747821903000000,"key":"203.0.113.9","cost":2}. A missing cost means 1.
// Unknown fields are ignored. A line may also be an [operation].
type jsonRecord struct {
	at, cost int64
	key      []byte
	op       *operation // nil for a take
}

// parse parses a line. If the line cannot be parsed, parse returns the reason, else an
// empty string. r.key may refer to memory of line.
func (r *jsonRecord) parse(line []byte) (reason string) {
	if !r.parsePlain(line) {
		if reason := r.parseAny(line); reason != "" {
			return reason
		}
	}
	switch {
	case r.at < 0 || r.at > int64(headgate.MaxInstant):
		return badTSRange
	case r.cost < 0:
		return badNegative
	default:
		return ""
	}
}

// parsePlain is the fast path of parse. It parses a record that has only plain fields:
// short whole numbers, and ASCII strings without escapes. For any other line it returns
// false, although the line may be valid.
func (r *jsonRecord) parsePlain(line []byte) bool {
	*r = jsonRecord{cost: 1}
	s := jsonScanner{text: line}
	if !s.skip('{') {
		return false
	}
	var hasTime, hasKey bool
	for {
		name, ok := s.plainString()
		if !ok || !s.skip(':') {
			return false
		}
		switch string(name) {
		case "ts_us":
			r.at, ok = s.shortNumber()
			hasTime = true
		case "key":
			r.key, ok = s.plainString()
			hasKey = true
		case "cost":
			r.cost, ok = s.shortNumber()
		case "op":
			return false
		default:
			ok = s.plainValue()
		}
		if !ok {
			return false
		}
		if !s.skip(',') {
			return s.skip('}') && s.atEnd() && hasTime && hasKey
		}
	}
}

// parseAny parses any JSON object. If several fields have the same name, it uses the
// last of them.
func (r *jsonRecord) parseAny(line []byte) (reason string) {
	*r = jsonRecord{cost: 1}
	if !utf8.Valid(line) {
		return errBadUTF8 // invalid bytes become U+FFFD, so that two different keys would become equal
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(line, &fields); err != nil || fields == nil {
		return badNotJSON
	}
	if fields["ts_us"] == nil && fields["key"] == nil {
		return badNoFields
	}
	if !wholeNumber(fields["ts_us"], &r.at) {
		return badTS
	}
	var key *string
	if err := json.Unmarshal(orNull(fields["key"]), &key); err != nil || key == nil {
		return badKey
	}
	r.key = []byte(*key)
	if cost, given := fields["cost"]; given && !wholeNumber(cost, &r.cost) {
		return badCost
	}
	if fields["op"] != nil {
		r.op, reason = parseOperation(fields, r.cost)
	}
	return reason
}

func wholeNumber(raw json.RawMessage, to *int64) bool {
	var n *int64
	if err := json.Unmarshal(orNull(raw), &n); err != nil || n == nil {
		return false
	}
	*to = *n
	return true
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// jsonScanner scans plain JSON from left to right. The field at is the index of the
// next byte.
type jsonScanner struct {
	text []byte
	at   int
}

func (s *jsonScanner) spaces() {
	for s.at < len(s.text) && (s.text[s.at] == ' ' || s.text[s.at] == '\t' || s.text[s.at] == '\r' || s.text[s.at] == '\n') {
		s.at++
	}
}

// skip skips white space and the byte c. If c does not follow, it returns false and has
// skipped white space only.
func (s *jsonScanner) skip(c byte) bool {
	s.spaces()
	if s.at < len(s.text) && s.text[s.at] == c {
		s.at++
		return true
	}
	return false
}

func (s *jsonScanner) atEnd() bool {
	s.spaces()
	return s.at == len(s.text)
}

// plainString scans a string of ASCII characters without control characters and
// escapes. It returns false if no such string follows.
func (s *jsonScanner) plainString() ([]byte, bool) {
	if !s.skip('"') {
		return nil, false
	}
	for i := s.at; i < len(s.text); i++ {
		switch c := s.text[i]; {
		case c == '"':
			text := s.text[s.at:i]
			s.at = i + 1
			return text, true
		case c == '\\' || c < ' ' || c >= utf8.RuneSelf:
			return nil, false
		}
	}
	return nil, false
}

// shortNumber scans a whole number of at most 18 digits, without sign, fraction or
// exponent. ok is false if no such number follows.
func (s *jsonScanner) shortNumber() (n int64, ok bool) {
	s.spaces()
	start := s.at
	for s.at < len(s.text) && s.text[s.at]-'0' <= 9 && s.at-start < 19 {
		n = n*10 + int64(s.text[s.at]-'0')
		s.at++
	}
	digits := s.at - start
	if digits < 1 || digits > 18 || digits > 1 && s.text[start] == '0' {
		return 0, false
	}
	return n, s.at < len(s.text) && bytes.IndexByte([]byte(", }\t\r\n"), s.text[s.at]) >= 0
}

// plainValue skips a plain string, a short number, true, false or null. It returns
// false if none of these follows.
func (s *jsonScanner) plainValue() bool {
	if s.spaces(); s.at < len(s.text) && s.text[s.at] == '"' {
		_, ok := s.plainString()
		return ok
	}
	for _, word := range [...]string{"true", "false", "null"} {
		if bytes.HasPrefix(s.text[s.at:], []byte(word)) {
			s.at += len(word)
			return true
		}
	}
	_, ok := s.shortNumber()
	return ok
}
