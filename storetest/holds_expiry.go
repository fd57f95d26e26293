package storetest

import (
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// expiringLimiter returns a limiter of 10 units whose expired holds are released.
func (ts *tester) expiringLimiter(a headgate.Algorithm) *headgate.Limiter {
	text := "10/1h"
	if a.OnlyHolds() {
		text = "10 concurrent"
	}
	return ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(text)}, Holds: headgate.HoldSettings{OnExpiry: headgate.ReleaseExpired},
	})
}

// checkSeparateDeadlines tests that each hold of a key has its own deadline. A store with
// one TTL for the units of all holds ends them together.
func checkSeparateDeadlines(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	for i, ttls := range [][2]time.Duration{{time.Minute, 3 * time.Minute}, {3 * time.Minute, time.Minute}} {
		l, key := ts.expiringLimiter(a), fmt.Sprint("key ", i)
		costs := [2]int64{3, 2}
		for j, ttl := range ttls {
			ts.hold(l, start, key, costs[j], ttl)
		}
		first, second := start+60_000_000, start+180_000_000
		later := costs[1-i] // units of the hold that expires later
		ts.mustRemain(l, first-1, key, 5, "two holds are open")
		ts.mustRemain(l, first, key, 10-later, "one of two holds has expired")
		ts.hold(l, first, key, 1, time.Hour) // a write
		ts.mustRemain(l, second-1, key, 9-later, "one of two holds has expired, and a third was opened")
		ts.mustRemain(l, second, key, 9, "two of three holds have expired")
	}
}

// checkDeadlinesAreKept tests that further holds do not change the deadline of a hold.
// In a store with one TTL for the units of all holds, which each new hold renews, they
// never end.
func checkDeadlinesAreKept(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	l := ts.expiringLimiter(a)
	leaked := ts.hold(l, start, "key", 4, time.Minute)
	at := start
	for range 5 {
		at += 10_000_000
		h := ts.hold(l, at, "key", 1, time.Minute)
		ts.mustRemain(l, at, "key", 5, "a hold of 4 units is open, and one of 1")
		_, err := h.CancelAt(background, at.Time())
		ts.mustf(err, "%s: cancel", describe(l))
	}
	last := ts.hold(l, at+9_999_999, "key", 1, time.Minute)
	ts.mustRemain(l, start+60_000_000-1, "key", 5, "just before the deadline of the first hold")
	ts.mustRemain(l, start+60_000_000, "key", 9, "further holds were opened, and the first has expired")
	_, err := leaked.CommitAt(background, (start + 60_000_000).Time(), 9)
	if ts.mustRemain(l, start+60_000_000, "key", 9, "a hold was committed after its deadline"); err == nil {
		ts.failf("%s: commit after the deadline: got no error", describe(l))
	}
	_, err = last.ExtendAt(background, (start + 60_000_000).Time(), time.Minute)
	ts.mustf(err, "%s: extend the last hold", describe(l))
}
