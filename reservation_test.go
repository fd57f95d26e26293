package headgate_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// newSpentLimiter returns a limiter of 1/s with no units left at noon.
func newSpentLimiter(t *testing.T) *headgate.Limiter {
	t.Helper()
	l := newLimiter(t, memstore.New(nil), "api", nil, "1/s burst 3")
	if d, err := l.AllowAt(t.Context(), noon.Time(), "key", 3); err != nil || !d.Allowed {
		t.Fatalf("got %+v, error %v want allowed", d, err)
	}
	return l
}

func reserveAt(t *testing.T, l *headgate.Limiter, cost int64, longest time.Duration) *headgate.Reservation {
	t.Helper()
	r, err := l.ReserveAt(t.Context(), noon.Time(), "key", cost, longest)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReserve(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name    string
		cost    int64
		longest time.Duration
		ok      bool
		delay   time.Duration
		never   bool
	}{
		{"what comes in time", 2, 2 * time.Second, true, 2 * time.Second, false},
		{"what comes too late", 2, 2*time.Second - time.Microsecond, false, 0, false},
		{"no patience", 1, 0, false, 0, false},
		{"less than none", 1, -time.Hour, false, 0, false},
		{"nothing", 0, 0, true, 0, false},
		{"more than the limit", 4, headgate.MaxFillTime, false, 0, true},
	} {
		r := reserveAt(t, newSpentLimiter(t), c.cost, c.longest)
		if d := r.Decision(); r.OK() != c.ok || r.Delay() != c.delay || d.Allowed != c.ok || d.Never != c.never {
			t.Errorf("%s: got %+v want ok=%v, delay %v, never=%v", c.name, d, c.ok, c.delay, c.never)
		}
		if d := r.Decision(); !c.ok && !c.never && d.RetryAfter != time.Duration(c.cost)*time.Second {
			t.Errorf("%s: got retry after %v want the wait for %d", c.name, d.RetryAfter, c.cost)
		}
	}
}

func TestReserveRejectsUnsupportedPolicies(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]*headgate.Limiter{
		"several limits":   newLimiter(t, memstore.New(nil), "", nil, "1/s", "9/m"),
		"a fixed window":   newAlgorithmLimiter(t, memstore.New(nil), headgate.FixedWindow, "1/s"),
		"a sliding window": newAlgorithmLimiter(t, memstore.New(nil), headgate.SlidingWindow, "1/s"),
		"a sliding log":    newAlgorithmLimiter(t, memstore.New(nil), headgate.SlidingLog, "1/s"),
	} {
		if r, err := l.Reserve(t.Context(), "key", 1, time.Hour); r != nil || !errors.Is(err, headgate.ErrUnsupported) {
			t.Errorf("%s: got %v, error %v want none and ErrUnsupported", name, r, err)
		}
		if d, err := l.PeekN(t.Context(), "key", 1); err != nil || !d.Allowed {
			t.Errorf("%s: after the refusal: got %+v, error %v want nothing spent", name, d, err)
		}
	}
}

func mustResetAfter(t *testing.T, l *headgate.Limiter, want time.Duration, when string) {
	t.Helper()
	if d, err := l.PeekAt(t.Context(), noon.Time(), "key", 0); err != nil || d.ResetAfter != want {
		t.Errorf("%s: got reset after %v, error %v want %v", when, d.ResetAfter, err, want)
	}
}

func TestCancelReservation(t *testing.T) {
	t.Parallel()
	l := newSpentLimiter(t)
	first, second := reserveAt(t, l, 2, time.Hour), reserveAt(t, l, 1, time.Hour)
	mustResetAfter(t, l, 6*time.Second, "3 spent and 3 booked")
	if err := second.CancelAt(t.Context(), time.UnixMicro(-1)); !errors.Is(err, headgate.ErrInvalidInstant) {
		t.Errorf("cancel at an instant before 1970: got error %v want ErrInvalidInstant", err)
	}
	for _, when := range []string{"the second was cancelled", "it was cancelled again"} {
		if err := second.CancelAt(t.Context(), noon.Time()); err != nil {
			t.Fatal(err)
		}
		mustResetAfter(t, l, 5*time.Second, when)
	}
	if err := first.CancelAt(t.Context(), noon.Time()); err != nil {
		t.Fatal(err)
	}
	mustResetAfter(t, l, 3*time.Second, "both were cancelled")
}

// A cancellation refunds only its own reservation.
func TestCancelRefundsOnlyItsReservation(t *testing.T) {
	t.Parallel()
	l := newSpentLimiter(t)
	first := reserveAt(t, l, 2, time.Hour)
	refused := reserveAt(t, l, 1, 0)
	if err := refused.CancelAt(t.Context(), noon.Time()); err != nil || refused.OK() {
		t.Errorf("cancel what was never booked: got error %v want none", err)
	}
	mustResetAfter(t, l, 5*time.Second, "2 are booked, and a refusal was cancelled")
	for range 2 {
		if err := first.CancelAt(t.Context(), noon.Time()); err != nil {
			t.Fatal(err)
		}
		reserveAt(t, l, 2, time.Hour)
	}
	mustResetAfter(t, l, 7*time.Second, "2 were booked, cancelled, booked by another, cancelled again, and 2 booked behind that")
}

func TestReserveWithoutMaxDelay(t *testing.T) {
	t.Parallel()
	for _, longest := range []time.Duration{0, -time.Hour} {
		l := newLimiter(t, memstore.New(nil), "api", nil, "1/s")
		if r := reserveAt(t, l, 1, longest); !r.OK() || r.Delay() != 0 {
			t.Errorf("reserve what is there within %v: got %+v want booked immediately", longest, r.Decision())
		}
	}
}

func TestCancelAfterDue(t *testing.T) {
	t.Parallel()
	l := newSpentLimiter(t)
	r := reserveAt(t, l, 1, time.Hour)
	if err := r.CancelAt(t.Context(), (noon + 1_000_000).Time()); err != nil {
		t.Fatal(err)
	}
	mustResetAfter(t, l, 4*time.Second, "cancelled when it was due")
}

func TestConcurrentCancel(t *testing.T) {
	t.Parallel()
	l := newSpentLimiter(t)
	reserveAt(t, l, 3, time.Hour)
	r := reserveAt(t, l, 1, time.Hour)
	var all sync.WaitGroup
	var failed atomic.Int64
	for range 32 {
		all.Go(func() {
			if r.CancelAt(t.Context(), noon.Time()) != nil {
				failed.Add(1)
			}
		})
	}
	all.Wait()
	if failed.Load() > 0 {
		t.Errorf("%d of 32 cancellations failed", failed.Load())
	}
	mustResetAfter(t, l, 6*time.Second, "one booking behind 3 others was cancelled 32 times immediately")
}
