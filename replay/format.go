package replay

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
)

// Format is the format of the lines of a log. The zero value selects the format of the
// first line that can be parsed.
type Format string

// The formats of logs. Combined and Common are parsed alike, because everything after
// the size of the response is ignored: each of them also accepts lines of the other.
const (
	Combined  Format = "combined" // host identity user [time] "request" status size "referer" "user agent"
	Common    Format = "common"   // like Combined, without referer and user agent
	JSONLines Format = "jsonl"    // {"ts_us":1747821903000000,"key":"203.0.113.9","cost":2}
)

// ErrUnknownFormat is matched by the error of [ParseFormat] for an unknown format.
var ErrUnknownFormat = errors.New("replay: unknown format")

// ParseFormat returns the format that is called name, such as “combined”. An empty name
// means the zero value, which detects the format. For an unknown name the error matches
// [ErrUnknownFormat] and lists all names.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case "", Combined, Common, JSONLines:
		return f, nil
	}
	return "", fmt.Errorf("%w %.40q; must be %s, %s or %s", ErrUnknownFormat, name, Combined, Common, JSONLines)
}

// record is one request of a log. It has 24 bytes.
type record struct {
	at   int64
	cost int64  // costOperation if the text of the key begins with an operation
	key  uint32 // number of the key in a keyTable
	line uint32 // line number in the piece, for the order of requests with equal times
}

// costOperation marks a record whose text is an encoded operation and a key; see
// operation.withKey.
const costOperation = -1

// lineReader parses lines of any format. It must not be used concurrently.
type lineReader struct {
	key   Key
	clock logClock
	log   logLine
	json  jsonRecord
	made  []byte
}

// detect returns the format of the first line of text that can be parsed, or the zero
// value if no line can be parsed.
func (r *lineReader) detect(text []byte) Format {
	for line := range bytes.Lines(text) {
		line = withoutEnd(line)
		if len(line) > 0 && line[0] == '{' {
			if r.json.parse(line) == "" {
				return JSONLines
			}
			continue
		}
		if r.log.parse(line, &r.clock) == "" {
			return logFormat(line)
		}
	}
	return ""
}

// logFormat returns Combined if line has more than two quotes, as a line with a referer
// has, else Common.
func logFormat(line []byte) Format {
	if bytes.Count(line, []byte(`"`)) > 2 {
		return Combined
	}
	return Common
}

// read parses a line and returns its time in µs since the epoch, its cost and its key.
// If the line cannot be parsed, reason is why, else it is empty. The key is valid
// until the next call. For an operation, the key is the text of operation.withKey.
func (r *lineReader) read(format Format, line []byte) (at, cost int64, key []byte, reason string) {
	if len(line) == 0 {
		return 0, 0, nil, badEmpty
	}
	switch format {
	case JSONLines:
		if reason = r.json.parse(line); reason == "" && r.json.op != nil {
			return r.json.at, costOperation, r.json.op.withKey(r.json.key), ""
		}
		if r.key.whole {
			r.made = append(append(r.made[:0], wholeKey), r.json.key...)
			return r.json.at, r.json.cost, r.made, reason
		}
		return r.json.at, r.json.cost, r.json.key, reason
	case Combined, Common:
		if reason = r.log.parse(line, &r.clock); reason != "" {
			return 0, 0, nil, reason
		}
		r.made = r.key.of(&r.log, r.made)
		return r.log.at, 1, r.made, ""
	default:
		if line[0] == '{' {
			if reason = r.json.parse(line); reason != badNotJSON && reason != "" {
				return 0, 0, nil, reason
			}
		}
		return 0, 0, nil, badFormat
	}
}

// withoutEnd returns line without a line feed at its end and a carriage return before
// that.
func withoutEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// readAll parses every line of p.text, sets p.records and the counters of p, and sorts
// the records by time.
func (r *lineReader) readAll(p *piece) {
	p.start()
	for rest := p.text; len(rest) > 0; {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			end = len(rest)
		}
		r.readLine(p, withoutEnd(rest[:end]))
		rest = rest[end:]
	}
	p.finish()
}

func (r *lineReader) readLine(p *piece, line []byte) {
	number := p.lines
	p.lines++
	reason := p.spoilt
	if reason == "" {
		var rec record
		var key []byte
		rec.at, rec.cost, key, reason = r.read(p.format, line)
		if reason == "" {
			rec.key, rec.line = p.keys.intern(maphash.Bytes(hashSeed, key), key), uint32(number)
			p.add(rec)
			return
		}
	}
	p.refuse(number, line, reason)
}
