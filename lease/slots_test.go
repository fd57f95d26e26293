package lease_test

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// slotPolicy returns a leased policy, of whose slots half may be on lease.
func slotPolicy(limits ...string) headgate.Policy {
	p := headgate.MustNamedPolicy("slots", limits...)
	p.Lease = headgate.LeaseSettings{Share: 50, TTL: time.Second}
	return p
}

func newLimiter(t testing.TB, s headgate.Store, p headgate.Policy) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func hold(t testing.TB, l *headgate.Limiter, n int64, ttl time.Duration) *headgate.Hold {
	t.Helper()
	h, err := l.Hold(ctx, "key", n, ttl)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func cancel(t testing.TB, h *headgate.Hold) {
	t.Helper()
	if _, err := h.Cancel(ctx); err != nil {
		t.Fatal(err)
	}
}

// warmSlots opens holds until one is opened in memory, and ends the others.
func warmSlots(t testing.TB, l *headgate.Limiter, ttl time.Duration) *headgate.Hold {
	t.Helper()
	for range 1000 {
		h := hold(t, l, 1, ttl)
		if h.Decision().Leased {
			return h
		}
		cancel(t, h)
		time.Sleep(time.Millisecond)
	}
	t.Fatal("no hold was opened in memory")
	return nil
}

// inStore returns the number of slots that are available in the inner store.
func inStore(t testing.TB, inner headgate.Store) int64 {
	t.Helper()
	p := slotPolicy("20 concurrent")
	p.Lease = headgate.LeaseSettings{}
	d, err := newLimiter(t, inner, p).PeekN(ctx, "key", 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// Holds of a key with many requests are opened and ended in memory. The slots that are
// not used are returned.
func TestSlotsAreLeased(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		s := open(t, inner, nil)
		l := newLimiter(t, s, slotPolicy("20 concurrent"))
		h := warmSlots(t, l, time.Minute)
		before := s.Stats()
		for range 100 {
			cancel(t, h)
			h = hold(t, l, 1, time.Minute)
			if d := h.Decision(); !d.Leased || !d.Allowed || d.Limit != 20 || d.Remaining != 19 {
				t.Fatalf("got %+v want a hold in memory", d)
			}
		}
		if st := s.Stats(); st.Calls != before.Calls || st.Decisions != before.Decisions+200 || st.Keys != 1 {
			t.Errorf("got %+v after %+v want 200 decisions in memory without a call", st, before)
		}
		if d, err := l.Peek(ctx, "key"); err != nil || d.Remaining != 19 {
			t.Errorf("peek: got %+v, error %v", d, err)
		}
		cancel(t, h)
		time.Sleep(time.Minute)
		if st := s.Stats(); st.Keys != 0 || inStore(t, inner) != 20 {
			t.Errorf("an idle key: got %+v and %d slots, want all slots in the store", st, inStore(t, inner))
		}
	})
}

// All processes together have at most the share in chunks. The store decides further
// holds, up to the limit.
func TestSlotsOfShare(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		var holds []*headgate.Hold
		leased := 0
		for range 2 {
			l := newLimiter(t, open(t, notClosed{inner}, nil), slotPolicy("20 concurrent"))
			for range 10 {
				h := warmSlotsOrStore(t, l)
				if holds = append(holds, h); h.Decision().Leased {
					leased++
				}
				time.Sleep(time.Second / 2)
			}
		}
		if leased > 10 || leased < 5 {
			t.Errorf("%d holds were opened in memory, want 5 to 10", leased)
		}
		allowed := 0
		for _, h := range holds {
			if h.OK() {
				allowed++
			}
		}
		if allowed > 20 || allowed < 19 {
			t.Errorf("%d holds were allowed want 20, or 19 if a slot is free in a process", allowed)
		}
	})
}

// warmSlotsOrStore returns a hold in memory, or one of the store after several requests.
func warmSlotsOrStore(t testing.TB, l *headgate.Limiter) (h *headgate.Hold) {
	t.Helper()
	for range 8 {
		if h = hold(t, l, 1, 30*time.Second); h.Decision().Leased || !h.OK() {
			return h
		}
		cancel(t, h)
		time.Sleep(time.Millisecond)
	}
	return hold(t, l, 1, 30*time.Second)
}

// notClosed is a store that several others wrap.
type notClosed struct{ headgate.LeaseStore }

func (notClosed) Close() error { return nil }

// A hold that another process may end is opened by the store.
func TestHoldsThatAreNotInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		s := open(t, inner, nil)
		l := newLimiter(t, s, slotPolicy("20 concurrent"))
		cancel(t, warmSlots(t, l, time.Minute))
		mixed := newLimiter(t, s, slotPolicy("20 concurrent", "1000/1h"))
		check := headgate.Check{Limiter: l, Key: "key", Cost: 1}
		for name, open := range map[string]func() (*headgate.Hold, error){
			"an id": func() (*headgate.Hold, error) {
				return headgate.HoldAll(ctx, &headgate.HoldOptions{ID: "job", TTL: time.Second}, check)
			},
			"a long ttl":      func() (*headgate.Hold, error) { return l.Hold(ctx, "key", 1, time.Hour) },
			"a time":          func() (*headgate.Hold, error) { return l.HoldAt(ctx, time.Now(), "key", 1, time.Second) },
			"a rate as well":  func() (*headgate.Hold, error) { return mixed.Hold(ctx, "key", 1, time.Second) },
			"many slots":      func() (*headgate.Hold, error) { return l.Hold(ctx, "key", 11, time.Second) },
			"more than exist": func() (*headgate.Hold, error) { return l.Hold(ctx, "key", 21, time.Second) },
		} {
			h, err := open()
			if err != nil || h.Decision().Leased || h.OK() == (name == "more than exist") {
				t.Errorf("%s: got %+v, error %v want a decision of the store", name, h.Decision(), err)
			}
			if h.OK() {
				other := newLimiter(t, inner, headgate.MustNamedPolicy("slots", "20 concurrent"))
				if name == "an id" {
					h = headgate.ResumeHold(h.ID(), h.ExpiresAt(), headgate.Check{Limiter: other, Key: "key", Cost: 1})
				}
				cancel(t, h)
			}
		}
	})
}

// A hold that was opened in memory can be resumed in the same process.
func TestResumeHoldInMemory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		l := newLimiter(t, s, slotPolicy("20 concurrent"))
		h := warmSlots(t, l, time.Second)
		again := newLimiter(t, s, slotPolicy("20 concurrent"))
		resumed := headgate.ResumeHold(h.ID(), h.ExpiresAt(), headgate.Check{Limiter: again, Key: "key", Cost: 1})
		if r, err := resumed.Extend(ctx, 30*time.Second); err != nil || !r.Leased {
			t.Errorf("extend: got %+v, error %v", r, err)
		}
		time.Sleep(20 * time.Second)
		if r, err := resumed.Commit(ctx, 1); err != nil || !r.Leased || r.Remaining != 20 {
			t.Errorf("commit: got %+v, error %v", r, err)
		}
	})
}

// The slots of a hold that expires are free. Its commit is an error.
func TestHoldInMemoryExpires(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		l := newLimiter(t, open(t, inner, nil), slotPolicy("20 concurrent"))
		h := warmSlots(t, l, 10*time.Second)
		if left := time.Until(h.ExpiresAt()); left < 9*time.Second || left > 10*time.Second {
			t.Errorf("the hold expires in %v want 10s", left)
		}
		time.Sleep(5 * time.Second)
		if _, err := h.Extend(ctx, 10*time.Second); err != nil {
			t.Errorf("extend: got error %v", err)
		}
		time.Sleep(9 * time.Second)
		if inStore(t, inner) == 20 {
			t.Error("the slot of an open hold is free in the store")
		}
		time.Sleep(time.Second)
		for _, end := range []func() error{
			func() error { _, err := h.Extend(ctx, time.Second); return err },
			func() error { _, err := h.Commit(ctx, 1); return err },
		} {
			if err := end(); !errors.Is(err, headgate.ErrExpiredHold) {
				t.Errorf("got error %v want ErrExpiredHold", err)
			}
		}
		time.Sleep(10 * time.Second)
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
	})
}

// The slots of a process that ends without Close are free after the TTL of its longest
// hold and that of the lease.
func TestSlotsAfterCrash(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		l := &stoppable{LeaseStore: inner}
		limiter := newLimiter(t, open(t, l, nil), slotPolicy("20 concurrent"))
		warmSlots(t, limiter, 10*time.Second)
		l.isDown.Store(true)
		time.Sleep(9 * time.Second)
		if inStore(t, inner) == 20 {
			t.Error("the slot of an open hold is free")
		}
		time.Sleep(3 * time.Second)
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
	})
}

// stoppable is a store that can be unavailable, or whose replies can be lost.
type stoppable struct {
	headgate.LeaseStore
	isDown, losesReplies atomic.Bool
}

func (s *stoppable) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration,
	ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	if s.isDown.Load() {
		return 0, errNetwork
	}
	bare := slices.Clone(ops)
	for i := range bare {
		bare[i].Bound = bare[i].Bound.(onlyBound).Bound
	}
	at, err := s.LeaseStore.ApplyHolds(ctx, now, verb, ttl, bare, results)
	if s.losesReplies.Load() {
		return 0, errNetwork
	}
	return at, err
}

func (s *stoppable) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.LeaseStore.Bind(rule)
	return onlyBound{b}, err
}

// onlyBound hides that a Bound is a HoldBound.
type onlyBound struct{ headgate.Bound }

// While the store is unavailable, a hold stays open until its deadline. An extension is
// an error until the store is available again.
func TestSlotsWhileStoreIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &stoppable{LeaseStore: memstore.New(nil)}
		l := newLimiter(t, open(t, inner, nil), slotPolicy("20 concurrent"))
		var lost, failed atomic.Int64
		alive, err := headgate.NewKeepAlive(&headgate.KeepAliveOptions{
			TTL: 9 * time.Second, Interval: 2 * time.Second,
			Lost: func(*headgate.Hold, error) { lost.Add(1) }, Failed: func(error) { failed.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		defer alive.Close()
		h := warmSlots(t, l, alive.TTL())
		alive.Add(h)
		time.Sleep(time.Minute)
		inner.isDown.Store(true)
		time.Sleep(5 * time.Second)
		inner.isDown.Store(false)
		time.Sleep(time.Minute)
		if lost.Load() != 0 || failed.Load() == 0 {
			t.Errorf("%d holds were lost and %d extensions failed, want none and some", lost.Load(), failed.Load())
		}
		inner.isDown.Store(true)
		time.Sleep(20 * time.Second)
		if lost.Load() != 1 {
			t.Errorf("%d holds were lost want 1", lost.Load())
		}
		inner.isDown.Store(false)
		if _, err := h.Commit(ctx, 1); !errors.Is(err, headgate.ErrExpiredHold) {
			t.Errorf("commit: got error %v want ErrExpiredHold", err)
		}
		time.Sleep(time.Minute)
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
	})
}

// A failure mode allows no chunk: while the store is unavailable, holds are opened in
// memory until the slots of the process expire, and then by the failure mode.
func TestSlotsWithFailureMode(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &stoppable{LeaseStore: memstore.New(nil)}
		reliable, err := fallback.New(inner, nil)
		if err != nil {
			t.Fatal(err)
		}
		p := slotPolicy("20 concurrent")
		p.OnStoreError = headgate.FailOpen
		l := newLimiter(t, open(t, reliable, nil), p)
		cancel(t, warmSlots(t, l, 2*time.Second))
		inner.isDown.Store(true)
		if h := hold(t, l, 1, time.Second); !h.Decision().Leased {
			t.Errorf("got %+v want a hold in memory", h.Decision())
		}
		time.Sleep(3 * time.Second)
		for range 50 {
			if d := hold(t, l, 1, time.Second).Decision(); d.Leased || d.Degraded == headgate.ReasonNone {
				t.Fatalf("got %+v want a decision of the failure mode", d)
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// An extension whose reply was lost may have made the deadlines of chunks earlier, since
// the holds became shorter. No hold is opened in memory that lasts longer.
func TestLostReplyOfExtension(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		memory := memstore.New(nil)
		inner := &stoppable{LeaseStore: memory}
		l := newLimiter(t, open(t, inner, nil), slotPolicy("20 concurrent"))
		short := func(lasts time.Duration) {
			for begun := time.Now(); time.Since(begun) < lasts; time.Sleep(10 * time.Millisecond) {
				if h, err := l.Hold(ctx, "key", 1, time.Second); err == nil && h.OK() {
					_, _ = h.Cancel(ctx)
				}
			}
		}
		for phase := range time.Duration(10) { // of the time between two ticks
			short(2*time.Second + phase*50*time.Millisecond)
			cancel(t, hold(t, l, 1, 30*time.Second))
			short(time.Second / 2)
			inner.losesReplies.Store(true)
			short(time.Second / 2)
			inner.isDown.Store(true)
			if h, err := l.Hold(ctx, "key", 1, 30*time.Second); err == nil {
				time.Sleep(time.Until(h.ExpiresAt()) - time.Millisecond)
				if inStore(t, memory) == 20 {
					t.Errorf("phase %d: a slot is free in the store 1 ms before its hold in memory expires", phase)
				}
			}
			inner.losesReplies.Store(false)
			inner.isDown.Store(false)
			time.Sleep(2 * time.Minute)
		}
	})
}

// A reset ends the holds of this process. Another process ends its own when it extends
// them.
func TestResetOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		a := newLimiter(t, open(t, notClosed{inner}, nil), slotPolicy("20 concurrent"))
		b := newLimiter(t, open(t, inner, nil), slotPolicy("20 concurrent"))
		own, others := warmSlots(t, a, 10*time.Second), warmSlots(t, b, 10*time.Second)
		if _, err := a.Reset(ctx, "key"); err != nil {
			t.Fatal(err)
		}
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
		if _, err := own.Extend(ctx, 10*time.Second); !errors.Is(err, headgate.ErrUnknownHold) {
			t.Errorf("the own hold: got error %v want ErrUnknownHold", err)
		}
		if _, err := others.Extend(ctx, time.Minute); !errors.Is(err, headgate.ErrUnknownHold) {
			t.Errorf("the hold of another process: got error %v want ErrUnknownHold", err)
		}
		time.Sleep(time.Minute)
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
	})
}

// Close returns free slots. The slots of holds stay taken until their deadlines.
func TestCloseReturnsFreeSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := memstore.New(nil)
		defer inner.Close()
		s := open(t, notClosed{inner}, nil)
		l := newLimiter(t, s, slotPolicy("20 concurrent"))
		cancel(t, warmSlots(t, l, 10*time.Second))
		s.Close()
		if got := inStore(t, inner); got != 20 {
			t.Errorf("got %d free slots want 20", got)
		}
		s = open(t, notClosed{inner}, nil)
		l = newLimiter(t, s, slotPolicy("20 concurrent"))
		warmSlots(t, l, 10*time.Second)
		s.Close()
		if got := inStore(t, inner); got == 20 {
			t.Error("the slot of an open hold is free")
		}
	})
}

// Under another limit of the same policy, the store decides.
func TestChangedLimitOfSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		l := newLimiter(t, s, slotPolicy("20 concurrent"))
		h := warmSlots(t, l, 10*time.Second)
		changed := newLimiter(t, s, slotPolicy("2 concurrent"))
		first := hold(t, changed, 1, 10*time.Second)
		if d := first.Decision(); d.Leased || !d.Allowed || d.Limit != 2 {
			t.Errorf("got %+v want a decision of the store", d)
		}
		if d := hold(t, changed, 1, 10*time.Second).Decision(); d.Allowed {
			t.Errorf("got %+v want a denial", d)
		}
		cancel(t, h)
		cancel(t, first)
		time.Sleep(time.Minute)
		if st := s.Stats(); st.Keys != 0 {
			t.Errorf("got %+v want no leased key", st)
		}
	})
}

// EffectOf reports the share of the slots.
func TestEffectOfSlots(t *testing.T) {
	t.Parallel()
	rule := headgate.Rule{
		Limit: headgate.Limit{Rate: 20, Concurrent: true}, Algorithm: headgate.Concurrency,
		Lease: headgate.LeaseSettings{Share: 10},
	}
	if e := lease.EffectOf(rule); e.Reason != "" || e.Units != 2 || e.MinCalls != 8 || e.MaxCalls < e.MinCalls {
		t.Errorf("got %+v", e)
	}
	if rule.Limit.Rate = 9; lease.EffectOf(rule).Reason == "" {
		t.Error("9 slots: want no lease of a share below one slot")
	}
}

// A process whose clock is fast by 1 % does not give the slots of a hold to another one
// before the deadline that it has reported, which is a time of the store's clock.
func TestFastClockKeepsSlotsUntilDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, memstore.New(nil), nil)
		lease.SetClockRate(s, 1.01)
		l := newLimiter(t, s, slotPolicy("2 concurrent")) // at most one slot is on lease
		cancel(t, warmSlots(t, l, time.Second))
		first, other := hold(t, l, 1, time.Second), hold(t, l, 1, time.Hour) // the latter is not in memory
		if !first.Decision().Leased || !other.OK() || other.Decision().Leased {
			t.Fatalf("got %+v and %+v want the first hold in memory", first.Decision(), other.Decision())
		}
		time.Sleep(time.Until(first.ExpiresAt()) - time.Millisecond)
		if d := hold(t, l, 1, 100*time.Millisecond).Decision(); d.Allowed {
			t.Errorf("a millisecond before the deadline: got %+v want a denial", d)
		}
		time.Sleep(20 * time.Millisecond)
		if d := hold(t, l, 1, 100*time.Millisecond).Decision(); !d.Allowed || !d.Leased {
			t.Errorf("after the deadline and 1 %%: got %+v want a hold in memory", d)
		}
	})
}
