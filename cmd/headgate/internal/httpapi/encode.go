package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// appendAnswer appends the fields of the response body for a decision: those for the
// whole request, and the results of its checks. It does not append the closing brace. now
// is the time of the answer.
func appendAnswer(b []byte, a *engine.Answer, results []engine.Result, now time.Time) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = appendInt(b, `,"limit":`, a.Limit)
	b = appendInt(b, `,"remaining":`, a.Remaining)
	b = appendMillis(b, `,"retry_after_ms":`, a.RetryAfter)
	b = appendMillis(b, `,"reset_after_ms":`, a.ResetAfter)
	b = appendMillis(b, `,"delay_ms":`, a.Delay)
	b = append(b, `,"never":`...)
	b = strconv.AppendBool(b, a.Never)
	b = append(b, `,"policy":`...)
	b = appendString(b, a.Policy)
	b = append(b, `,"denied_by":`...)
	b = appendStrings(b, a.DeniedBy)
	b = append(b, `,"degraded":`...)
	b = strconv.AppendBool(b, a.Degraded != headgate.ReasonNone)
	b = appendLeased(b, a.Leased)
	b = append(b, `,"results":[`...)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendResult(b, &results[i], now)
	}
	return append(b, ']')
}

// appendResult appends the result of one check.
func appendResult(b []byte, r *engine.Result, now time.Time) []byte {
	b = append(b, `{"policy":`...)
	b = appendString(b, r.Policy)
	b = append(b, `,"allowed":`...)
	b = strconv.AppendBool(b, r.Allowed)
	b = append(b, `,"limit":`...)
	b = appendString(b, r.Rule.Text())
	b = appendInt(b, `,"capacity":`, r.Limit)
	b = appendInt(b, `,"remaining":`, r.Remaining)
	b = appendMillis(b, `,"retry_after_ms":`, r.RetryAfter)
	b = appendMillis(b, `,"reset_after_ms":`, r.ResetAfter)
	b = append(b, `,"reset_at":`...)
	b = appendTime(b, r.ResetAt(now))
	b = append(b, `,"denied":`...)
	b = strconv.AppendBool(b, !r.Allowed)
	b = append(b, `,"denied_by":`...)
	b = appendStrings(b, r.DeniedBy)
	b = appendLeased(b, r.Leased)
	return append(b, '}')
}

// appendLeased appends the field leased, which only a decision from memory has.
func appendLeased(b []byte, leased bool) []byte {
	if leased {
		b = append(b, `,"leased":true`...)
	}
	return b
}

func appendInt(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

// appendMillis appends d in milliseconds, rounded up.
func appendMillis(b []byte, name string, d time.Duration) []byte {
	return appendInt(b, name, ceilUnits(d, time.Millisecond))
}

// appendTime appends t as in RFC 3339, in UTC, rounded up to a millisecond.
func appendTime(b []byte, t time.Time) []byte {
	return t.Add(time.Millisecond-1).UTC().AppendFormat(b, `"2006-01-02T15:04:05.000Z"`)
}

// appendStrings appends an array of JSON strings.
func appendStrings(b []byte, texts []string) []byte {
	b = append(b, '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, text)
	}
	return append(b, ']')
}

// appendString appends s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // never fails for a string
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// ceilUnits returns d as a number of units, rounded up. d must be 0 or more, and at
// most about a hundred years.
func ceilUnits(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
