package envoyconfig

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// scopeOf tells states apart: by their periods, and by the order of those of one rule that have the same.
func scopeOf(period time.Duration, ordinal int) string {
	if u := unitOf(period); u != UnknownUnit && ordinal == 0 {
		return unitScopes[u]
	}
	return "envoy:" + strconv.Itoa(ordinal) + ":" + period.String()
}

// unitScopes are the scopes of limits by unit, ready.
var unitScopes = func() (scopes [len(units)]string) {
	for u := range units {
		scopes[u] = "envoy:" + units[u].name
	}
	return scopes
}()

// limits reads what a rate_limit counts.
func (b *builder) limits(r *Rule, from *value) {
	name := b.str(from.get("unit"))
	unit := unitNamed(name)
	own := from.get("limits") != nil
	switch {
	case r.Unlimited && unit > UnknownUnit:
		b.fail(from, "should not specify rate limit unit when unlimited")
	case r.Unlimited && own:
		b.fail(from.get("limits"), "should not specify limits when unlimited")
	case r.Unlimited:
	case own && (name != "" || from.get("requests_per_unit") != nil || from.get("unit_multiplier") != nil):
		b.fail(from.get("limits"), "limits stand in the place of unit, unit_multiplier and requests_per_unit: leave those out, or limits")
	case own:
		b.listed(r, from)
	case unit <= UnknownUnit:
		b.fail(from, fmt.Sprintf("invalid rate limit unit '%s'", name))
	default:
		b.perUnit(r, from, unit)
	}
}

// unitNamed is the unit of a name in any case of letters, or below all of them.
func unitNamed(name string) Unit {
	for u := range units {
		if strings.EqualFold(units[u].name, name) {
			return Unit(u)
		}
	}
	return -1
}

// perUnit is the limit of unit and requests_per_unit, in fixed windows unless algorithm says otherwise.
func (b *builder) perUnit(r *Rule, from *value, unit Unit) {
	period := unit.Length()
	if v := from.get("unit_multiplier"); v != nil {
		n := time.Duration(b.number(v))
		if n < 1 || n > headgate.MaxPeriod/period {
			b.fail(v, fmt.Sprintf("invalid unit_multiplier %d: accepted are 1 to %d %ss", n, headgate.MaxPeriod/period, unit))
			return
		}
		period *= n
	}
	requests := b.number(from.get("requests_per_unit"))
	l, own := MakeLimit(requests, period)
	own.Algorithm, own.OnStoreError = b.algorithm(from, headgate.FixedWindow), b.onStoreError(from)
	if requests > headgate.MaxUnits {
		b.warn(from.get("requests_per_unit"), "it is counted to %d, and denied above", headgate.MaxUnits)
	}
	if l.Windows = own.Algorithm == headgate.FixedWindow || requests == 0; requests > 0 {
		l.Inline = &own
	}
	r.Limits = []Limit{l}
}

// listed are the limits of limits, which have the meaning that they have in a policy.
func (b *builder) listed(r *Rule, from *value) {
	items := b.list(from.get("limits"))
	if len(items) < 1 || len(items) > headgate.MaxLimits {
		b.fail(from.get("limits"), fmt.Sprintf("limits has %d entries; accepted are 1 to %d", len(items), headgate.MaxLimits))
	}
	algorithm, mode := b.algorithm(from, headgate.TokenBucket), b.onStoreError(from)
	seen := make(map[time.Duration]int)
	for _, v := range items {
		limit, err := headgate.ParseLimit(b.str(v))
		if err != nil {
			reason, _, _ := strings.Cut(err.Error(), "\n")
			b.fail(v, strings.TrimPrefix(reason, "headgate: "))
			return
		}
		if wrong := b.misfit(r, limit, algorithm); wrong != "" {
			b.fail(v, limit.String()+wrong)
			return
		}
		l := Limit{Requests: uint32(limit.Rate), Unit: unitOf(limit.Period), Period: limit.Period}
		l.Windows = algorithm == headgate.FixedWindow && limit.Period%time.Second == 0
		l.Inline = &engine.InlineLimit{
			Scope: scopeOf(limit.Period, seen[limit.Period]), Limit: limit, Algorithm: algorithm, OnStoreError: mode, Name: "envoy",
		}
		seen[limit.Period]++
		r.Limits = append(r.Limits, l)
	}
}

// misfit says what is wrong with a limit behind those that a rule has already; nothing if it is empty.
func (b *builder) misfit(r *Rule, limit headgate.Limit, algorithm headgate.Algorithm) string {
	named, err := algo.Named(algorithm)
	if err == nil {
		err = named.Check(limit)
	}
	var wrong *headgate.LimitError
	switch {
	case errors.As(err, &wrong):
		return fmt.Sprintf(": %s is %s; %s", wrong.Field, wrong.Value, wrong.Bound)
	case err != nil:
		return ": " + err.Error()
	case slices.ContainsFunc(r.Limits, func(l Limit) bool { return l.Inline.Limit == limit }):
		return " stands in limits twice"
	}
	return ""
}

func (b *builder) algorithm(from *value, otherwise headgate.Algorithm) headgate.Algorithm {
	v := from.get("algorithm")
	if v == nil {
		return otherwise
	}
	named, err := algo.Named(headgate.Algorithm(b.str(v)))
	if err != nil || b.str(v) == "" {
		b.fail(v, fmt.Sprintf("invalid algorithm '%s'", v.shown()))
		return otherwise
	}
	return named.Name
}

func (b *builder) onStoreError(from *value) headgate.OnStoreError {
	v := from.get("on_store_error")
	if v == nil {
		return ""
	}
	mode := headgate.OnStoreError(b.str(v))
	if !slices.Contains(modes, mode) {
		b.fail(v, fmt.Sprintf("invalid on_store_error '%s': accepted are closed, open and local", v.shown()))
	}
	return mode
}
