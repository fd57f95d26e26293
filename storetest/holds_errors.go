package storetest

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// checkHoldErrors tests the errors of holds, and that they charge nothing.
func checkHoldErrors(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	text, committed := "10/1h", int64(7)
	if a.OnlyHolds() {
		text, committed = "10 concurrent", 9
	}
	l := ts.limiterFor(headgate.Policy{
		Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(text)}, Holds: headgate.HoldSettings{MaxOpen: 2},
	})
	open := func(id string, cost int64) (*headgate.Hold, error) {
		return headgate.HoldAllAt(background, start.Time(), &headgate.HoldOptions{ID: id, TTL: time.Minute}, headgate.Check{Limiter: l, Key: "key", Cost: cost})
	}
	mustErr := func(err, want error, what string) {
		if !errors.Is(err, want) {
			ts.failf("%s: %s: got error %v want %v", describe(l), what, err, want)
		}
	}
	first, err := open("first", 3)
	ts.mustf(err, "%s: first hold", describe(l))
	again, err := open("first", 3)
	if ts.mustf(err, "%s: the same hold again", describe(l)); !again.Replayed() || !again.OK() {
		ts.failf("%s: the same hold again: got %+v want replayed", describe(l), again)
	}
	_, err = open("first", 4)
	mustErr(err, headgate.ErrHoldConflict, "another cost with the same id")
	_, err = open("second", 1)
	ts.mustf(err, "%s: second hold", describe(l))
	_, err = open("third", 1)
	mustErr(err, headgate.ErrTooManyHolds, "a third hold with a maximum of 2")
	ts.mustRemain(l, start, "key", 6, "two holds of 3 and 1 are open")
	_, err = first.CommitAt(background, start.Time(), 2)
	ts.mustf(err, "%s: commit", describe(l))
	_, err = first.CommitAt(background, start.Time(), 0)
	ts.mustf(err, "%s: the same commit again", describe(l))
	ts.mustRemain(l, start, "key", committed, "a hold of 3 was committed with 2, and its commit repeated")
	late := start.Time().Add(time.Minute)
	_, err = again.ExtendAt(background, late, time.Minute)
	mustErr(err, headgate.ErrExpiredHold, "an extension at the deadline")
	_, err = first.CommitAt(background, start.Time())
	mustErr(err, headgate.ErrInvalidHold, "a commit without an actual cost")
	_, err = l.HoldAt(background, start.Time(), "key", 1, headgate.MaxHoldTTL+1)
	mustErr(err, headgate.ErrInvalidHold, "a TTL above the maximum")
}
