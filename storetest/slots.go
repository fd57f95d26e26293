package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// slotChecks tests the algorithm under which only holds take units, which are then called
// slots.
func slotChecks() []check {
	return []check{
		{name: "slots equal model", rule: "decisions on slots equal the model, for random holds, extensions and commits", once: checkSlots},
		{name: "slot errors", rule: "an operation that would take slots without a hold is a typed error, and charges nothing", once: checkSlotErrors},
		{name: "slots are released", rule: "slots are available again when their hold ends or expires, and no key is kept without holds", once: checkSlotsReleased},
		{name: "extend many holds in one call", rule: "one call extends several holds of one key and of others", once: checkExtendAll},
		{name: "atomic slots", rule: "concurrent requests never hold more slots than the limit", once: checkAtomicSlots},
		{name: "hold of slots and a rate", rule: "a hold of slots and a rate takes both or nothing", once: checkSlotsAndRates},
		{name: "each hold of slots has a deadline", rule: "the slots of each hold are released at its own deadline", once: ofSlots(checkSeparateDeadlines)},
		{name: "deadlines of slots are kept", rule: "further holds of slots do not change the deadline of a hold", once: ofSlots(checkDeadlinesAreKept)},
		{name: "hold of the largest costs of slots", rule: "the slots of one key in a hold are added exactly, also if their sum is above 2^53 - 1", once: ofSlots(checkLargestCosts)},
		{name: "repeated hold of slots with another request", rule: "a repeated id with other keys or slots is a conflict and takes nothing; with the same ones it is replayed", once: ofSlots(checkHoldConflicts)},
		{name: "repeated capped hold of slots", rule: "a repeated request of a capped hold of slots is recognized by its costs, also under a changed limit", once: ofSlots(checkCappedHolds)},
		{name: "hold of slots of one key under several limits", rule: "a hold of slots of one key under several limits is an error and takes nothing", once: ofSlots(checkHoldOfVariants)},
		{name: "records of ended holds of slots", rule: "a key keeps as many ended holds of slots as it may have open ones, those with the latest deadlines", once: ofSlots(checkEndedHolds)},
		{name: "errors of holds of slots", rule: "a hold of slots that cannot be opened or ended is a typed error, and nothing is taken", once: ofSlots(checkHoldErrors)},
	}
}

// ofSlots returns a check that tests holds of slots as holds of other algorithms.
func ofSlots(test func(*tester, headgate.Algorithm)) func(*tester) {
	return func(ts *tester) {
		if ts.hasSlots() {
			test(ts, headgate.Concurrency)
		}
	}
}

// hasSlots reports whether the store has slots. If it has not, Bind must return
// [headgate.ErrUnsupported].
func (ts *tester) hasSlots() bool {
	_, ok := ts.store.(headgate.HoldStore)
	if ok && !slices.Contains(ts.options.Unsupported, headgate.Concurrency) {
		return true
	}
	b, err := ts.store.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1 concurrent"), Algorithm: headgate.Concurrency})
	if !errors.Is(err, headgate.ErrUnsupported) {
		ts.failf("bind concurrency: got %v, error %v want ErrUnsupported", b, err)
	}
	return false
}

func checkSlots(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	ts.holdTraces(headgate.Concurrency, ts.options.Decisions/8)
}

// hold opens a hold of units slots.
func (ts *tester) hold(l *headgate.Limiter, at headgate.Instant, key string, units int64, ttl time.Duration) *headgate.Hold {
	h, err := l.HoldAt(background, at.Time(), key, units, ttl)
	ts.mustf(err, "%s: hold %d of %q", describe(l), units, key)
	return h
}

func checkSlotErrors(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	l := ts.limiter(headgate.Concurrency, "2 concurrent")
	h := ts.hold(l, start, "key", 1, time.Minute)
	for what, call := range map[string]func() error{
		"take":   func() error { _, err := l.AllowAt(background, start.Time(), "key", 1); return err },
		"refund": func() error { _, err := l.RefundAt(background, start.Time(), "key", 1); return err },
		"debit":  func() error { _, err := l.DebitAt(background, start.Time(), "key", 1); return err },
		"up to":  func() error { _, _, err := l.TakeUpToAt(background, start.Time(), "key", 1); return err },
		"take by the store": func() error {
			rule := headgate.Rule{Scope: "scope", Limit: headgate.MustParseLimit("2 concurrent"), Algorithm: headgate.Concurrency}
			b, err := ts.store.Bind(rule)
			ts.mustf(err, "bind concurrency")
			if _, err = b.Apply(background, start, "key", headgate.Take, 1); !errors.Is(err, headgate.ErrHoldRequired) {
				return err
			}
			return ts.store.ApplyAll(background, start, []headgate.Op{{Bound: b, Key: "key", Cost: 1}}, false, make([]headgate.Decision, 1))
		},
	} {
		if err := call(); !errors.Is(err, headgate.ErrHoldRequired) {
			ts.failf("%s: %s: got error %v want ErrHoldRequired", describe(l), what, err)
		}
	}
	ts.mustRemain(l, start, "key", 1, "one hold is open, and everything else was an error")
	_, err := h.CancelAt(background, start.Time())
	ts.mustf(err, "%s: cancel", describe(l))
	_, err = h.ExtendAt(background, start.Time(), time.Minute)
	if !errors.Is(err, headgate.ErrUnknownHold) {
		ts.failf("%s: extend a cancelled hold: got error %v want ErrUnknownHold", describe(l), err)
	}
}

func checkSlotsReleased(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	l := ts.limiter(headgate.Concurrency, "4 concurrent")
	ts.hold(l, start, "other", 1, time.Minute) // so that the store has written all keys of its own
	before := ts.ttls()
	committed, cancelled := ts.hold(l, start, "key", 1, time.Minute), ts.hold(l, start, "key", 1, time.Minute)
	expired := ts.hold(l, start, "key", 2, time.Second)
	ts.mustRemain(l, start, "key", 0, "all slots are held")
	_, err := committed.CommitAt(background, start.Time(), 1)
	ts.mustf(err, "%s: commit", describe(l))
	ts.mustRemain(l, start, "key", 1, "a hold of one slot was committed with 1")
	_, err = cancelled.CancelAt(background, start.Time())
	ts.mustf(err, "%s: cancel", describe(l))
	_, err = cancelled.CommitAt(background, start.Time(), 5)
	ts.mustf(err, "%s: commit after a cancellation", describe(l))
	later := start + 1_000_000
	ts.mustRemain(l, later-1, "key", 2, "just before the deadline of the other two slots")
	ts.mustRemain(l, later, "key", 4, "the last hold has expired")
	_, err = expired.ExtendAt(background, later.Time(), time.Minute)
	if !errors.Is(err, headgate.ErrExpiredHold) {
		ts.failf("%s: extend at the deadline: got error %v want ErrExpiredHold", describe(l), err)
	}
	_, err = expired.ExtendAt(background, start.Time(), time.Minute)
	if !errors.Is(err, headgate.ErrUnknownHold) && !errors.Is(err, headgate.ErrExpiredHold) {
		ts.failf("%s: extend an expired hold after the clock went back: got error %v want ErrUnknownHold", describe(l), err)
	}
	ts.mustRemain(l, start, "key", 4, "the clock went back after the hold had expired")
	kept := 0
	for _, ttl := range ts.newKeys(before) {
		if ttl > 10*time.Second { // a store may let an unused key expire instead of deleting it
			kept++
		}
	}
	if kept > 2 {
		ts.failf("%s: no hold is open and 2 were ended: got %d keys want at most the records of the 2", describe(l), kept)
	}
}

func checkExtendAll(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	l := ts.limiter(headgate.Concurrency, "9 concurrent")
	holds := make([]*headgate.Hold, 6)
	for i := range holds {
		holds[i] = ts.hold(l, start, keyNames[i/4], 1, time.Second)
	}
	_, err := holds[1].CancelAt(background, start.Time())
	ts.mustf(err, "%s: cancel", describe(l))
	results, err := headgate.ExtendAllAt(background, start.Time(), time.Minute, holds[:5]...)
	ts.mustf(err, "%s: extend 5 holds", describe(l))
	for i, r := range results {
		if want := i == 1; errors.Is(r.Err, headgate.ErrUnknownHold) != want || !want && r.Err != nil {
			ts.failf("%s: extend hold %d of 5: got error %v, want ErrUnknownHold: %t", describe(l), i+1, r.Err, want)
		}
	}
	later := start + 59_000_000
	ts.mustRemain(l, later, keyNames[0], 6, "3 of 4 holds were extended")
	ts.mustRemain(l, later, keyNames[1], 8, "1 of 2 holds was extended")
}

// checkAtomicSlots lets 64 goroutines open and end holds. Each of them counts how many
// are open between the two calls.
func checkAtomicSlots(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	const limit = 5
	l := ts.limiter(headgate.Concurrency, fmt.Sprint(limit, " concurrent"))
	for round := range max(1, ts.options.Rounds/10) {
		key, open := fmt.Sprint("key ", round), atomic.Int64{}
		ts.concurrently(func(int) error {
			for range 3 {
				h, err := l.HoldAt(background, start.Time(), key, 1, time.Minute)
				if err != nil || !h.OK() {
					return err
				}
				if n := open.Add(1); n > limit {
					return fmt.Errorf("%d holds are open, limit %d", n, limit)
				}
				open.Add(-1)
				if _, err := h.CancelAt(background, start.Time()); err != nil {
					return err
				}
			}
			return nil
		})
		ts.mustRemain(l, start, key, limit, "all holds have ended")
	}
}

func checkSlotsAndRates(ts *tester) {
	if !ts.hasSlots() {
		return
	}
	l := ts.limiterFor(headgate.Policy{
		Name: ts.name(), Limits: []headgate.Limit{headgate.MustParseLimit("3/1h"), headgate.MustParseLimit("1 concurrent")},
	})
	first := ts.hold(l, start, "key", 1, time.Minute)
	d := ts.hold(l, start, "key", 1, time.Minute).Decision()
	if d.Allowed || d.RetryAfter != time.Minute {
		ts.failf("%s: the slot is taken: got %s want a denial for 1m", describe(l), formatDecision(d))
	}
	for range 2 {
		_, err := first.CommitAt(background, start.Time(), 1)
		ts.mustf(err, "%s: commit", describe(l))
		if first = ts.hold(l, start, "key", 1, time.Minute); !first.OK() {
			ts.failf("%s: the denial has spent the rate: got %s", describe(l), formatDecision(first.Decision()))
		}
	}
	_, err := first.CommitAt(background, start.Time(), 1)
	ts.mustf(err, "%s: commit", describe(l))
	if d = ts.hold(l, start, "key", 1, time.Minute).Decision(); d.Allowed || len(d.DeniedBy) != 1 || !strings.HasSuffix(d.DeniedBy[0], "3/h") {
		ts.failf("%s: the rate is spent: got %s", describe(l), formatDecision(d))
	}
	after, err := l.PeekAt(background, start.Time(), "key", 1)
	ts.mustf(err, "%s: peek", describe(l))
	if len(after.DeniedBy) != 1 || !strings.HasSuffix(after.DeniedBy[0], "3/h") {
		ts.failf("%s: a denial by the rate has taken the slot: got %s", describe(l), formatDecision(after))
	}
}
