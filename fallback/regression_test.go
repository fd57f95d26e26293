package fallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
)

// A key that holds something else, and failed last when the store went away, must not
// keep the store away: it was answered.
func TestProbeOfAForeignValueIsAnswered(t *testing.T) {
	t.Parallel()
	inBubble(t, fallback.Options{}, headgate.FailOpen, func(o *bubble) {
		o.inner.set(trouble(headgate.ReasonUnreachable))
		o.fail()
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "key" {
				return trouble(headgate.ReasonWrongType)(ctx, key)
			}
			return nil
		})
		time.Sleep(300 * time.Millisecond)
		for range 3 {
			if got := o.ask("another key"); got != headgate.ReasonNone {
				t.Errorf("another key, once the store is back: got %v want its own decision", got)
			}
		}
		o.mustHear("away: unreachable", "back")
	})
}

// Of several keys any may be the one that lies on a server which is away: all are
// probed, so that no caller has to find out.
func TestProbeAsksForAllKeysThatFailed(t *testing.T) {
	t.Parallel()
	inBubble(t, fallback.Options{}, headgate.FailOpen, func(o *bubble) {
		s := o.store
		b, err := s.Bind(headgate.Rule{Scope: "p", Name: "p", Limit: headgate.MustParseLimit("1000000/1s"), OnStoreError: headgate.FailOpen})
		if err != nil {
			o.t.Fatal(err)
		}
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "away" {
				return hangs(ctx, key)
			}
			return nil
		})
		ops := []headgate.Op{{Bound: b, Key: "here", Cost: 1}, {Bound: b, Key: "away", Cost: 1}}
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
			t.Errorf("in 20 s with one of two keys away %d callers waited for the server want only those until it counted as away", waited)
		}
		o.mustHear("away: timed out")
	})
}

// Callers who all have less time than half a budget, as those of a proxy do that waits
// 20 ms, find out that a store hangs as well.
func TestHurriedCallersOfAStoreThatHangs(t *testing.T) {
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
		o.mustHear()
		o.inner.set(hangs)
		began := time.Now()
		for hurry() != headgate.ReasonBreakerOpen {
			if time.Since(began) > time.Second {
				o.t.Fatal("callers with 20 ms each: after a second the store that hangs is still asked")
			}
		}
		o.mustHear("away: timed out")
		o.inner.heal()
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			hurry()
		}
		o.mustHear("away: timed out", "back")
	})
}
