package replay

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
)

// Format is the format of the lines of a log. The zero value means that the first
// readable line determines the format.
type Format string

// The formats. Parsing ends after the size, so that Combined reads logs in Common
// format and the reverse.
const (
	Combined  Format = "combined" // host identity user [time] "request" status size "referer" "user agent"
	Common    Format = "common"   // the same without the last two
	JSONLines Format = "jsonl"    // {"ts_us":1747821903000000,"key":"203.0.113.9","cost":2}
)

// ErrUnknownFormat: the format is unknown.
var ErrUnknownFormat = errors.New("replay: unknown format")

// ParseFormat returns the format with a name; the empty name is the zero value. For an
// unknown name it returns [ErrUnknownFormat] with the list of names.
func ParseFormat(name string) (Format, error) {
	switch f := Format(name); f {
	case "", Combined, Common, JSONLines:
		return f, nil
	}
	return "", fmt.Errorf("%w %.40q; there are %s, %s and %s", ErrUnknownFormat, name, Combined, Common, JSONLines)
}

// record is one request of a log: 24 bytes.
type record struct {
	at, cost int64
	key      uint32 // number in a keyTable
	line     uint32 // within its piece: input order among equal times
}

// lineReader parses lines of any format. It belongs to one goroutine.
type lineReader struct {
	key   Key
	clock logClock
	log   logLine
	json  jsonRecord
	made  []byte
}

// detect returns the format of the first line of text that can be parsed, or the zero
// value.
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

// logFormat distinguishes Combined from Common by the quote at the beginning of the
// referer.
func logFormat(line []byte) Format {
	if bytes.Count(line, []byte(`"`)) > 2 {
		return Combined
	}
	return Common
}

// read parses a line into a record and its key, or returns why it cannot. The key is
// valid until the next call.
func (r *lineReader) read(format Format, line []byte) (at, cost int64, key []byte, reason string) {
	if len(line) == 0 {
		return 0, 0, nil, badEmpty
	}
	switch format {
	case JSONLines:
		reason = r.json.parse(line)
		return r.json.at, r.json.cost, r.json.key, reason
	case Combined, Common:
		if reason = r.log.parse(line, &r.clock); reason != "" {
			return 0, 0, nil, reason
		}
		r.made = r.key.of(&r.log, r.made)
		return r.log.at, 1, r.made, ""
	default:
		return 0, 0, nil, badFormat
	}
}

// withoutEnd returns line without its line feed and a carriage return before it.
func withoutEnd(line []byte) []byte {
	if n := len(line); n > 0 && line[n-1] == '\n' {
		line = line[:n-1]
	}
	if n := len(line); n > 0 && line[n-1] == '\r' {
		line = line[:n-1]
	}
	return line
}

// readAll parses every line of p into its records, sorted by time.
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
