package fallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// A key of a wrong type, which was the last to fail before an outage, must not keep the
// breaker open: the server replied to the probe.
func TestWrongTypeOfProbedKeyCountsAsReply(t *testing.T) {
	t.Parallel()
	inBubble(t, fallback.Options{}, headgate.FailOpen, func(o *bubble) {
		o.inner.set(failWith(headgate.ReasonUnreachable))
		o.fail()
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "key" {
				return failWith(headgate.ReasonWrongType)(ctx, key)
			}
			return nil
		})
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			if got := o.ask("another key"); got != headgate.ReasonNone {
				t.Errorf("another key after the recovery: got %v, want the decision of the store", got)
			}
		}
		o.wantEvents("unavailable: unreachable", "recovered")
	})
}

// Any of several keys may be on the unavailable server. All of them are probed, so that
// no caller has to wait for the timeout.
func TestProbeRequestsAllFailedKeys(t *testing.T) {
	t.Parallel()
	inBubble(t, fallback.Options{}, headgate.FailOpen, func(o *bubble) {
		s := o.store
		b, err := s.Bind(headgate.Rule{Scope: "p", Name: "p", Limit: headgate.MustParseLimit("1000000/1s"), OnStoreError: headgate.FailOpen})
		if err != nil {
			o.t.Fatal(err)
		}
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "down" {
				return hangs(ctx, key)
			}
			return nil
		})
		ops := []headgate.Op{{Bound: b, Key: "up", Cost: 1}, {Bound: b, Key: "down", Cost: 1}}
		var waited int
		for began := time.Now(); time.Since(began) < 20*time.Second; time.Sleep(time.Millisecond) {
			asked := time.Now()
			if err := s.ApplyAll(background, headgate.StoreClock, ops, false, make([]headgate.Decision, 2)); err != nil {
				o.t.Fatal(err)
			}
			if time.Since(asked) > time.Millisecond {
				waited++
			}
		}
		if waited > 10 {
			t.Errorf("in 20 s with one of two keys unavailable %d callers waited for the server, want only those before the breaker opened", waited)
		}
		o.wantEvents("unavailable: timed out")
	})
}

// Callers whose deadlines are all shorter than half a budget, such as those of a proxy
// that waits 20 ms, also detect that a store hangs.
func TestShortDeadlinesDetectHangingStore(t *testing.T) {
	t.Parallel()
	inBubble(t, fallback.Options{}, headgate.FailOpen, func(o *bubble) {
		hurry := func() headgate.StoreErrorReason {
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
			if got := hurry(); got != headgate.ReasonTimedOut {
				o.t.Fatalf("of a store that takes 30 ms: got %v want timed out", got)
			}
		}
		o.wantEvents()
		o.inner.set(hangs)
		began := time.Now()
		for hurry() != headgate.ReasonBreakerOpen {
			if time.Since(began) > time.Second {
				o.t.Fatal("callers with 20 ms each: after a second the store that hangs is still asked")
			}
		}
		o.wantEvents("unavailable: timed out")
		o.inner.heal()
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			hurry()
		}
		o.wantEvents("unavailable: timed out", "recovered")
	})
}
