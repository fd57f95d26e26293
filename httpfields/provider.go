package httpfields

import (
	"net/http"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Unit is what a limit counts. The dialects [OpenAI] and [Anthropic] have separate fields
// for each unit; other dialects ignore it. The zero value means [Requests]. A limit with
// another unit than those below, such as “micro-dollars”, has no fields in these two
// dialects.
type Unit string

// The units that have fields. OpenAI has fields for requests and tokens only.
const (
	Requests     Unit = "requests"
	Tokens       Unit = "tokens"
	InputTokens  Unit = "input-tokens"
	OutputTokens Unit = "output-tokens"
)

// unitFields are the three fields of a unit in the dialect of a provider, as keys of
// [http.Header].
type unitFields struct {
	unit                    Unit
	limit, remaining, reset string
}

var openAIFields = []unitFields{openAIUnit(Requests), openAIUnit(Tokens)}

var anthropicFields = []unitFields{
	anthropicUnit(Requests), anthropicUnit(Tokens), anthropicUnit(InputTokens), anthropicUnit(OutputTokens),
}

func openAIUnit(u Unit) unitFields {
	name := func(value string) string { return http.CanonicalHeaderKey("x-ratelimit-" + value + "-" + string(u)) }
	return unitFields{u, name("limit"), name("remaining"), name("reset")}
}

func anthropicUnit(u Unit) unitFields {
	name := func(value string) string {
		return http.CanonicalHeaderKey("anthropic-ratelimit-" + string(u) + "-" + value)
	}
	return unitFields{u, name("limit"), name("remaining"), name("reset")}
}

// namesOfUnits returns the names of all fields, in lower case as the providers write
// them.
func namesOfUnits(fields []unitFields) []string {
	var names []string
	for _, f := range fields {
		names = append(names, strings.ToLower(f.limit), strings.ToLower(f.remaining), strings.ToLower(f.reset))
	}
	return names
}

// writeUnits writes the fields of a provider: for each unit, those of the limit with the
// fewest remaining units.
func (fw *fieldWriter) writeUnits(
	text *strings.Builder, fields []unitFields, s *Set, decisions []headgate.Decision, now time.Time, absolute bool,
) {
	for i := range fields {
		f := &fields[i]
		at := s.tightest(decisions, f.unit)
		if at < 0 {
			continue
		}
		d := &decisions[at]
		rep := report{limit: &s.limits[at], Decision: d, summary: summary{denied: !d.Allowed}, now: now}
		if !fw.mayReplace(f.remaining, &rep) {
			continue
		}
		fw.h[f.limit] = rep.limitField(false)
		fw.h[f.remaining] = fw.writeNumber(text, rep.remaining())
		if wait := max(0, d.ResetAfter, d.RetryAfter); absolute {
			writeTime(text, now, wait)
		} else {
			writeDuration(text, wait)
		}
		fw.h[f.reset] = fw.finishValue(text)
	}
}

// anyUnit selects the limits of all units.
const anyUnit Unit = "\x00"

// tightest returns the index of the decision with the fewest remaining units among the
// limits with the given unit that the fields report, or -1 if there is none.
func (s *Set) tightest(decisions []headgate.Decision, unit Unit) int {
	least := -1
	for i := range decisions {
		l := &s.limits[i]
		if l.index == unreported || unit != anyUnit && l.Unit != unit {
			continue
		}
		if least < 0 || decisions[i].Remaining < decisions[least].Remaining {
			least = i
		}
	}
	return least
}

// writeTime writes the time that is wait after now, as RFC 3339 in UTC, in seconds
// rounded up.
func writeTime(text *strings.Builder, now time.Time, wait time.Duration) {
	t := now.Add(wait + time.Second - 1).Truncate(time.Second).UTC()
	var buf [len("2006-01-02T15:04:05Z") + 8]byte
	text.Write(t.AppendFormat(buf[:0], time.RFC3339))
}

// writeDuration writes d as time.Duration.String does, in milliseconds rounded up: 0s,
// 12ms, 1.5s or 6m0s.
func writeDuration(text *strings.Builder, d time.Duration) {
	ms := int64((d + time.Millisecond - 1) / time.Millisecond)
	if ms > 0 && ms < 1000 {
		writeInt(text, ms)
		text.WriteString("ms")
		return
	}
	if ms >= 3_600_000 {
		writeInt(text, ms/3_600_000)
		text.WriteByte('h')
	}
	if ms >= 60_000 {
		writeInt(text, ms/60_000%60)
		text.WriteByte('m')
	}
	writeInt(text, ms/1000%60)
	if fraction := ms % 1000; fraction > 0 {
		digits := [4]byte{'.', byte('0' + fraction/100), byte('0' + fraction/10%10), byte('0' + fraction%10)}
		text.WriteString(strings.TrimRight(string(digits[:]), "0"))
	}
	text.WriteByte('s')
}
