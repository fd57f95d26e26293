package envoyconfig

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
	"github.com/headgate/headgate/internal/calendar"
)

// scopeOf returns the scope in which the state of a limit is stored. The parameter
// ordinal distinguishes limits of one rule that have the same period: it is the number
// of such limits before this one.
func scopeOf(period time.Duration, ordinal int) string {
	if u := unitOf(period); u != UnknownUnit && ordinal == 0 {
		return unitScopes[u]
	}
	return "envoy:" + strconv.Itoa(ordinal) + ":" + period.String()
}

// unitScopes has the scope for each unit, so that scopeOf does not allocate it.
var unitScopes = func() (scopes [len(units)]string) {
	for u := range units {
		scopes[u] = "envoy:" + units[u].name
	}
	return scopes
}()

// limits reads the limits of the rate_limit mapping from, and adds them to r.
func (b *builder) limits(r *Rule, from *value) {
	name := b.str(from.get("unit"))
	unit := parseUnit(name)
	list, items := b.limitItems(from)
	listed := list != nil
	switch {
	case r.Unlimited && unit > UnknownUnit:
		b.fail(from, "should not specify rate limit unit when unlimited")
	case r.Unlimited && listed:
		b.fail(list, "should not specify limits when unlimited")
	case r.Unlimited:
	case listed && (name != "" || from.get("requests_per_unit") != nil || from.get("unit_multiplier") != nil):
		b.fail(list, "limits cannot be combined with unit, unit_multiplier or requests_per_unit; remove one or the other")
	case listed:
		b.limitList(r, from, list, items)
	case unit <= UnknownUnit:
		b.failWithHint(from, fmt.Sprintf("invalid rate limit unit '%s'", name), unitHint(name))
	default:
		b.perUnit(r, from, unit)
	}
}

// unitHint returns the valid units, and the one that name probably means.
func unitHint(name string) string {
	names := make([]string, 0, len(units))
	for _, u := range units[UnknownUnit+1:] {
		names = append(names, u.name)
	}
	if nearest := suggest.Nearest(name, names); nearest != "" {
		return "did you mean " + nearest + "? Valid units: " + strings.Join(names, ", ")
	}
	return "valid units: " + strings.Join(names, ", ")
}

// parseUnit parses a unit name, ignoring case. It returns -1 for an unknown name.
func parseUnit(name string) Unit {
	for u := range units {
		if strings.EqualFold(units[u].name, name) {
			return Unit(u)
		}
	}
	return -1
}

// perUnit reads a limit that is given by the keys unit and requests_per_unit. Its
// default algorithm is fixed_window.
func (b *builder) perUnit(r *Rule, from *value, unit Unit) {
	period := unit.Length()
	if v := from.get("unit_multiplier"); v != nil {
		n := time.Duration(b.number(v))
		if n < 1 || n > headgate.MaxPeriod/period {
			b.fail(v, fmt.Sprintf("invalid unit_multiplier %d; must be 1 to %d %ss", n, headgate.MaxPeriod/period, unit))
			return
		}
		period *= n
	}
	requests := b.number(from.get("requests_per_unit"))
	algorithm := b.algorithm(from, "")
	calendarMonth := unit == Month && period == unit.Length() && (algorithm.HasCalendar() || algorithm == "" && b.config.calendarMonths)
	l, inline := MakeLimit(requests, period, calendarMonth)
	inline.Algorithm, inline.OnStoreError = cmp.Or(algorithm, inline.Algorithm, headgate.FixedWindow), b.onStoreError(from)
	if most := inline.Algorithm.MaxRate(); inline.Limit.Rate > most {
		b.warn(from.get("requests_per_unit"), "at most %d requests are counted under %s; more are denied", most, inline.Algorithm)
		inline.Limit.Rate = most
	}
	if l.Windows = inline.Algorithm == headgate.FixedWindow || inline.Algorithm.HasCalendar() || requests == 0; requests > 0 {
		l.Inline = &inline
	}
	r.Limits = []Limit{l}
}

// limitList reads the limits in items, which the key limits of from contains. They have
// the same format and meaning as in a policy.
func (b *builder) limitList(r *Rule, from, list *value, items []*value) {
	if len(items) < 1 || len(items) > headgate.MaxLimits {
		b.fail(list, fmt.Sprintf("limits has %d entries; must be 1 to %d", len(items), headgate.MaxLimits))
	}
	algorithm, mode := b.algorithm(from, ""), b.onStoreError(from)
	seen := make(map[string]int) // number of limits with the same windows
	for _, v := range items {
		limit, err := headgate.ParseLimit(b.str(v))
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "\n")
			b.fail(v, strings.TrimPrefix(reason, "headgate: "))
			return
		}
		inline := engine.InlineLimit{Limit: limit, Algorithm: cmp.Or(algorithm.For(limit), headgate.TokenBucket), OnStoreError: mode, Name: "envoy"}
		if wrong := b.limitProblem(r, limit, inline.Algorithm); wrong != "" {
			b.fail(v, v.clipped()+wrong)
			return
		}
		window := windowOf(&inline)
		if inline.Scope = scopeOf(limit.Period, seen[window]); hasCalendar(&inline) {
			inline.Scope = "envoy:" + strconv.Itoa(seen[window]) + ":" + window
		}
		seen[window]++
		r.Limits = append(r.Limits, listedLimit(&inline))
	}
}

// listedLimit returns the limit of inline.
func listedLimit(inline *engine.InlineLimit) Limit {
	limit := inline.Limit
	l := Limit{Inline: inline, Requests: uint32(min(limit.Rate, math.MaxUint32)), Unit: unitOf(limit.Period), Period: limit.Period}
	l.Windows = (inline.Algorithm == headgate.FixedWindow || inline.Algorithm.HasCalendar()) && limit.Period%time.Second == 0
	if c := limit.Calendar; hasCalendar(inline) {
		l.Unit = calendarUnits[c.Unit]
		l.Calendar, _ = calendar.New(calendar.Unit(c.Unit), c.Zone, c.From) // the limit is valid
	}
	return l
}

// calendarUnits has the unit that responses contain for a limit with a calendar.
var calendarUnits = [...]Unit{
	headgate.CalendarHour: Hour, headgate.CalendarDay: Day, headgate.CalendarWeek: Week,
	headgate.CalendarMonth: Month, headgate.CalendarQuarter: UnknownUnit, headgate.CalendarYear: Year,
}

// hasCalendar reports whether the windows of a limit are those of a calendar.
func hasCalendar(inline *engine.InlineLimit) bool {
	return inline.Limit.Calendar.Unit != 0 && inline.Algorithm.HasCalendar()
}

// windowOf returns the text of the limit's period or calendar.
func windowOf(inline *engine.InlineLimit) string {
	if !hasCalendar(inline) {
		return inline.Limit.Period.String()
	}
	_, window, _ := strings.Cut(inline.Limit.String(), "/")
	return window
}

// noEnd is the reason why a rule cannot limit concurrent work. A request with such a rule
// would be an error, and Envoy by default forwards requests after an error.
const noEnd = "Envoy does not report the end of a request, so a rule cannot limit concurrent work;" +
	" write a limit with a period, such as 100/1m, and limit concurrent work with a hold: POST /v1/hold"

// limitProblem returns an error message if the limit cannot be added to r, or "" if it
// can.
func (b *builder) limitProblem(r *Rule, limit headgate.Limit, algorithm headgate.Algorithm) string {
	named, err := algo.Named(algorithm)
	if err == nil {
		err = named.Check(limit)
	}
	var wrong *headgate.LimitError
	switch {
	case algorithm.OnlyHolds():
		return ": " + noEnd
	case errors.As(err, &wrong):
		return fmt.Sprintf(": %s is %s; %s", wrong.Field, wrong.Value, wrong.Bound)
	case err != nil:
		return ": " + err.Error()
	case slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Inline.Limit == limit }):
		return " is a duplicate in limits"
	}
	return ""
}

func (b *builder) algorithm(from *value, fallback headgate.Algorithm) headgate.Algorithm {
	v := from.get("algorithm")
	if v == nil {
		return fallback
	}
	named, err := algo.Named(headgate.Algorithm(b.str(v)))
	if err != nil || b.str(v) == "" {
		b.fail(v, fmt.Sprintf("invalid algorithm '%s'", v.clipped()))
		return fallback
	}
	if named.Name.OnlyHolds() {
		b.fail(v, fmt.Sprintf("invalid algorithm '%s': %s", v.clipped(), noEnd))
		return fallback
	}
	return named.Name
}

func (b *builder) onStoreError(from *value) headgate.OnStoreError {
	v := from.get("on_store_error")
	if v == nil {
		return ""
	}
	mode := headgate.OnStoreError(b.str(v))
	if !slices.Contains(storeErrorModes, mode) {
		b.fail(v, fmt.Sprintf("invalid on_store_error '%s'; must be closed, open or local", v.clipped()))
	}
	return mode
}
