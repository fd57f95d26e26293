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

// withRetryPolicy returns an option for a service config with retries, whose backoff is
// much shorter than the wait of the server.
func withRetryPolicy(code string) grpc.DialOption {
	return grpc.WithDefaultServiceConfig(`{"methodConfig": [{"name": [{}], "retryPolicy": {"maxAttempts": 3,
		"initialBackoff": "0.01s", "maxBackoff": "0.01s", "backoffMultiplier": 1, "retryableStatusCodes": ["` + code + `"]}}]}`)
}

func TestRetryPolicyWaitsForPushback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("calls", "3/1s"))), withRetryPolicy("RESOURCE_EXHAUSTED"))
		defer w.stop()
		for i := range 5 {
			took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
			mustCode(t, "call "+strconv.Itoa(i), err, codes.OK)
			if want := []time.Duration{0, 0, 0, 334 * time.Millisecond, 333 * time.Millisecond}[i]; took != want {
				t.Errorf("call %d: finished after %v want %v", i, took, want)
			}
		}
	})
}

// If a wait is useless, gRPC does not retry: the call fails immediately with the denial.
func TestPushbackStopsRetries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		expensive := globalCharge(policy("weight", "1/1m"))
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
			{"past the deadline", globalCharge(policy("calls", "1/20s")), 19 * time.Second, nil},
			{"longer than a minute", globalCharge(policy("calls", "1/61s")), time.Hour, nil},
			{"longer than Options.Pushback", globalCharge(policy("calls", "1/20s")), time.Hour, &grpclimit.Options{Pushback: 19 * time.Second}},
			{"cost above the limit", expensive, 0, nil},
		} {
			w := serve(t, &service{}, newServer(t, c.opts, c.charge), withRetryPolicy("RESOURCE_EXHAUSTED"))
			ctx, cancel := context.WithCancel(t.Context())
			if c.timeout > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.timeout)
			}
			w.empty(ctx)
			took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
			mustCode(t, c.name, err, codes.ResourceExhausted)
			if took != 0 {
				t.Errorf("%s: got the denial after %v want it immediately", c.name, took)
			}
			cancel()
			w.stop()
		}
	})
}

// Without pushback gRPC uses its own backoff: two waits of 10 ms, each up to 20 % longer.
func TestRetryPolicyWithoutPushback(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, &grpclimit.Options{Pushback: -1}, globalCharge(policy("calls", "1/1h"))), withRetryPolicy("RESOURCE_EXHAUSTED"))
		defer w.stop()
		w.empty(t.Context())
		took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
		mustCode(t, "three attempts", err, codes.ResourceExhausted)
		// old gRPC versions wait for 0 to 10 ms, new ones for 8 to 12 ms
		if took == 0 || took > 24*time.Millisecond {
			t.Errorf("failed after %v want two waits of at most 12 ms", took)
		}
		if retry, _ := details(err); retry == nil {
			t.Errorf("got %v want it with details", err)
		}
	})
}

// The fields of an allowed call do not prevent retries of a handler's error.
func TestHandlerErrorsCanBeRetried(t *testing.T) {
	t.Parallel()
	s := &service{}
	s.unary = func(context.Context) error {
		if s.calls.Load() < 3 {
			return status.Error(codes.Unavailable, "not yet")
		}
		return nil
	}
	w := serve(t, s, newServer(t, nil, globalCharge(policy("calls", "9/1h"))), withRetryPolicy("UNAVAILABLE"))
	header, _, err := w.empty(t.Context())
	mustCode(t, "third attempt", err, codes.OK)
	if r := item(t, header, "ratelimit", "calls", "r"); r != int64(6) {
		t.Errorf("got r %v want 6: each attempt counts", r)
	}
	s.unary = func(context.Context) error { return errBroken }
	_, trailer, err := w.empty(t.Context())
	mustCode(t, "handler error", err, codes.Unknown)
	if r := item(t, trailer, "ratelimit", "calls", "r"); r != int64(5) {
		t.Errorf("with an error: got r %v want 5", r)
	}
}

func TestQueueDelaysCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// every 100 ms, and every 333,333.3… µs
		for _, limit := range []string{"10/1s queue 3", "3/1s queue 3"} {
			w := serve(t, &service{}, newServer(t, nil, globalCharge(leaky("queue", limit))))
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
					t.Fatalf("%s: got %d calls immediately want %d", limit, got, want)
				}
			}
			_, _, err := w.empty(t.Context())
			mustCode(t, "queue full", err, codes.ResourceExhausted)
			for i := range 4 {
				if got, want := <-done, time.Duration(i)*spacing; got < want || got > want+time.Microsecond {
					t.Errorf("%s: call %d finished after %v want %v", limit, i, got, want)
				}
			}
			w.stop()
		}
	})
}

// The handler of a call that is canceled in the queue does not run, and its place is
// freed.
func TestQueueCancelFreesPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		// every 333,333.3… µs
		for _, limit := range []string{"1/1s queue 2", "3/1s queue 2"} {
			s := &service{}
			w := serve(t, s, newServer(t, nil, globalCharge(leaky("queue", limit))))
			spacing := time.Second / time.Duration(headgate.MustParseLimit(limit).Rate)
			w.empty(t.Context())
			ctx, cancel := context.WithCancel(t.Context())
			canceled := make(chan error, 1)
			go func() { _, _, err := w.empty(ctx); canceled <- err }()
			synctest.Wait()
			cancel()
			mustCode(t, "canceled", <-canceled, codes.Canceled)
			synctest.Wait()
			for i := 1; i <= 2; i++ { // both places are free again
				took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
				mustCode(t, "next call", err, codes.OK)
				if took < spacing-time.Microsecond || took > spacing+time.Microsecond {
					t.Errorf("%s: call %d after the canceled one: finished after %v want %v", limit, i, took, spacing)
				}
			}
			if got := s.calls.Load(); got != 3 {
				t.Errorf("%s: the handler ran %d times want 3", limit, got)
			}
			w.stop()
		}
	})
}

// A place with later calls is not granted again: the calls stay evenly spaced.
func TestQueueCancelDoesNotShiftLaterCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serve(t, &service{}, newServer(t, nil, globalCharge(leaky("queue", "1/1s queue 5"))))
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
				t.Errorf("finished at %v want %v", got, want)
			}
		}
	})
}

// A call whose turn is after its deadline fails immediately.
func TestQueueDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newServer(t, nil, globalCharge(leaky("queue", "1/10s queue 3")), globalCharge(policy("tokens", "2/1h")))
		w := serve(t, &service{}, l)
		defer w.stop()
		w.empty(t.Context())
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
		mustCode(t, "too late", err, codes.DeadlineExceeded)
		if took != 0 {
			t.Errorf("too late: failed after %v want immediately", took)
		}
		// It has spent neither a unit of the other charge nor a place in the queue.
		took, err = timed(func() error { _, _, err := w.empty(t.Context()); return err })
		mustCode(t, "without a deadline", err, codes.OK)
		if took != 10*time.Second {
			t.Errorf("without a deadline: finished after %v want 10s", took)
		}
	})
}

// A message charge on the client does not prevent gRPC from retrying a denied stream.
func TestRetryPolicyWithMessageCharge(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, nil, perMessage(grpclimit.Charge{Policy: policy("messages", "1000/1s")}))
		l := newServer(t, nil, globalCharge(policy("streams", "1/10s")))
		w := serve(t, &service{}, l, withRetryPolicy("RESOURCE_EXHAUSTED"), grpc.WithStreamInterceptor(c.Stream))
		defer w.stop()
		for i, want := range []time.Duration{0, 10 * time.Second} {
			took, err := timed(func() error { _, _, err := w.echo(t.Context(), 2); return err })
			mustCode(t, "stream "+strconv.Itoa(i), err, codes.OK)
			if took != want {
				t.Errorf("stream %d: finished after %v want %v", i, took, want)
			}
		}
	})
}

// Stop cancels the queued call and frees its place. GracefulStop serves the queued call
// first.
func TestServerStopWithQueuedCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			name string
			stop func(*grpc.Server)
			took time.Duration
			want codes.Code
		}{
			{"stop", (*grpc.Server).Stop, 0, codes.Unavailable},
			{"graceful stop", (*grpc.Server).GracefulStop, time.Second, codes.OK},
		} {
			store := memstore.New(nil)
			p := leaky("queue", "1/1s queue 3")
			l, err := grpclimit.NewServer(store, nil, globalCharge(p))
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
				t.Errorf("%s: got %+v, error %v want 3 places", c.name, d, err)
			}
			w.stop()
		}
	})
}

// Many calls wait and some are canceled. The others are sent in order at their times,
// and no call gets the places of the canceled ones.
func TestClientCancelDoesNotShiftOtherCalls(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const calls = 60
		c := newClient(t, nil, grpclimit.Charge{Policy: policy("out", "10/1s burst 1")})
		w := serveClient(t, &service{}, c)
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
			synctest.Wait() // so that the calls arrive in order
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
