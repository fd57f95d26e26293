package storetest

import (
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// holdCaller calls ApplyHolds with holds of one key.
type holdCaller struct {
	*tester
	algorithm headgate.Algorithm
	store     headgate.HoldStore
	bound     headgate.Bound
}

// apply executes verb with one op for each of the given holds, whose ids are numbers.
func (c *holdCaller) apply(verb headgate.HoldVerb, ids []byte, costs ...int64) []headgate.HoldResult {
	ops, results := make([]headgate.HoldOp, len(ids)), make([]headgate.HoldResult, len(ids))
	for i, id := range ids {
		ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: c.bound, Key: "key", Cost: costs[i]}, ID: headgate.HoldID{id}}
	}
	_, err := c.store.ApplyHolds(background, start, verb, time.Minute, ops, results)
	c.mustf(err, "%v %d", verb, costs)
	return results
}

// mustHave fails unless each result has the error of want, and the key has this number of
// units remaining.
func (c *holdCaller) mustHave(results []headgate.HoldResult, remaining int64, want ...error) {
	for i, r := range results {
		if !errors.Is(r.Err, want[i]) {
			c.failf("%s: op %d: got error %v want %v", c.algorithm, i+1, r.Err, want[i])
		}
	}
	d, err := c.bound.Apply(background, start, "key", headgate.Peek, 0)
	if c.mustf(err, "peek"); d.Remaining != remaining {
		c.failf("%s: got %s want %d remaining", c.algorithm, formatDecision(d), remaining)
	}
}

// checkSeveralHolds tests calls with several holds of one key, and with several limits.
func checkSeveralHolds(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	bind := func(limit string) headgate.Bound {
		name := ts.name()
		b, err := ts.store.Bind(headgate.Rule{Scope: name, Name: name, Limit: headgate.MustParseLimit(limit), Algorithm: a})
		ts.mustf(err, "bind %s", limit)
		return b
	}
	c := holdCaller{ts, a, ts.store.(headgate.HoldStore), bind("20/1h")}
	three, none := []byte{1, 2, 3}, []error{nil, nil, nil, nil}
	c.mustHave(c.apply(headgate.OpenHold, three, 1, 2, 3), 14, none...)
	c.mustHave(c.apply(headgate.OpenHold, three, 1, 2, 3), 14, none...)
	c.mustHave(c.apply(headgate.ExtendHold, []byte{3, 4, 1}, 0, 0, 0), 14, nil, headgate.ErrUnknownHold, nil)
	c.mustHave(c.apply(headgate.CommitHold, []byte{4, 1, 2}, 5, 0, 1), 16, headgate.ErrUnknownHold, nil, nil)
	again := c.apply(headgate.CommitHold, three, 9, 9, 1)
	if c.mustHave(again, 18, none...); !again[0].Replayed || !again[1].Replayed || again[2].Replayed {
		ts.failf("%s: commit again: got %+v want the first two replayed", a, again)
	}

	c.takeUpTo(bind("20/1h"), bind("7/1h"), false)
	c.takeUpTo(bind("20/1h"), bind("7/1h"), true)
}

// takeUpTo takes up to 9 units under limits of 20 and of 7 units.
func (c *holdCaller) takeUpTo(twenty, seven headgate.Bound, reverse bool) {
	ops := []headgate.HoldOp{{Op: headgate.Op{Bound: twenty, Key: "twenty", Cost: 9}}, {Op: headgate.Op{Bound: seven, Key: "seven", Cost: 9}}}
	if reverse {
		slices.Reverse(ops)
	}
	for _, want := range []int64{7, 0} {
		results := make([]headgate.HoldResult, len(ops))
		_, err := c.store.ApplyHolds(background, start, headgate.TakeUpTo, 0, ops, results)
		if c.mustf(err, "take up to 9"); results[0].Granted != want || results[1].Granted != want {
			c.failf("%s: take up to 9 under 20/1h and 7/1h: got %+v want %d granted", c.algorithm, results, want)
		}
	}
	d, err := twenty.Apply(background, start, "twenty", headgate.Peek, 0)
	if c.mustf(err, "peek"); d.Remaining != 13 {
		c.failf("%s: after 7 units of 20 were taken: got %s want 13 remaining", c.algorithm, formatDecision(d))
	}
}

// checkDeniedHoldOfOneKey tests that each check of a denied hold has the decision of a
// check that follows the earlier checks of its key, as in a call that takes units.
func checkDeniedHoldOfOneKey(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	limit := headgate.MustParseLimit("5/24h")
	if a.OnlyHolds() {
		limit = headgate.MustParseLimit("5 concurrent")
	}
	name := ts.name()
	b, err := ts.store.Bind(headgate.Rule{Scope: name, Name: name, Limit: limit, Algorithm: a})
	ts.mustf(err, "bind %v", limit)
	c := holdCaller{ts, a, ts.store.(headgate.HoldStore), b}
	for _, costs := range [][]int64{{0, 2, 4}, {2, 4, 0}, {1, 2, 3, 4}, {5, 1}, {9, 1}, {6, 6}} {
		results := c.apply(headgate.OpenHold, make([]byte, len(costs)), costs...)
		total := int64(0)
		for i, n := range costs {
			asked := int64(0) // a check with cost 0 is always allowed
			if total += n; n > 0 {
				asked = total
			}
			want, err := b.Apply(background, start, "key", headgate.Peek, asked)
			ts.mustf(err, "peek %d", asked)
			if got := results[i].Decision; formatDecision(got) != formatDecision(want) || len(got.DeniedBy) != len(want.DeniedBy) {
				ts.failf("%s: hold of %d of one key: check %d: got %s want %s", a, costs, i+1, formatDecision(got), formatDecision(want))
			}
		}
	}
}

// checkUpToOfOneKey tests that each result of a take of as much as remains is a peek on
// the state after all of them.
func checkUpToOfOneKey(ts *tester, a headgate.Algorithm) {
	if a.OnlyHolds() || !ts.hasHolds(a) {
		return
	}
	name := ts.name()
	b, err := ts.store.Bind(headgate.Rule{Scope: name, Name: name, Limit: headgate.MustParseLimit("10/24h"), Algorithm: a})
	ts.mustf(err, "bind")
	c := holdCaller{ts, a, ts.store.(headgate.HoldStore), b}
	for _, granted := range []int64{2, 3, 0} { // of 10, 6 and 0 units
		results := c.apply(headgate.TakeUpTo, make([]byte, 2), 2+granted%2, 30)
		want, err := b.Apply(background, start, "key", headgate.Peek, 0)
		ts.mustf(err, "peek")
		for i, r := range results {
			if r.Granted != granted || formatDecision(r.Decision) != formatDecision(want) {
				ts.failf("%s: result %d: got %d granted, %s want %d, %s", a, i+1, r.Granted, formatDecision(r.Decision), granted, formatDecision(want))
			}
		}
	}
}

// checkLargestCosts tests holds with several checks of one key whose costs are the
// largest ones.
func checkLargestCosts(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	limit := headgate.Limit{Rate: a.MaxRate(), Period: time.Hour}
	if a.OnlyHolds() {
		limit = headgate.Limit{Rate: a.MaxRate(), Concurrent: true}
	}
	l := ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{limit}})
	most := l.Policy().Limits[0].Capacity()
	for _, costs := range [][]int64{
		{headgate.MaxWindowUnits, headgate.MaxWindowUnits}, {most, headgate.MaxWindowUnits}, {most, 1}, {1, most}, {most, most, most}, {most - 1, 0, 2},
	} {
		checks := []headgate.Check{{Limiter: l, Key: "other", Cost: 1}}
		for _, n := range costs {
			checks = append(checks, headgate.Check{Limiter: l, Key: "key", Cost: n})
		}
		h, err := headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{TTL: time.Minute}, checks...)
		ts.mustf(err, "%s: hold of %v units of one key", describe(l), costs)
		if d := h.Decision(); h.OK() || !d.Never || d.RetryAfter != 0 || d.Remaining != most {
			ts.failf("%s: hold of %v units of one key: got %s want never, and all remaining", describe(l), costs, formatDecision(d))
		}
		ts.mustRemain(l, start, "key", most, "a hold was denied")
		ts.mustRemain(l, start, "other", most, "a hold was denied")
	}
	_, err := headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{TTL: time.Minute},
		headgate.Check{Limiter: l, Key: "key", Cost: 1}, headgate.Check{Limiter: l, Key: "key", Cost: most - 1})
	ts.mustf(err, "%s: hold of 1 and of all other units", describe(l))
	ts.mustRemain(l, start, "key", 0, "a hold of 1 and of all other units is open")
}
