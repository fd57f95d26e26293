package fallback_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

// A server that answers reads and rejects writes, like a replica, does not count as
// recovered.
func TestReadOnlyServerIsNotRecovered(t *testing.T) { // T40
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(failWith(headgate.ReasonRefused))
		o.openBreaker()
		o.inner.readOnly.Store(true)
		o.inner.clearFault()
		var taken int
		for range 10_000 {
			if got := o.take("key"); got == headgate.ReasonRefused {
				taken++
			}
			time.Sleep(time.Millisecond)
		}
		if taken < 30 || taken > 40 {
			t.Errorf("a store that answers probes only: %d callers of 10,000 tried it want one for each probe, 4 a second", taken)
		}
		o.requireEvents("unavailable: refused")
		o.inner.readOnly.Store(false)
		time.Sleep(250 * time.Millisecond)
		for range 3 {
			o.take("key")
		}
		o.requireEvents("unavailable: refused", "recovered")
	})
}

// The probe uses the key that failed: another key may be on an available node.
func TestProbeRequestsFailedKey(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "key" {
				return failWith(headgate.ReasonRefused)(ctx, key)
			}
			return nil
		})
		o.openBreaker()
		for range 1000 {
			if got := o.take("another key"); got != headgate.ReasonBreakerOpen {
				o.t.Fatalf("with what failed still failing: got %v want breaker open", got)
			}
			time.Sleep(10 * time.Millisecond)
		}
		o.requireEvents("unavailable: refused")
	})
}

// The store is probed without traffic too, and decides the first request after its
// recovery.
func TestFirstCallerAfterAnOutage(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(failWith(headgate.ReasonUnreachable))
		o.openBreaker()
		time.Sleep(time.Minute)
		o.inner.clearFault()
		time.Sleep(time.Minute)
		if got := o.take("key"); got != headgate.ReasonNone {
			t.Errorf("a minute after the recovery: got %v want its own decision", got)
		}
	})
}

func TestFlappingStoreGrantsOneLocalShare(t *testing.T) { // T40: flapping
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, recorder := newFaultyStore(), &eventRecorder{}
		s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 2, Observer: recorder})
		l := limiter(t, s, "", "100/1m", headgate.FailLocal)
		began, local := time.Now(), 0
		for range 50 {
			inner.set(failWith(headgate.ReasonUnreachable))
			for range 200 {
				if d, err := l.Allow(background, "key"); err != nil {
					t.Fatal(err)
				} else if d.Allowed && d.Degraded != headgate.ReasonNone {
					local++
				}
				time.Sleep(time.Millisecond)
			}
			inner.clearFault()
			time.Sleep(300 * time.Millisecond)
			for range 3 {
				l.Allow(background, "key")
			}
		}
		if most := 50 + int(50*time.Since(began)/time.Minute) + 1; local > most {
			t.Errorf("50 outages in %v: %d units of a share of 50/1m went ahead want at most %d", time.Since(began), local, most)
		}
		synctest.Wait()
		var want []string
		for range 50 {
			want = append(want, "unavailable: unreachable", "recovered")
		}
		if got := recorder.names(); !slices.Equal(got, want) {
			t.Errorf("the observer heard %d changes of 50 outages: %q want unavailable and recovered for each", len(got), got)
		}
	})
}

// The store and the local share together allow at most twice as much as the store alone,
// although their sum grows with each outage.
func TestFlappingStoreTotal(t *testing.T) { // T40: flapping
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := newFaultyStore()
		l := limiter(t, around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 1}), "", "20/10s", headgate.FailLocal)
		began, allowed := time.Now(), 0
		spend := func() {
			for range 1000 {
				if d, err := l.Allow(background, "key"); err == nil && d.Allowed {
					allowed++
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
		for range 6 {
			inner.set(failWith(headgate.ReasonUnreachable))
			spend()
			inner.clearFault()
			time.Sleep(300 * time.Millisecond)
			spend()
		}
		alone := 20 + int(20*time.Since(began)/(10*time.Second))
		if allowed <= alone+2*20 || allowed > 2*alone+1 {
			t.Errorf("6 outages: got %d allowed want more than %d and at most %d", allowed, alone+2*20, 2*alone+1)
		}
	})
}

// Closing a store during an outage stops the probes, including one in flight.
func TestCloseDuringOutage(t *testing.T) {
	t.Parallel()
	for _, wait := range []time.Duration{0, 100 * time.Millisecond, 255 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			inner := newFaultyStore()
			s := around(t, inner, nil)
			l := limiter(t, s, "", "10/1s", headgate.FailOpen)
			var asking atomic.Int64
			inner.set(func(ctx context.Context, key string) error {
				asking.Add(1)
				defer asking.Add(-1)
				defer time.Sleep(time.Millisecond)
				return hangs(ctx, key)
			})
			for range 10 {
				l.Allow(background, "key")
			}
			time.Sleep(wait)
			began := time.Now()
			if err := s.Close(); err != nil || time.Since(began) > time.Millisecond || asking.Load() != 0 {
				t.Errorf("got error %v after %v, %d still asking want none", err, time.Since(began), asking.Load())
			}
			if _, err := l.Allow(background, "key"); !errors.Is(err, headgate.ErrClosed) {
				t.Errorf("afterwards: got error %v want ErrClosed", err)
			}
		})
	}
}

// An observer may call the store.
func TestObserverMayCallStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner, asks := newFaultyStore(), &asking{}
		s := around(t, inner, &fallback.Options{Observer: asks})
		l := limiter(t, s, "", "1000/1s", headgate.FailOpen)
		asks.limiter = l
		inner.set(failWith(headgate.ReasonUnreachable))
		for range 100 {
			l.Allow(background, "key")
			time.Sleep(time.Millisecond)
		}
		inner.clearFault()
		time.Sleep(time.Second)
		for range 10 {
			l.Allow(background, "key")
		}
		synctest.Wait()
		if got := fmt.Sprint(asks.answers); got != "[breaker open none]" {
			t.Errorf("called at the outage and at the recovery: got %s want [breaker open none]", got)
		}
	})
}

type asking struct {
	limiter *headgate.Limiter
	answers []headgate.StoreErrorReason
}

func (a *asking) ObserveStore(headgate.StoreEvent) {
	d, _ := a.limiter.Allow(background, "key")
	a.answers = append(a.answers, d.Degraded)
}
