package grpclimit_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// retrying is a client whose service config retries, by a backoff that is far from what the server says.
func retrying(code string) grpc.DialOption {
	return grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3,
		"initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["` + code + `"]}}]}`)
}

func TestRetriesOfGRPCWaitAsLongAsTheyAreTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, nil, same(policy("calls", "3/1s"))), retrying("RESOURCE_EXHAUSTED"))
		defer w.stop()
		for i := range 5 {
			took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
			mustCode(t, "call "+strconv.Itoa(i), err, codes.OK)
			if want := []time.Duration{0, 0, 0, 334 * time.Millisecond, 333 * time.Millisecond}[i]; took != want {
				t.Errorf("call %d: got it after %v want %v", i, took, want)
			}
		}
	})
}

// A wait that helps nobody is not made: clients fail at once, and hear why.
func TestRetriesOfGRPCAreCalledOff(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		expensive := same(policy("weight", "1/1m"))
		expensive.Cost = func(ctx context.Context, _ grpclimit.Call) int64 {
			if _, ok := ctx.Deadline(); ok {
				return 1
			}
			return 2
		}
		for _, c := range []struct {
			name    string
			charge  grpclimit.Charge
			timeout time.Duration
			opts    *grpclimit.Options
		}{
			{"past the deadline", same(policy("calls", "1/20s")), 19 * time.Second, nil},
			{"longer than a minute", same(policy("calls", "1/61s")), time.Hour, nil},
			{"longer than the options say", same(policy("calls", "1/20s")), time.Hour, &grpclimit.Options{Pushback: 19 * time.Second}},
			{"never", expensive, 0, nil},
		} {
			w := serve(t, &service{}, newServer(t, c.opts, c.charge), retrying("RESOURCE_EXHAUSTED"))
			ctx, cancel := context.WithCancel(t.Context())
			if c.timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
			}
			w.empty(ctx)
			took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
			mustCode(t, c.name, err, codes.ResourceExhausted)
			if took != 0 {
				t.Errorf("%s: got the denial after %v want it at once", c.name, took)
			}
			cancel()
			w.stop()
		}
	})
}

// Without a pushback clients keep to their own backoff: two times 10 ms, or a fifth more.
func TestRetriesOfGRPCWithoutPushback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, &grpclimit.Options{Pushback: -1}, same(policy("calls", "1/1h"))), retrying("RESOURCE_EXHAUSTED"))
		defer w.stop()
		w.empty(t.Context())
		took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
		mustCode(t, "three attempts", err, codes.ResourceExhausted)
		if took == 0 || took > 24*time.Millisecond { // old versions of gRPC wait for any part of 10 ms, new ones for 8 to 12
			t.Errorf("got it after %v want two waits of at most 12 ms", took)
		}
		if retry, _ := details(err); retry == nil {
			t.Errorf("got %v want its details kept", err)
		}
	})
}

// The fields of an allowed call do not keep clients from retrying what its handler could not do.
func TestHandlersErrorsCanStillBeRetried(t *testing.T) {
	t.Parallel()
	s := &service{}
	s.unary = func(context.Context) error {
		if s.calls.Load() < 3 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}
	w := serve(t, s, newServer(t, nil, same(policy("calls", "9/1h"))), retrying("UNAVAILABLE"))
	header, _, err := w.empty(t.Context())
	mustCode(t, "third attempt", err, codes.OK)
	if r := item(t, header, "ratelimit", "calls", "r"); r != int64(6) {
		t.Errorf("got r %v want 6: each attempt counts", r)
	}
	s.unary = func(context.Context) error { return errBroken }
	_, trailer, err := w.empty(t.Context())
	mustCode(t, "a handler's error", err, codes.Unknown)
	if r := item(t, trailer, "ratelimit", "calls", "r"); r != int64(5) {
		t.Errorf("with an error: got r %v want 5", r)
	}
}

func TestLeakyBucketHoldsCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []string{"10/1s queue 3", "3/1s queue 3"} { // every 100 ms, and every 333,333.3… µs
			w := serve(t, &service{}, newServer(t, nil, same(leaky("queue", limit))))
			spacing := time.Second / time.Duration(headgate.MustParseLimit(limit).Rate)
			done := make(chan time.Duration, 4)
			for i := range 4 {
				go func() {
					took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
					if err != nil {
						t.Error(err)
					}
					done <- took
				}()
				synctest.Wait()
				if got, want := len(done), min(i+1, 1); got != want {
					t.Fatalf("%s: got %d calls through at once want %d", limit, got, want)
				}
			}
			_, _, err := w.empty(t.Context())
			mustCode(t, "beyond the queue", err, codes.ResourceExhausted)
			for i := range 4 {
				if got, want := <-done, time.Duration(i)*spacing; got < want || got > want+time.Microsecond {
					t.Errorf("%s: call %d got through after %v want %v", limit, i, got, want)
				}
			}
			w.stop()
		}
	})
}

// A client that goes away in the queue is not run, leaves nothing behind, and frees its place, however far places are apart.
func TestLeakyBucketLetsGo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, limit := range []string{"1/1s queue 2", "3/1s queue 2"} { // every 333,333.3… µs
			s := &service{}
			w := serve(t, s, newServer(t, nil, same(leaky("queue", limit))))
			spacing := time.Second / time.Duration(headgate.MustParseLimit(limit).Rate)
			w.empty(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			gone := make(chan error, 1)
			go func() { _, _, err := w.empty(ctx); gone <- err }()
			synctest.Wait()
			cancel()
			mustCode(t, "cancelled", <-gone, codes.Canceled)
			synctest.Wait()
			for i := 1; i <= 2; i++ { // both places are free again
				took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
				mustCode(t, "after it", err, codes.OK)
				if took < spacing-time.Microsecond || took > spacing+time.Microsecond {
					t.Errorf("%s: call %d after it: got through after %v want %v", limit, i, took, spacing)
				}
			}
			if got := s.calls.Load(); got != 3 {
				t.Errorf("%s: the handler ran %d times want 3", limit, got)
			}
			w.stop()
		}
	})
}

// A place that somebody stands behind is not granted a second time: what goes out stays evenly spaced.
func TestLeakyBucketKeepsWhatStandsBehind(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, nil, same(leaky("queue", "1/1s queue 5"))))
		defer w.stop()
		begin := time.Now()
		w.empty(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		out := make(chan time.Duration, 3)
		go w.empty(ctx)
		synctest.Wait()
		for range 2 {
			go func() { w.empty(t.Context()); out <- time.Since(begin) }()
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		go func() { w.empty(t.Context()); out <- time.Since(begin) }()
		for i := 2; i <= 4; i++ {
			if got, want := <-out, time.Duration(i)*time.Second; got != want {
				t.Errorf("got through at %v want %v", got, want)
			}
		}
	})
}

// Who cannot have its turn before its deadline is told at once.
func TestLeakyBucketAndDeadlines(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newServer(t, nil, same(leaky("queue", "1/10s queue 3")), same(policy("tokens", "2/1h")))
		w := serve(t, &service{}, l)
		defer w.stop()
		w.empty(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
		mustCode(t, "too late", err, codes.DeadlineExceeded)
		if took != 0 {
			t.Errorf("too late: told after %v want at once", took)
		}
		// The other charge's unit was given back; the place in the queue was not, for with two charges nobody knows who stands behind.
		took, err = timed(func() error { _, _, err := w.empty(t.Context()); return err })
		mustCode(t, "without a deadline", err, codes.OK)
		if took != 20*time.Second {
			t.Errorf("without a deadline: got through after %v want 20s", took)
		}
	})
}

// A client's own charge for messages does not keep gRPC from retrying a stream that was denied.
func TestRetriesOfGRPCBesideAChargeForMessages(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil, perMessage(grpclimit.Charge{Policy: policy("messages", "1000/1s")}))
		l := newServer(t, nil, same(policy("streams", "1/10s")))
		w := serve(t, &service{}, l, retrying("RESOURCE_EXHAUSTED"), grpc.WithStreamInterceptor(c.Stream))
		defer w.stop()
		for i, want := range []time.Duration{0, 10 * time.Second} {
			took, err := timed(func() error { _, _, err := w.echo(t.Context(), 2); return err })
			mustCode(t, "stream "+strconv.Itoa(i), err, codes.OK)
			if took != want {
				t.Errorf("stream %d: got it after %v want %v", i, took, want)
			}
		}
	})
}

// A server that stops lets go of the call in its queue, whose place is free then; one that stops gracefully serves it first.
func TestStoppingWithACallInTheQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			stop func(*grpc.Server)
			took time.Duration
			want codes.Code
		}{
			{"at once", (*grpc.Server).Stop, 0, codes.Unavailable},
			{"gracefully", (*grpc.Server).GracefulStop, time.Second, codes.OK},
		} {
			store := memstore.New(nil)
			p := leaky("queue", "1/1s queue 3")
			l, err := grpclimit.NewServer(store, nil, same(p))
			if err != nil {
				t.Fatal(err)
			}
			w := serve(t, &service{}, l)
			_, _, err = w.empty(t.Context())
			mustCode(t, "the first", err, codes.OK)
			second := make(chan error, 1)
			go func() { _, _, err := w.empty(t.Context()); second <- err }()
			synctest.Wait()
			if took, _ := timed(func() error { c.stop(w.server); return nil }); took != c.took {
				t.Errorf("%s: stopped after %v want %v", c.name, took, c.took)
			}
			mustCode(t, c.name, <-second, c.want)
			synctest.Wait()
			limiter, err := headgate.New(store, p, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 3 {
				t.Errorf("%s: got %+v, error %v want all places but the one just used", c.name, d, err)
			}
			w.stop()
		}
	})
}

// Many calls wait at once, and some of them give up: the others are sent in turn, none earlier than the limit says, and what
// those who gave up had booked is spent by nobody.
func TestManyClientsWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 60
		c := newClient(t, nil, grpclimit.Charge{Policy: policy("out", "10/1s burst 1")})
		w := waiting(t, &service{}, c)
		defer w.stop()
		begin, sent := time.Now(), make(chan time.Duration, calls)
		var all sync.WaitGroup
		for i := range calls {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if i%3 == 0 && i > 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			all.Go(func() {
				if _, _, err := w.empty(ctx); err == nil {
					sent <- time.Since(begin)
				}
			})
			synctest.Wait() // so that they come in order
		}
		all.Wait()
		close(sent)
		n := time.Duration(0)
		for at := range sent {
			if want := n * 100 * time.Millisecond; at != want {
				t.Errorf("call %d: sent at %v want %v", n, at, want)
			}
			n++
		}
		if n != calls-calls/3+1 {
			t.Errorf("%d calls were sent want %d", n, calls-calls/3+1)
		}
	})
}
