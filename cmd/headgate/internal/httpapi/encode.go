package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// appendAnswer writes the body that every decision has.
func appendAnswer(b []byte, a *engine.Answer) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, a.Limit, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, a.Remaining, 10)
	b = append(b, `,"retry_after_ms":`...)
	b = strconv.AppendInt(b, ceil(a.RetryAfter, time.Millisecond), 10)
	b = append(b, `,"reset_after_ms":`...)
	b = strconv.AppendInt(b, ceil(a.ResetAfter, time.Millisecond), 10)
	b = append(b, `,"delay_ms":`...)
	b = strconv.AppendInt(b, ceil(a.Delay, time.Millisecond), 10)
	b = append(b, `,"never":`...)
	b = strconv.AppendBool(b, a.Never)
	b = append(b, `,"policy":`...)
	b = appendString(b, a.Policy)
	b = append(b, `,"denied_by":[`...)
	for i, name := range a.DeniedBy {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendString(b, name)
	}
	b = append(b, `],"degraded":`...)
	b = strconv.AppendBool(b, a.Degraded != headgate.ReasonNone)
	return append(b, '}')
}

// appendString writes s as a JSON string.
func appendString(b []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == '"' || c == '\\' {
			quoted, _ := json.Marshal(s) // a string always can be
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// ceil is d in whole units, rounded up; d is at least 0 and at most a hundred years or so.
func ceil(d, unit time.Duration) int64 { return int64((d + unit - 1) / unit) }
