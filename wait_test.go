package headgate_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/memstore"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// pacing lists when each algorithm serves six waiters that start simultaneously and wait
// for one unit each, under two a second.
var pacing = []struct {
	algorithm headgate.Algorithm
	limit     string
	served    []time.Duration
}{
	{headgate.TokenBucket, "2/s", millis(0, 0, 500, 1000, 1500, 2000)},
	{headgate.TokenBucketInterval, "2/s", millis(0, 0, 1000, 1000, 2000, 2000)},
	{headgate.FixedWindow, "2/s", millis(0, 0, 1000, 1000, 2000, 2000)},
	{headgate.SlidingLog, "2/s", millis(0, 0, 1000, 1000, 2000, 2000)},
	{headgate.SlidingWindow, "2/s", millis(0, 0, 1500, 2000, 3000, 4000)}, // 2·(1−e) + 1 ≤ 2 at e = ½, and so on
	{headgate.LeakyBucket, "2/s queue 1", millis(0, 500, 1000, 1500, 2000, 2500)},
}

func millis(ms ...time.Duration) []time.Duration {
	for i := range ms {
		ms[i] *= time.Millisecond
	}
	return ms
}

func TestWaitIsFIFO(t *testing.T) {
	t.Parallel()
	for _, c := range pacing {
		t.Run(string(c.algorithm), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				waiting := newWaiters(newAlgorithmLimiter(t, memstore.New(nil), c.algorithm, c.limit))
				for i := range c.served {
					waiting.join(t.Context(), i, 1)
				}
				waiting.all.Wait()
				if want := []int{0, 1, 2, 3, 4, 5}; !slices.Equal(waiting.order, want) {
					t.Errorf("under %s: got served in order %v want %v", c.limit, waiting.order, want)
				}
				if !slices.Equal(waiting.served, c.served) {
					t.Errorf("under %s: got served at %v want %v", c.limit, waiting.served, c.served)
				}
			})
		})
	}
}

func TestWaitFailsImmediatelyBeyondDeadline(t *testing.T) {
	t.Parallel()
	for _, c := range pacing {
		t.Run(string(c.algorithm), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newAlgorithmLimiter(t, memstore.New(nil), c.algorithm, c.limit)
				mustAllow(t, l, "key", 2)
				began := time.Now()
				before, _ := l.PeekN(t.Context(), "key", 0)
				wait := untilServed(t, l)
				short, cancel := context.WithTimeout(t.Context(), wait-time.Microsecond)
				defer cancel()
				if err := l.Wait(short, "key"); !errors.Is(err, headgate.ErrWouldExceedDeadline) {
					t.Errorf("wait 1 µs less than the %v it takes: got error %v want ErrWouldExceedDeadline", wait, err)
				}
				if took := time.Since(began); took != 0 {
					t.Errorf("a refused wait took %v want no time", took)
				}
				if after, _ := l.PeekN(t.Context(), "key", 0); after.Remaining != before.Remaining || after.ResetAfter != before.ResetAfter {
					t.Errorf("a refused wait spent: got %+v want %+v", after, before)
				}
				enough, cancel := context.WithTimeout(t.Context(), wait)
				defer cancel()
				if err := l.Wait(enough, "key"); err != nil {
					t.Errorf("wait with a deadline at exactly that time, %v: got error %v want none", wait, err)
				}
				if took := time.Since(began); took != wait {
					t.Errorf("the wait took %v want %v", took, wait)
				}
			})
		})
	}
}

// untilServed returns how long a wait for one unit takes now.
func untilServed(t *testing.T, l *headgate.Limiter) time.Duration {
	t.Helper()
	d, err := l.PeekN(t.Context(), "key", 1)
	if err != nil {
		t.Fatal(err)
	}
	if l.Policy().Algorithm.Queues() {
		d, _ = l.PeekN(t.Context(), "key", 0)
		return d.Delay
	}
	return d.RetryAfter
}

func TestWaitFailsImmediatelyInQueue(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name      string
		algorithm headgate.Algorithm
		costs     []int64       // of the queued waiters
		pause     time.Duration // before the last waiter starts
		cost      int64         // of the last waiter
		served    time.Duration // when the last waiter is served, if its deadline allows
	}{
		{"a bucket", headgate.TokenBucket, []int64{1, 1, 1}, 0, 1, 4 * time.Second},
		{"a bucket, large last", headgate.TokenBucket, []int64{1, 1}, 0, 5, 7 * time.Second},
		{"a bucket, large first", headgate.TokenBucket, []int64{5, 1}, 0, 1, 7 * time.Second},
		{"a queue", headgate.LeakyBucket, []int64{1, 1, 1}, 0, 1, 13 * time.Second},
		{"a queue, large last", headgate.LeakyBucket, []int64{1, 1}, 0, 5, 12 * time.Second},
		{"a queue, large first", headgate.LeakyBucket, []int64{5, 1}, 0, 1, 16 * time.Second},
		{"a bucket, when some have gone", headgate.TokenBucket, []int64{1, 1, 1}, 1500 * time.Millisecond, 1, 4 * time.Second},
		{"intervals", headgate.TokenBucketInterval, []int64{1, 1}, 0, 1, 3 * time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newAlgorithmLimiter(t, memstore.New(nil), c.algorithm, "1/s burst 10")
				mustAllow(t, l, "key", 10)
				waiting := newWaiters(l)
				for i, cost := range c.costs {
					waiting.join(t.Context(), i, cost)
				}
				short, cancel := context.WithTimeout(t.Context(), c.served-time.Millisecond)
				defer cancel()
				waiting.join(short, 98, c.cost)
				if err := waiting.err(98); !errors.Is(err, headgate.ErrWouldExceedDeadline) {
					t.Errorf("after %v, with 1 ms less than %v: got error %v want ErrWouldExceedDeadline immediately", c.costs, c.served, err)
				}
				time.Sleep(c.pause)
				enough, cancel := context.WithTimeout(t.Context(), c.served-c.pause)
				defer cancel()
				waiting.join(enough, 99, c.cost)
				waiting.all.Wait()
				if n := len(waiting.order); waiting.order[n-1] != 99 || waiting.served[n-1] != c.served {
					t.Errorf("after %v: got order %v served at %v want the last at %v; errors %v", c.costs, waiting.order, waiting.served, c.served, waiting.errs)
				}
			})
		})
	}
}

func TestWaitFailsOnceQueueHeadIsReserved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Store: memstore.New(nil), slow: map[string]time.Duration{"key": time.Second}}
		l := newAlgorithmLimiter(t, store, headgate.TokenBucket, "1/10s")
		mustAllow(t, l, "key", 1)
		waiting := newWaiters(l)
		until := func(instant time.Duration) context.Context {
			ctx, cancel := context.WithDeadline(t.Context(), waiting.began.Add(instant))
			t.Cleanup(cancel)
			return ctx
		}
		requireDeadlineError := func(i int, why string) {
			t.Helper()
			if err := waiting.err(i); !errors.Is(err, headgate.ErrWouldExceedDeadline) {
				t.Errorf("waiter %d, %s: got error %v want ErrWouldExceedDeadline", i, why, err)
			}
		}
		// The first call takes a second. Only then it is known that units are available
		// at 10 s, 20 s, …
		waiting.join(t.Context(), 0, 1)
		waiting.join(until(15*time.Second), 1, 1)
		waiting.join(until(25*time.Second), 2, 1)
		waiting.join(until(25*time.Second), 3, 1)
		time.Sleep(1500 * time.Millisecond)
		requireDeadlineError(1, "who needs 20 s and has 15, once the first knows that it takes 10")
		requireDeadlineError(3, "who needs 30 s and has 25, behind another who needs 20")
		waiting.join(until(30*time.Second), 4, 1)
		time.Sleep(9 * time.Second) // the second waiter calls the store until 11 s
		waiting.join(until(35*time.Second), 5, 1)
		time.Sleep(time.Second)
		requireDeadlineError(5, "who needs 40 s and has 35, once the second knows that it takes 20")
		waiting.all.Wait()
		if want := []int{0, 2, 4}; !slices.Equal(waiting.order, want) {
			t.Errorf("got served %v want %v: the places of rejected waiters are free; errors %v", waiting.order, want, waiting.errs)
		}
		if got := l.WaitingKeys(); got != 0 {
			t.Errorf("got %d lines left want none, because no caller waits", got)
		}
	})
}

// Trap: a wait that is cancelled does not return its tokens.
func TestCancelledWaitersKeepNoReservation(t *testing.T) {
	t.Parallel()
	for _, c := range pacing {
		for name, cancelled := range map[string][]int{"the head": {2}, "in the queue": {4, 6}, "the head and others": {2, 3, 5, 7}} {
			t.Run(string(c.algorithm)+"/"+name, func(t *testing.T) {
				t.Parallel()
				var with, without []time.Duration
				synctest.Test(t, func(t *testing.T) { with = servedTimes(t, c.algorithm, c.limit, 10, cancelled) })
				synctest.Test(t, func(t *testing.T) { without = servedTimes(t, c.algorithm, c.limit, 10-len(cancelled), nil) })
				if !slices.Equal(with, without) {
					t.Errorf("10 waiters of whom %v were cancelled: got served at %v want %v, as without them", cancelled, with, without)
				}
			})
		}
	}
}

// servedTimes starts n waiters, cancels some after 100 ms, and returns when the others
// were served.
func servedTimes(t *testing.T, a headgate.Algorithm, limit string, n int, cancelled []int) []time.Duration {
	waiting := newWaiters(newAlgorithmLimiter(t, memstore.New(nil), a, limit))
	some, cancel := context.WithCancel(t.Context())
	defer cancel()
	for i := range n {
		if slices.Contains(cancelled, i) {
			waiting.join(some, i, 1)
		} else {
			waiting.join(t.Context(), i, 1)
		}
	}
	time.Sleep(100 * time.Millisecond)
	cancel()
	synctest.Wait()
	for _, i := range cancelled {
		if err := waiting.err(i); !errors.Is(err, context.Canceled) {
			t.Errorf("waiter %d was cancelled: got error %v want context.Canceled", i, err)
		}
	}
	waiting.all.Wait()
	return waiting.served
}

// If a context ends exactly when its units are due, the units are spent, so the waiter is
// served. A slow Spacing call delays the head until both have happened.
func TestWaitServedAtDeadline(t *testing.T) {
	t.Parallel()
	for range 20 {
		synctest.Test(t, func(t *testing.T) {
			store := &countingStore{Store: memstore.New(nil), slow: map[string]time.Duration{"key": time.Second}, slowSpacing: 20 * time.Second}
			l := newAlgorithmLimiter(t, store, headgate.TokenBucket, "1/10s")
			mustAllow(t, l, "key", 1)
			waiting := newWaiters(l)
			ending, cancel := context.WithCancel(t.Context())
			waiting.join(ending, 0, 1)
			longDeadline, stop := context.WithTimeout(t.Context(), time.Hour)
			defer stop()
			waiting.join(longDeadline, 1, 1)
			time.AfterFunc(10*time.Second, cancel)
			waiting.all.Wait()
			if !slices.Equal(waiting.order, []int{0, 1}) {
				t.Errorf("cancelled when it is due: got served %v want both; errors %v", waiting.order, waiting.errs)
			}
		})
	}
}

// Trap T32: waiters that poll. A waiter that reserves calls the store once. A waiter that
// cannot reserve calls it again only when units are due.
func TestWaitersDoNotPoll(t *testing.T) {
	t.Parallel()
	for _, c := range pacing {
		t.Run(string(c.algorithm), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				store := &countingStore{Store: memstore.New(nil)}
				waiting := newWaiters(newAlgorithmLimiter(t, store, c.algorithm, c.limit))
				for i := range 40 {
					waiting.join(t.Context(), i, 1)
				}
				waiting.all.Wait()
				instants := int64(len(slices.Compact(waiting.served)))
				most := int64(40)
				if c.algorithm.Windowed() {
					most += instants // the head calls the store, waits and calls again
				}
				if calls := store.calls.Load(); calls > most {
					t.Errorf("40 waiters served at %d instants: got %d store calls want at most %d", instants, calls, most)
				}
			})
		})
	}
}

// Trap: a lock held during a store call.
func TestSlowKeyDoesNotDelayOtherKeys(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &countingStore{Store: memstore.New(nil), slow: map[string]time.Duration{"slow": time.Hour}}
		l := newAlgorithmLimiter(t, store, headgate.TokenBucket, "10/s")
		var slow sync.WaitGroup
		for range 3 {
			slow.Go(func() { _ = l.Wait(t.Context(), "slow") })
		}
		synctest.Wait()
		began := time.Now()
		for range 11 {
			if err := l.Wait(t.Context(), "quick"); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != 100*time.Millisecond {
			t.Errorf("11 of 10/s beside a slow key took %v want 100ms", took)
		}
		slow.Wait()
	})
}

func TestWaitWithoutQueueing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		over bool // the context has ended
		cost int64
		want error
	}{
		{"more than the limit", false, 3, headgate.ErrNeverAllowed},
		{"a negative cost", false, -1, headgate.ErrInvalidCost},
		{"a context that is over", true, 1, context.Canceled},
		{"nothing, with a context that is over", true, 0, context.Canceled},
		{"nothing", false, 0, nil},
	} {
		synctest.Test(t, func(t *testing.T) {
			waiting := newWaiters(newAlgorithmLimiter(t, memstore.New(nil), headgate.TokenBucket, "2/s"))
			l := waiting.limiter
			mustAllow(t, l, "key", 2)
			waiting.join(t.Context(), 0, 1)
			waiting.join(t.Context(), 1, 1)
			began := time.Now()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if c.over {
				cancel()
			}
			if err := l.WaitN(ctx, "key", c.cost); !errors.Is(err, c.want) {
				t.Errorf("%s: got error %v want %v", c.name, err, c.want)
			}
			if took := time.Since(began); took != 0 {
				t.Errorf("%s: took %v want no time", c.name, took)
			}
			if d, _ := l.PeekN(t.Context(), "key", 0); d.ResetAfter != 1500*time.Millisecond {
				t.Errorf("%s: got reset after %v want 1.5s: nothing was spent in addition to the reservations of the queue", c.name, d.ResetAfter)
			}
			waiting.all.Wait()
		})
	}
}

func TestWaitReturnsStoreError(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range pacing {
			store := memstore.New(nil)
			l := newAlgorithmLimiter(t, store, c.algorithm, c.limit)
			_ = store.Close()
			for _, cost := range []int64{0, 1} {
				if err := l.WaitN(t.Context(), "key", cost); !errors.Is(err, headgate.ErrClosed) {
					t.Errorf("%s: wait for %d at a closed store: got error %v want ErrClosed", c.algorithm, cost, err)
				}
			}
		}
	})
}
