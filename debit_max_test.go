package headgate_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// debitLimit is the number of units of the limit 1000000/1h.
const debitLimit = 1_000_000

// owed are the algorithms whose states count a limited number of units, and the maximum
// that a key can have spent under the limit 1000000/1h: docs/reference/algorithms.md.
var owed = map[headgate.Algorithm]int64{
	headgate.TokenBucketInterval: debitLimit + headgate.MaxUnits,
	headgate.SlidingWindow:       1<<30 - 1,
	headgate.SlidingLog:          1<<30 - 1,
	headgate.FixedWindow:         headgate.MaxWindowUnits,
	headgate.CalendarWindow:      headgate.MaxWindowUnits,
}

// A debit and an actual cost that the state cannot count are an error with what is
// accepted, and change nothing. The maximum itself is counted.
func TestMaxDebit(t *testing.T) {
	t.Parallel()
	for a := range owed {
		l := debitLimiter(t, a)
		h, err := l.HoldAt(t.Context(), noon.Time(), "k", 4, time.Hour)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		most := a.MaxDebit()
		for name, call := range map[string]func(n int64) error{
			"debit":  func(n int64) error { _, err := l.DebitAt(t.Context(), noon.Time(), "k", n); return err },
			"commit": func(n int64) error { _, err := h.CommitAt(t.Context(), noon.Time(), n); return err },
		} {
			err := call(most + 1)
			want := fmt.Sprintf("cost is %d; must be 0 to %d in a %s under %s; ", most+1, most, name, a) + map[string]string{
				"debit":  "charge the cost with several debits",
				"commit": fmt.Sprintf("the hold is still open: commit at most %d, or cancel it", most),
			}[name]
			if !errors.Is(err, headgate.ErrInvalidCost) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s, %s of %d: got error %v want ErrInvalidCost with %s", a, name, most+1, err, want)
			}
		}
		if d, err := l.PeekAt(t.Context(), noon.Time(), "k", 0); err != nil || d.Remaining != debitLimit-4 {
			t.Errorf("%s: got %+v, error %v want %d remaining", a, d, err, debitLimit-4)
		}
		if _, err := l.DebitAt(t.Context(), noon.Time(), "k", most-4); err != nil {
			t.Errorf("%s: debit of %d: %v", a, most-4, err)
		}
		mustOwe(t, l, most) // all but 5
		if d, err := h.CancelAt(t.Context(), noon.Time()); err != nil || d.Replayed || d.Remaining != debitLimit-1 {
			t.Errorf("%s: cancel after the rejected commit: got %+v, error %v want %d remaining", a, d, err, debitLimit-1)
		}
	}
}

// Debits that add up to more than a state can count end at the documented maximum.
func TestMaxOwed(t *testing.T) {
	t.Parallel()
	for a, most := range owed {
		l := debitLimiter(t, a)
		for range 3 {
			if _, err := l.DebitAt(t.Context(), noon.Time(), "k", a.MaxDebit()); err != nil {
				t.Fatal(err)
			}
		}
		mustOwe(t, l, most)
	}
}

func debitLimiter(t *testing.T, a headgate.Algorithm) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(memstore.New(nil), headgate.Policy{Name: "p", Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit("1000000/1h")}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// mustOwe refunds all but 5 of the given number of units, and fails unless 5 units are
// spent then.
func mustOwe(t *testing.T, l *headgate.Limiter, spent int64) {
	t.Helper()
	d, err := l.RefundAt(t.Context(), noon.Time(), "k", spent-5)
	if err != nil || d.Remaining != debitLimit-5 {
		t.Errorf("%s: after %d units and a refund of all but 5: got %+v, error %v want %d remaining", l.Policy().Algorithm, spent, d, err, debitLimit-5)
	}
}
