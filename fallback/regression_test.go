package fallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// If the probe's key has a value of another type, the server has replied, so the outage
// ends.
func TestWrongTypeOfProbedKeyCountsAsReply(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(failWith(headgate.ReasonUnreachable))
		o.openBreaker()
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "key" {
				return failWith(headgate.ReasonWrongType)(ctx, key)
			}
			return nil
		})
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			if got := o.take("another key"); got != headgate.ReasonNone {
				t.Errorf("another key, after the recovery: got %v want its own decision", got)
			}
		}
		o.requireEvents("unavailable: unreachable", "recovered")
	})
}

// A probe uses all keys of a failed call, because any of them may be on the unavailable
// server. So no caller has to wait for it.
func TestProbeRequestsAllFailedKeys(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		s := o.store
		b, err := s.Bind(headgate.Rule{Scope: "p", Name: "p", Limit: headgate.MustParseLimit("1000000/1s"), OnStoreError: headgate.FailOpen})
		if err != nil {
			o.t.Fatal(err)
		}
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "unavailable" {
				return hangs(ctx, key)
			}
			return nil
		})
		ops := []headgate.Op{{Bound: b, Key: "available", Cost: 1}, {Bound: b, Key: "unavailable", Cost: 1}}
		var waited int
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
			start := time.Now()
			if err := s.ApplyAll(background, headgate.StoreClock, ops, false, make([]headgate.Decision, 2)); err != nil {
				o.t.Fatal(err)
			}
			if time.Since(start) > time.Millisecond {
				waited++
			}
		}
		if waited > 10 {
			t.Errorf("in 20 s with one of two keys unavailable %d callers waited for the server want only those before the breaker opened", waited)
		}
		o.requireEvents("unavailable: timed out")
	})
}

// A hanging store opens the breaker also if every caller has less time than half the
// budget, like the callers of a proxy that waits 20 ms.
func TestShortDeadlinesDetectHangingStore(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		callWithDeadline := func() headgate.StoreErrorReason {
			ctx, cancel := context.WithTimeout(background, 20*time.Millisecond)
			defer cancel()
			d, err := o.limit.Allow(ctx, "key")
			if err != nil {
				o.t.Fatal(err)
			}
			return d.Degraded
		}
		o.inner.set(func(ctx context.Context, key string) error {
			select {
			case <-ctx.Done():
				return hangs(ctx, key)
			case <-time.After(30 * time.Millisecond):
				return nil
			}
		})
		for range 200 {
			if got := callWithDeadline(); got != headgate.ReasonTimedOut {
				o.t.Fatalf("of a store that takes 30 ms: got %v want timed out", got)
			}
		}
		o.requireEvents()
		o.inner.set(hangs)
		began := time.Now()
		for callWithDeadline() != headgate.ReasonBreakerOpen {
			if time.Since(began) > time.Second {
				o.t.Fatal("callers with 20 ms each: breaker closed after a second of a hanging store")
			}
		}
		o.requireEvents("unavailable: timed out")
		o.inner.clearFault()
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			callWithDeadline()
		}
		o.requireEvents("unavailable: timed out", "recovered")
	})
}
