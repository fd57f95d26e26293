package replay

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/headgate/headgate"
)

// decisionWriter writes one line of JSON for each decision:
//
//	{"ts_us":…,"key":…,"cost":…,"allowed":true,"limit":10,"remaining":9,
//	 "retry_after_us":0,"reset_after_us":100000,"delay_us":0,"never":false}
//
// With several policies, each line ends with a field "algorithm".
type decisionWriter struct {
	w       *bufio.Writer
	key     []byte // the key of the current request as a JSON string
	line    []byte
	replays []string // for each policy, the text that ends its lines
}

func newDecisionWriter(w io.Writer, replays []*policyReplay) *decisionWriter {
	d := &decisionWriter{w: bufio.NewWriterSize(w, 1<<20)}
	for _, l := range replays {
		end := "}\n"
		if len(replays) > 1 {
			end = `,"algorithm":` + strconv.Quote(string(l.algorithm)) + end
		}
		d.replays = append(d.replays, end)
	}
	return d
}

// write writes the decisions of all policies for q, which is request i of the batch.
func (d *decisionWriter) write(q *request, replays []*policyReplay, i int) error {
	d.key = appendJSONString(d.key[:0], q.key)
	d.line = d.line[:0]
	for n, l := range replays {
		d.line = appendDecision(d.line, q, d.key, &l.decisions[i])
		if q.op != nil {
			out, _ := l.outcomes.LoadAndDelete(i)
			d.line = appendOperation(d.line, q.op, out.(outcome))
		}
		d.line = append(d.line, d.replays[n]...)
	}
	_, err := d.w.Write(d.line)
	return decisionsError(err)
}

func (d *decisionWriter) flush() error { return decisionsError(d.w.Flush()) }

func decisionsError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("replay: the decisions could not be written completely: %w", err)
}

// appendDecision appends a decision as a JSON object without its closing brace. key is
// the key of q as a JSON string.
func appendDecision(dst []byte, q *request, key []byte, d *headgate.Decision) []byte {
	dst = strconv.AppendInt(append(dst, `{"ts_us":`...), q.at, 10)
	dst = append(append(dst, `,"key":`...), key...)
	dst = strconv.AppendInt(append(dst, `,"cost":`...), q.cost, 10)
	dst = strconv.AppendBool(append(dst, `,"allowed":`...), d.Allowed)
	dst = strconv.AppendInt(append(dst, `,"limit":`...), d.Limit, 10)
	dst = strconv.AppendInt(append(dst, `,"remaining":`...), d.Remaining, 10)
	dst = appendMicros(append(dst, `,"retry_after_us":`...), d.RetryAfter)
	dst = appendMicros(append(dst, `,"reset_after_us":`...), d.ResetAfter)
	dst = appendMicros(append(dst, `,"delay_us":`...), d.Delay)
	return strconv.AppendBool(append(dst, `,"never":`...), d.Never)
}

func appendMicros(dst []byte, d time.Duration) []byte {
	return strconv.AppendInt(dst, int64(d/time.Microsecond), 10)
}

// appendJSONString appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD,
// as in encoding/json. Unlike there, <, > and & are not escaped.
func appendJSONString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		if c := s[i]; c >= ' ' && c != '"' && c != '\\' && c < utf8.RuneSelf {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		if r >= utf8.RuneSelf && (r != utf8.RuneError || size > 1) && r != '\u2028' && r != '\u2029' {
			i += size
			continue
		}
		dst = appendEscape(append(dst, s[start:i]...), r)
		i += size
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

const hexDigits = "0123456789abcdef"

func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', hexDigits[r>>12&15], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}
