package redisstore

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
)

func TestCanSend(t *testing.T) {
	for _, c := range []struct {
		inFlight, opsInFlight, ops int
		want                       bool
	}{
		{0, 0, 1, true},
		{1, 1, 1, true}, // up to maxUnbatched are sent immediately
		{2, 2, 1, true},
		{1, 3, 1, true},
		{1, 4, 1, false},
		{2, 3, 2, false},
		{1, 30, minBatch - 1, false},
		{1, 30, minBatch, true},
		{2, 60, minBatch, true},
		{maxInFlight, maxInFlight, 1, false},
		{maxInFlight, 90, minBatch, false},
	} {
		l := &batcher{inFlight: c.inFlight, opsInFlight: c.opsInFlight}
		if got := l.canSend(c.ops); got != c.want {
			t.Errorf("inFlight %d, opsInFlight %d, %d queued: got %v want %v", c.inFlight, c.opsInFlight, c.ops, got, c.want)
		}
	}
}

// fakeClient is a Client without a network, for tests with fake time. Each call takes
// trip, or until its context ends, and finds every key unused. A call that ends after
// Close fails.
type fakeClient struct {
	trip        atomic.Int64 // a time.Duration
	calls, keys atomic.Int64 // script calls, and the keys in all of them
	closed      atomic.Bool
}

func (c *fakeClient) Run(ctx context.Context, calls []Call, replies []Reply) {
	for _, call := range calls {
		c.calls.Add(1)
		c.keys.Add(int64(len(call.Keys)))
	}
	var err error
	if !sleep(ctx, time.Duration(c.trip.Load())) {
		err = ctx.Err()
	} else if c.closed.Load() {
		err = net.ErrClosed
	}
	for i := range replies {
		replies[i] = Reply{Text: string(make([]byte, 8+valueBytes*len(calls[i].Keys))), Err: err}
	}
}

func (c *fakeClient) Sharded(context.Context) (bool, error) { return false, nil }

func (c *fakeClient) Remove(context.Context, string) error { return nil }

func (c *fakeClient) Close() { c.closed.Store(true) }

// runBatcherTest runs test in fake time, with a limiter of a store whose calls take
// trip.
func runBatcherTest(t *testing.T, trip time.Duration, opts *Options, test func(*Store, *headgate.Limiter, *fakeClient)) {
	synctest.Test(t, func(t *testing.T) {
		client := &fakeClient{}
		client.trip.Store(int64(trip))
		s, err := New(client, opts)
		if err != nil {
			t.Fatal(err)
		}
		l, err := headgate.New(s, headgate.MustPolicy("1000/1h"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), "first"); err != nil {
			t.Fatal(err)
		}
		client.calls.Store(0)
		client.keys.Store(0)
		test(s, l, client)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
}

// T34.
func TestBatchingOneKey(t *testing.T) {
	runBatcherTest(t, 20*time.Millisecond, nil, func(_ *Store, l *headgate.Limiter, client *fakeClient) {
		var wg sync.WaitGroup
		for range 300 {
			wg.Go(func() {
				if _, err := l.Allow(context.Background(), "hot"); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if calls := client.calls.Load(); calls > 6 {
			t.Errorf("300 callers: got %d script calls want a few", calls)
		}
	})
}

func TestBatchingManyKeys(t *testing.T) {
	const callers, calls = 64, 100
	runBatcherTest(t, time.Millisecond, nil, func(_ *Store, l *headgate.Limiter, client *fakeClient) {
		var wg sync.WaitGroup
		for i := range callers {
			wg.Go(func() {
				for n := range calls {
					if _, err := l.Allow(context.Background(), fmt.Sprint(i, " ", n)); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		scriptCalls, keys := client.calls.Load(), client.keys.Load()
		t.Logf("%d script calls for %d keys", scriptCalls, keys)
		if keys != callers*calls || scriptCalls > keys/30 {
			t.Errorf("got %d keys in %d script calls want %d keys, and at least 30 a call", keys, scriptCalls, callers*calls)
		}
	})
}

func TestSlowCallDoesNotDelayOthers(t *testing.T) {
	const trip = 250 * time.Millisecond
	runBatcherTest(t, trip, nil, func(_ *Store, l *headgate.Limiter, _ *fakeClient) {
		allow := func(key string) {
			if _, err := l.Allow(context.Background(), key); err != nil {
				t.Error(err)
			}
		}
		var wg sync.WaitGroup
		for range 1 + 24 { // one alone, and the rest in the next call
			wg.Go(func() { allow("hot") })
		}
		time.Sleep(trip / 4)
		began := time.Now()
		allow("later")
		if took := time.Since(began); took >= trip*3/2 {
			t.Errorf("a call during other calls: got the decision after %v, want a round trip of %v", took, trip)
		}
		wg.Wait()
	})
}

func TestMaxWaiting(t *testing.T) {
	const callers, maxWaiting = 50, 4
	runBatcherTest(t, time.Second, &Options{MaxWaiting: maxWaiting, Timeout: time.Minute}, func(_ *Store, l *headgate.Limiter, client *fakeClient) {
		var wg sync.WaitGroup
		var overloaded atomic.Int64
		for i := range callers {
			wg.Go(func() {
				var e *headgate.StoreError
				if _, err := l.Allow(context.Background(), fmt.Sprint(i)); errors.As(err, &e) && e.Reason == headgate.ReasonOverloaded {
					overloaded.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait() // until all are sent, queued or refused
		refused, sent := overloaded.Load(), client.keys.Load()
		if sent == 0 || refused != callers-sent-maxWaiting {
			t.Errorf("%d calls: got %d sent and %d refused want all but %d queued calls refused",
				callers, sent, refused, maxWaiting)
		}
		wg.Wait()
		if sent := client.keys.Load(); overloaded.Load() != refused || sent != callers-refused {
			t.Errorf("after the replies: got %d sent and %d refused want %d and %d", sent, overloaded.Load(), callers-refused, refused)
		}
	})
}

func TestCloseWaitsForCallsInFlight(t *testing.T) {
	runBatcherTest(t, 30*time.Millisecond, nil, func(s *Store, l *headgate.Limiter, _ *fakeClient) {
		var wg sync.WaitGroup
		for i := range 40 {
			wg.Go(func() {
				if _, err := l.Allow(context.Background(), fmt.Sprint(i%10)); err != nil {
					t.Errorf("got error %v want a decision", err)
				}
			})
		}
		synctest.Wait() // until all are sent or queued
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		wg.Wait()
		if _, err := l.Allow(context.Background(), "a"); !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("after Close: got error %v want closed", err)
		}
	})
}

// Without a deadline the store's timeout applies, even if the call in flight may take
// an hour.
func TestQueueTimeout(t *testing.T) {
	const timeout = 200 * time.Millisecond
	runBatcherTest(t, 0, &Options{Timeout: timeout}, func(_ *Store, l *headgate.Limiter, client *fakeClient) {
		client.trip.Store(int64(time.Hour))
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = l.Allow(ctx, "a") })
		synctest.Wait()
		began := time.Now()
		if _, err := l.Allow(context.Background(), "a"); err == nil || time.Since(began) > 2*timeout {
			t.Errorf("got error %v after %v want one after %v", err, time.Since(began), timeout)
		}
		cancel()
		wg.Wait()
	})
}
