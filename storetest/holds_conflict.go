package storetest

import (
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// conflictPlayer repeats requests for holds on the keys a, b and c.
type conflictPlayer struct {
	*tester
	limiter *headgate.Limiter
}

// open opens a hold with the given costs of the keys a, b and c. A cost of 0 leaves the
// key out. reverse reverses the order of the checks.
func (p *conflictPlayer) open(id string, costs [3]int64, reverse bool) (*headgate.Hold, error) {
	var checks []headgate.Check
	for i := range costs {
		if reverse {
			i = 2 - i
		}
		if costs[i] > 0 {
			checks = append(checks, headgate.Check{Limiter: p.limiter, Key: id + string(rune('a'+i)), Cost: costs[i]})
		}
	}
	return headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{ID: id, TTL: time.Minute}, checks...)
}

// mustConflict repeats the request for the hold id, with other checks and with the same
// checks. Nothing may be charged.
func (p *conflictPlayer) mustConflict(id string, costs, remaining [3]int64, others ...[3]int64) {
	for _, other := range others {
		if h, err := p.open(id, other, false); !errors.Is(err, headgate.ErrHoldConflict) {
			p.failf("%s: %s was opened with costs %v, and again with %v: got %+v, error %v want ErrHoldConflict", describe(p.limiter), id, costs, other, h, err)
		}
	}
	for _, reverse := range []bool{false, true} {
		h, err := p.open(id, costs, reverse)
		if p.mustf(err, "%s: %s again, reverse %t", describe(p.limiter), id, reverse); !h.OK() || !h.Replayed() {
			p.failf("%s: %s again, reverse %t: got %+v want replayed", describe(p.limiter), id, reverse, h)
		}
	}
	for i, want := range remaining {
		p.mustRemain(p.limiter, start, id+string(rune('a'+i)), want, "requests for "+id+" were repeated with other checks")
	}
}

// checkHoldConflicts tests that a repeated id with other keys or other costs is a
// conflict, also after a commit, and that it charges nothing.
func checkHoldConflicts(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	text := "10/1h"
	if a.OnlyHolds() {
		text = "10 concurrent"
	}
	p := conflictPlayer{ts, ts.limiter(a, text)}
	for i, c := range []struct {
		costs, remaining, after [3]int64
		others                  [][3]int64
	}{
		{[3]int64{2}, [3]int64{8, 10, 10}, [3]int64{9, 10, 10}, [][3]int64{{3}, {2, 1}, {2, 1, 1}, {1, 1}}},
		{[3]int64{2, 3}, [3]int64{8, 7, 10}, [3]int64{9, 9, 10}, [][3]int64{{2}, {0, 3}, {3, 2}, {2, 4}, {2, 3, 1}, {2, 0, 3}, {0, 3, 2}}},
		{[3]int64{1, 2, 3}, [3]int64{9, 8, 7}, [3]int64{9, 9, 9}, [][3]int64{{1, 2}, {0, 2, 3}, {0, 0, 3}, {1, 2, 4}}},
	} {
		id := fmt.Sprint("hold ", i, " ")
		h, err := p.open(id, c.costs, false)
		if ts.mustf(err, "%s: hold with costs %v", describe(p.limiter), c.costs); !h.OK() || h.Replayed() {
			ts.failf("%s: hold with costs %v: got %+v want a new hold", describe(p.limiter), c.costs, h)
		}
		p.mustConflict(id, c.costs, c.remaining, c.others...)
		var actual []int64
		for _, n := range c.costs {
			if n > 0 {
				actual = append(actual, 1)
			}
		}
		_, err = h.CommitAt(background, start.Time(), actual...)
		ts.mustf(err, "%s: commit", describe(p.limiter))
		if a.OnlyHolds() {
			c.after = [3]int64{10, 10, 10}
		}
		p.mustConflict(id, c.costs, c.after, c.others...)
	}
}

// checkCappedHolds tests that a request is recognized by its costs, although its hold has
// charged fewer units, which depend on the limit.
func checkCappedHolds(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	texts := []string{"10/1h", "5/1h", "30/1h"}
	if a.OnlyHolds() {
		texts = []string{"10 concurrent", "5 concurrent", "30 concurrent"}
	}
	ten := ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(texts[0])}, Holds: headgate.HoldSettings{CapAmount: true},
	})
	limiters := []*headgate.Limiter{ten}
	for _, text := range texts[1:] {
		l, err := ten.WithLimits(headgate.MustParseLimit(text))
		ts.mustf(err, "%s: limits %s", describe(ten), text)
		limiters = append(limiters, l)
	}
	for _, keys := range [][]string{{"one"}, {"first", "second"}, {"same", "same"}} {
		open := func(l *headgate.Limiter, cost int64) (*headgate.Hold, error) {
			var checks []headgate.Check
			for i, key := range keys {
				checks = append(checks, headgate.Check{Limiter: l, Key: key, Cost: []int64{cost, 2}[i]})
			}
			return headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{ID: fmt.Sprint(keys), TTL: time.Minute}, checks...)
		}
		cost, actual := int64(20), make([]int64, len(keys))
		if keys[0] == "same" {
			cost = 8 // with 2, all units
		}
		h, err := open(ten, cost)
		if ts.mustf(err, "%s: hold of %d units of %v", describe(ten), cost, keys); !h.OK() || h.Replayed() {
			ts.failf("%s: hold of %d units of %v: got %+v want a new hold", describe(ten), cost, keys, h)
		}
		for range 2 { // while the hold is open, and after its commit
			for i, l := range limiters {
				again, err := open(l, cost)
				if ts.mustf(err, "%s: %v again under %s", describe(ten), keys, texts[i]); !again.OK() || !again.Replayed() || !again.ExpiresAt().Equal(h.ExpiresAt()) {
					ts.failf("%s: %v again under %s: got %+v want replayed", describe(ten), keys, texts[i], again)
				}
				for _, other := range []int64{5, 10, 30, 21} {
					if again, err := open(l, other); !errors.Is(err, headgate.ErrHoldConflict) {
						ts.failf("%s: %v with cost %d under %s: got %+v, error %v want ErrHoldConflict", describe(ten), keys, other, texts[i], again, err)
					}
				}
			}
			if actual[0] = 3; a.OnlyHolds() {
				actual[0] = 0
			}
			_, err = h.CommitAt(background, start.Time(), actual...)
			ts.mustf(err, "%s: commit", describe(ten))
		}
		ts.mustRemain(ten, start, keys[0], 10-actual[0], "a capped hold was repeated and committed")
	}
}

// checkHoldOfVariants tests that one hold does not charge a key under several limits. The
// state of the key cannot be corrected then, because a unit takes other times to recover.
func checkHoldOfVariants(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	texts := []string{"5/1h", "10/1h"}
	if a.OnlyHolds() {
		texts = []string{"5 concurrent", "10 concurrent"}
	}
	five := ts.limiter(a, texts[0])
	ten, err := five.WithLimits(headgate.MustParseLimit(texts[1]))
	ts.mustf(err, "%s: limits %s", describe(five), texts[1])
	opts, other := &headgate.HoldOptions{TTL: time.Minute}, headgate.Check{Limiter: five, Key: "other", Cost: 1}
	for _, limiters := range [][2]*headgate.Limiter{{five, ten}, {ten, five}} {
		h, err := headgate.HoldAllAt(background, start.Time(), opts, other,
			headgate.Check{Limiter: limiters[0], Key: "key", Cost: 2}, headgate.Check{Limiter: limiters[1], Key: "key", Cost: 2})
		if !errors.Is(err, headgate.ErrInvalidHold) {
			ts.failf("%s: hold of one key under %v: got %+v, error %v want ErrInvalidHold", describe(limiters[0]), texts, h, err)
		}
	}
	ts.mustRemain(five, start, "other", 5, "a hold was rejected")
	ts.mustRemain(ten, start, "key", 10, "a hold was rejected")
	_, err = headgate.HoldAllAt(background, start.Time(), opts,
		headgate.Check{Limiter: ten, Key: "key", Cost: 2}, headgate.Check{Limiter: ten, Key: "key", Cost: 3}, headgate.Check{Limiter: five, Key: "third", Cost: 1})
	ts.mustf(err, "%s: two checks with one limit", describe(ten))
	ts.mustRemain(ten, start, "key", 5, "a hold has two checks of 2 and 3")
}

// checkConflictBeforeTooMany tests a hold that was opened before with other costs of one
// key, while another key has as many holds as it may have.
func checkConflictBeforeTooMany(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	limit := "10/1h"
	if a.OnlyHolds() {
		limit = "10 concurrent"
	}
	l := ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}, Holds: headgate.HoldSettings{MaxOpen: 1},
	})
	open := func(id string, checks ...headgate.Check) error {
		_, err := headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{ID: id, TTL: time.Minute}, checks...)
		return err
	}
	for i := range 8 { // in a cluster, the keys are in different hash slots
		first := headgate.Check{Limiter: l, Key: fmt.Sprint("known ", i), Cost: 1}
		full := headgate.Check{Limiter: l, Key: fmt.Sprint("full ", i), Cost: 1}
		ts.mustf(open("id", first), "%s: hold", describe(l))
		ts.mustf(open("other", full), "%s: another hold", describe(l))
		for _, checks := range [][]headgate.Check{{first, full}, {full, first}} {
			if err := open("id", checks...); !errors.Is(err, headgate.ErrHoldConflict) {
				ts.failf("%s: hold of a known id, and of a key with too many holds: got error %v want ErrHoldConflict", describe(l), err)
			}
		}
		ts.mustRemain(l, start, first.Key, 9, "a hold was a conflict")
		ts.mustRemain(l, start, full.Key, 9, "a hold was a conflict")
	}
}
