package httpapi

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// appendAnswer appends the response body for a decision.
func appendAnswer(b []byte, a *engine.Answer) []byte {
	b = append(b, `{"allowed":`...)
	b = strconv.AppendBool(b, a.Allowed)
	b = append(b, `,"limit":`...)
	b = strconv.AppendInt(b, a.Limit, 10)
	b = append(b, `,"remaining":`...)
	b = strconv.AppendInt(b, a.Remaining, 10)
	b = append(b, `,"retry_after_ms":`...)
	b = strconv.AppendInt(b, ceilUnits(a.RetryAfter, time.Millisecond), 10)
	b = append(b, `,"reset_after_ms":`...)
	b = strconv.AppendInt(b, ceilUnits(a.ResetAfter, time.Millisecond), 10)
	b = append(b, `,"delay_ms":`...)
	b = strconv.AppendInt(b, ceilUnits(a.Delay, time.Millisecond), 10)
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
