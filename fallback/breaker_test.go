package fallback_test

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
	"github.com/headgate/headgate/memstore"
)

// fakeTimeTest is a store with injected faults in a synctest bubble.
type fakeTimeTest struct {
	t        *testing.T
	inner    *faultyStore
	recorder *eventRecorder
	store    *fallback.Store
	limit    *headgate.Limiter
}

func testWithFakeTime(t *testing.T, opts fallback.Options, mode headgate.OnStoreError, test func(o *fakeTimeTest)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		o := &fakeTimeTest{t: t, inner: newFaultyStore(), recorder: &eventRecorder{}}
		opts.Observer = o.recorder
		if mode == headgate.FailLocal {
			opts.Local, opts.Instances = memstore.New(nil), 1
		}
		o.store = around(t, o.inner, &opts)
		o.limit = limiter(t, o.store, "", "1000000/1s", mode)
		test(o)
	})
}

// take takes one unit of key and returns the error reason.
func (o *fakeTimeTest) take(key string) headgate.StoreErrorReason {
	o.t.Helper()
	d, err := o.limit.Allow(background, key)
	var typed *headgate.StoreError
	if errors.As(err, &typed) {
		return typed.Reason
	}
	if err != nil {
		o.t.Fatal(err)
	}
	return d.Degraded
}

// openBreaker sends requests until the breaker opens.
func (o *fakeTimeTest) openBreaker() {
	o.t.Helper()
	for range 1000 {
		if o.take("key") == headgate.ReasonBreakerOpen {
			return
		}
		time.Sleep(time.Millisecond)
	}
	o.t.Fatal("the breaker is closed after 1000 failures")
}

func (o *fakeTimeTest) requireEvents(want ...string) {
	o.t.Helper()
	synctest.Wait()
	if got := o.recorder.names(); !slices.Equal(got, want) {
		o.t.Errorf("the observer received %q want %q", got, want)
	}
}

func TestOpenBreakerSkipsStore(t *testing.T) { // T40: a long outage
	t.Parallel()
	for _, fault := range []headgate.StoreErrorReason{headgate.ReasonUnreachable, headgate.ReasonTimedOut, headgate.ReasonRefused} {
		for _, mode := range []headgate.OnStoreError{headgate.FailClosed, headgate.FailOpen, headgate.FailLocal} {
			testWithFakeTime(t, fallback.Options{}, mode, func(o *fakeTimeTest) {
				o.take("key")
				o.inner.set(failWith(fault))
				o.openBreaker()
				o.requireEvents("unavailable: " + fault.String())
				calls, began := o.inner.calls.Load(), time.Now()
				for range 30_000 {
					if got := o.take("key"); got != headgate.ReasonBreakerOpen {
						o.t.Fatalf("%v, %v: got %v want breaker open", fault, mode, got)
					}
					time.Sleep(time.Millisecond)
				}
				if time.Since(began) != 30*time.Second {
					t.Errorf("%v, %v: 30,000 decisions took %v want no time", fault, mode, time.Since(began)-30*time.Second)
				}
				if probes := o.inner.calls.Load() - calls; probes < 119 || probes > 120 {
					t.Errorf("%v, %v: got %d calls in 30 s want 4 a second, all probes", fault, mode, probes)
				}
				o.inner.clearFault()
				recovered := time.Now()
				for o.take("key") != headgate.ReasonNone {
					time.Sleep(time.Millisecond)
				}
				if took := time.Since(recovered); took > 250*time.Millisecond {
					t.Errorf("%v, %v: normal again after %v want 250 ms at most", fault, mode, took)
				}
				o.take("key")
				o.take("key")
				o.requireEvents("unavailable: "+fault.String(), "recovered")
			})
		}
	}
}

// The error of a rule with the mode closed contains the cause of the open breaker.
func TestOpenBreakerReportsCause(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailClosed, func(o *fakeTimeTest) {
		o.inner.set(failWith(headgate.ReasonRefused))
		o.openBreaker()
		_, err := o.limit.Allow(background, "key")
		want := "headgate: faulty: breaker open: headgate: faulty: refused; wait; " +
			"it failed too often; calls resume after a successful probe"
		if err == nil || err.Error() != want || !errors.Is(err, headgate.ErrStoreUnavailable) {
			t.Errorf("got %v want %s", err, want)
		}
	})
}

func TestFewFailuresDoNotOpenBreaker(t *testing.T) { // T40: a blip
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		for range 100 {
			o.inner.set(failWith(headgate.ReasonTimedOut))
			for range 4 {
				o.take("key")
			}
			o.inner.set(slow(time.Millisecond))
			if got := o.take("key"); got != headgate.ReasonNone {
				o.t.Fatalf("after 4 failures: got %v want a decision of the store", got)
			}
			time.Sleep(time.Second)
		}
		o.requireEvents()
	})
}

func slow(d time.Duration) func(context.Context, string) error {
	return func(context.Context, string) error { time.Sleep(d); return nil }
}

// A broken connection fails all calls in flight on it; the next connection works.
func TestBrokenConnectionDoesNotOpenBreaker(t *testing.T) { // T40: a blip
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		for range 10 {
			broken := make(chan struct{})
			o.inner.set(func(ctx context.Context, key string) error {
				<-broken
				return failWith(headgate.ReasonTimedOut)(ctx, key)
			})
			for range 100 {
				go o.limit.Allow(background, "key")
			}
			time.Sleep(time.Millisecond)
			close(broken)
			o.inner.set(slow(time.Millisecond))
			synctest.Wait()
			for range 500 {
				if got := o.take("key"); got != headgate.ReasonNone {
					t.Errorf("after 100 simultaneous failures: got %v want a decision of the store", got)
					return
				}
				time.Sleep(time.Millisecond)
			}
		}
		o.requireEvents()
	})
}

// After a stall of the process, all calls in flight have timed out. That does not open
// the breaker, even if it happens repeatedly.
func TestProcessStallDoesNotOpenBreaker(t *testing.T) { // T40: a blip
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		for range 20 {
			o.inner.set(hangs)
			for range 100 {
				go o.limit.Allow(background, "key")
			}
			time.Sleep(60 * time.Millisecond)
			o.inner.set(slow(100 * time.Microsecond))
			for range 1000 {
				if got := o.take("key"); got != headgate.ReasonNone {
					o.t.Errorf("after 100 calls that ended simultaneously: got %v want a decision of the store", got)
					return
				}
			}
		}
		o.requireEvents()
	})
}

// A partial outage opens the breaker only if it affects half of the calls.
func TestPartialOutage(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		down  int // of three nodes
		opens bool
	}{{1, false}, {2, true}} {
		testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
			o.inner.set(func(ctx context.Context, key string) error {
				if int(key[0]-'a')%3 < c.down {
					return hangs(ctx, key)
				}
				time.Sleep(100 * time.Microsecond)
				return nil
			})
			var turns atomic.Int64
			for range 64 {
				go func() {
					for range 200 {
						o.limit.Allow(background, string(rune('a'+turns.Add(1)*7919%26)))
						time.Sleep(time.Millisecond)
					}
				}()
			}
			time.Sleep(time.Minute)
			if c.opens {
				o.requireEvents("unavailable: timed out") // not recovered: the probe uses a key on a node that is down
			} else {
				o.requireEvents()
			}
		})
	}
}

// The breaker opens for a store that mostly fails, and not for one that mostly decides.
func TestIntermittentFailures(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		fails int // of three
		opens bool
	}{{1, false}, {2, true}} {
		testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
			for i := range 3000 {
				o.inner.set(slow(time.Millisecond))
				if i%3 < c.fails {
					o.inner.set(failWith(headgate.ReasonRefused))
				}
				if got := o.take("key"); got == headgate.ReasonBreakerOpen {
					if !c.opens || i < 50 {
						o.t.Errorf("%d of 3 calls fail: breaker open after %d calls", c.fails, i)
					}
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
			if c.opens {
				o.t.Errorf("%d of 3 calls fail: breaker closed after 3000 calls", c.fails)
			}
		})
	}
}

// Replies from a cache in the process do not hide a store that hangs.
func TestCachedRepliesDoNotHideHangingStore(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(func(ctx context.Context, key string) error {
			if key == "abuser" {
				return nil // immediately
			}
			return hangs(ctx, key)
		})
		for range 20 {
			for range 100 {
				o.take("abuser")
			}
			if o.take("key") == headgate.ReasonBreakerOpen {
				return
			}
		}
		t.Error("the breaker is closed after 20 callers timed out between cached replies")
	})
}

func TestErrorsUnrelatedToAvailabilityKeepBreakerClosed(t *testing.T) {
	t.Parallel()
	for _, fault := range []headgate.StoreErrorReason{headgate.ReasonWrongType, headgate.ReasonOverloaded, headgate.ReasonBreakerOpen} {
		testWithFakeTime(t, fallback.Options{Failures: 1}, headgate.FailOpen, func(o *fakeTimeTest) {
			o.inner.set(failWith(fault))
			for range 100 {
				if got := o.take("key"); got != fault {
					o.t.Fatalf("got %v want %v", got, fault)
				}
				time.Sleep(10 * time.Millisecond)
			}
			o.requireEvents()
		})
	}
}

// Callers that wait for others until their deadline are evidence that a store hangs;
// callers that are rejected immediately are not.
func TestOverloadUntilDeadlineOpensBreaker(t *testing.T) {
	t.Parallel()
	testWithFakeTime(t, fallback.Options{}, headgate.FailOpen, func(o *fakeTimeTest) {
		o.inner.set(func(ctx context.Context, _ string) error {
			<-ctx.Done()
			return &headgate.StoreError{Store: "faulty", Reason: headgate.ReasonOverloaded, Err: ctx.Err()}
		})
		o.openBreaker()
		o.requireEvents("unavailable: overloaded")
	})
}
