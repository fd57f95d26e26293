package grpclimit_test

import (
	"cmp"
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// serveClient serves s without limits to a client with the interceptors of c.
func serveClient(t *testing.T, s *service, c *grpclimit.Client) *testServer {
	t.Helper()
	return serve(t, s, nil, grpc.WithUnaryInterceptor(c.Unary), grpc.WithStreamInterceptor(c.Stream))
}

func TestClientWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorded := &eventRecorder{}
		w := serveClient(t, &service{}, newClient(t, &grpclimit.ClientOptions{Observer: recorded}, grpclimit.Charge{Policy: policy("out", "2/1s")}))
		defer w.stop()
		begin := time.Now()
		for i, want := range []time.Duration{0, 0, 500 * time.Millisecond, time.Second} {
			_, _, err := w.empty(t.Context())
			mustCode(t, "in turn", err, codes.OK)
			if got := time.Since(begin); got != want {
				t.Errorf("call %d: sent at %v want %v", i, got, want)
			}
		}
		if e := recorded.all(); len(e) != 4 || e[0].Verb != "wait" || e[0].Policy != "out" {
			t.Errorf("observed %+v want four wait events", e)
		}
	})
}

func TestClientFailsWithoutTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		first := grpclimit.Charge{Policy: policy("first", "2/1h"), Key: grpclimit.Method()}
		out := grpclimit.Charge{Policy: policy("out", "1/10s")}
		out.Cost = func(ctx context.Context, _ grpclimit.Call) int64 {
			if cost, ok := ctx.Value(costKey{}).(int64); ok {
				return cost
			}
			return 1
		}
		w := serveClient(t, &service{}, newClient(t, nil, first, out))
		defer w.stop()
		w.empty(t.Context())
		deadline, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		cancelled, cancelLater := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancelLater)
		for _, c := range []struct {
			name string
			ctx  context.Context
			code codes.Code
			is   error
			took time.Duration
		}{
			{"turn after the deadline", deadline, codes.ResourceExhausted, headgate.ErrWouldExceedDeadline, 0},
			{"cost above the limit", context.WithValue(t.Context(), costKey{}, int64(2)), codes.ResourceExhausted, headgate.ErrNeverAllowed, 0},
			{"a cost below zero", context.WithValue(t.Context(), costKey{}, int64(-1)), codes.Internal, headgate.ErrInvalidCost, 0},
			{"canceled while waiting", cancelled, codes.Canceled, context.Canceled, time.Second},
		} {
			took, err := timed(func() error { _, _, err := w.empty(c.ctx); return err })
			mustCode(t, c.name, err, c.code)
			if !errors.Is(err, c.is) || took != c.took {
				t.Errorf("%s: got %v after %v want %v after %v", c.name, err, took, c.is, c.took)
			}
		}
		if got := w.service.calls.Load(); got != 1 {
			t.Errorf("%d calls were sent want 1", got)
		}
		// the first charge has one unit left: calls that were not sent are refunded
		_, _, err := w.empty(t.Context())
		mustCode(t, "in turn", err, codes.OK)
	})
}

type costKey struct{}

func TestClientStreams(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		opens := grpclimit.Charge{Policy: policy("streams", "1/10s")}
		w := serveClient(t, &service{}, newClient(t, nil, opens, perMessage(grpclimit.Charge{Policy: policy("messages", "2/1s")})))
		defer w.stop()
		for i, want := range []time.Duration{time.Second, 9*time.Second + 500*time.Millisecond} {
			took, err := timed(func() error {
				n, _, err := w.echo(t.Context(), []int{4, 3}[i])
				if err == nil && n != []int{4, 3}[i] {
					t.Errorf("stream %d: got %d responses", i, n)
				}
				return err
			})
			mustCode(t, "a stream", err, codes.OK)
			if took != want {
				t.Errorf("stream %d: finished after %v want %v", i, took, want)
			}
		}
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := w.client.FullDuplexCall(ctx)
		mustCode(t, "too late to open", err, codes.ResourceExhausted)
		if !errors.Is(err, headgate.ErrWouldExceedDeadline) {
			t.Errorf("too late to open: got %v", err)
		}
	})
}

func TestClientMessageDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := serveClient(t, &service{}, newClient(t, nil, perMessage(grpclimit.Charge{Policy: policy("messages", "1/10s")})))
		defer w.stop()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		stream, err := w.client.FullDuplexCall(ctx)
		if err != nil || stream.Send(message) != nil {
			t.Fatal("the first message was not sent", err)
		}
		took, err := timed(func() error { return stream.Send(message) })
		mustCode(t, "the second message", err, codes.ResourceExhausted)
		if took != 0 {
			t.Errorf("failed after %v want immediately", took)
		}
	})
}

// The client limit is higher than the server limit, so the client retries after the
// RetryInfo.
func TestClientRetriesAfterRetryInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &grpclimit.ClientOptions{Retries: 1}, grpclimit.Charge{Policy: policy("out", "1000/1s")})
		w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("calls", "3/1s"))), grpc.WithUnaryInterceptor(c.Unary))
		defer w.stop()
		for i := range 5 {
			took, err := timed(func() error { _, _, err := w.empty(t.Context()); return err })
			mustCode(t, "retried call", err, codes.OK)
			if want := []time.Duration{0, 0, 0, 333_334 * time.Microsecond, 333_333 * time.Microsecond}[i]; took != want {
				t.Errorf("call %d: finished after %v want %v", i, took, want)
			}
		}
	})
}

func TestClientIgnoresInvalidRetryInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		delay := func(d *durationpb.Duration) error {
			s, _ := status.New(codes.Unavailable, "").WithDetails(&errdetails.QuotaFailure{}, &errdetails.RetryInfo{RetryDelay: d})
			return s.Err()
		}
		for _, c := range []struct {
			name  string
			err   error
			calls int64
			took  time.Duration
			limit time.Duration // the call's own; 0 means 19s
		}{
			{"2s", delay(durationpb.New(2 * time.Second)), 3, 4 * time.Second, 0},
			{"a RetryInfo without a delay", delay(nil), 1, 0, 0},
			{"no delay", delay(durationpb.New(0)), 3, 0, 0},
			{"no RetryInfo", status.Error(codes.ResourceExhausted, ""), 1, 0, 0},
			{"another code", status.Error(codes.Internal, ""), 1, 0, 0},
			{"below zero", delay(durationpb.New(-time.Second)), 1, 0, 0},
			{"delay overflows", delay(&durationpb.Duration{Seconds: math.MaxInt64}), 1, 0, 0},
			{"above MaxRetryDelay", delay(durationpb.New(21 * time.Second)), 1, 0, time.Hour},
			{"past the deadline", delay(durationpb.New(20 * time.Second)), 1, 0, 0},
		} {
			limit := newClient(t, &grpclimit.ClientOptions{Retries: 2, MaxRetryDelay: 20 * time.Second}, grpclimit.Charge{Policy: policy("out", "9/1s")})
			w := serveClient(t, &service{unary: func(context.Context) error { return c.err }}, limit)
			ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(c.limit, 19*time.Second))
			took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
			mustCode(t, c.name, err, status.Code(c.err))
			if got := w.service.calls.Load(); got != c.calls || took != c.took {
				t.Errorf("%s: sent %d times in %v want %d in %v", c.name, got, took, c.calls, c.took)
			}
			cancel()
			w.stop()
		}
	})
}

// A client that is canceled between two attempts does not retry.
func TestClientRetryStopsOnCancel(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newClient(t, &grpclimit.ClientOptions{Retries: 9}, grpclimit.Charge{Policy: policy("out", "9/1s")})
		w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("calls", "1/20s"))), grpc.WithUnaryInterceptor(c.Unary))
		defer w.stop()
		w.empty(t.Context())
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		took, err := timed(func() error { _, _, err := w.empty(ctx); return err })
		mustCode(t, "the server's denial", err, codes.ResourceExhausted)
		if took != time.Second {
			t.Errorf("failed after %v want 1s", took)
		}
	})
}

func TestClientStoreError(t *testing.T) {
	t.Parallel()
	var skip atomic.Bool
	store := memstore.New(nil)
	pass := func(context.Context, grpclimit.Call, error) error { return nil }
	for _, c := range []struct {
		opts *grpclimit.ClientOptions
		want codes.Code
	}{
		{nil, codes.Unavailable},
		{&grpclimit.ClientOptions{ErrorHandler: pass}, codes.OK},
		{&grpclimit.ClientOptions{Skip: func(context.Context, grpclimit.Call) bool { return skip.Swap(true) || true }}, codes.OK},
	} {
		limit, err := grpclimit.NewClient(store, c.opts, grpclimit.Charge{Policy: policy("out", "9/1s")})
		if err != nil {
			t.Fatal(err)
		}
		store.Close()
		w := serveClient(t, &service{}, limit)
		_, err = w.client.EmptyCall(t.Context(), &pb.Empty{})
		mustCode(t, "closed", err, c.want)
		if c.want != codes.OK && !errors.Is(err, headgate.ErrClosed) {
			t.Errorf("got %v want it to wrap the store's error", err)
		}
		store = memstore.New(nil)
	}
	if !skip.Load() {
		t.Error("Skip was not called")
	}
}

// failingStore is a store on which reservations of one limit fail and other operations
// succeed.
type failingStore struct {
	headgate.Store
	scope string
}

func (s failingStore) Bind(r headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(r)
	if r.Name == s.scope {
		return failingBound{b}, err
	}
	return b, err
}

type failingBound struct{ headgate.Bound }

func (failingBound) Reserve(
	context.Context, headgate.Instant, string, int64, time.Duration,
) (headgate.Decision, headgate.ReservationToken, error) {
	return headgate.Decision{}, headgate.ReservationToken{}, headgate.ErrStoreUnavailable
}

// A charge that failed, and that ErrorHandler ignored, is not refunded.
func TestClientRefundsOnlyItsCharges(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	first := policy("first", "5/1h")
	limiter, err := headgate.New(store, first, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := limiter.AllowN(t.Context(), "", 3); err != nil || !d.Allowed {
		t.Fatal(d, err)
	}
	never := globalCharge(policy("never", "1/1h"))
	never.Cost = func(context.Context, grpclimit.Call) int64 { return 2 }
	pass := func(context.Context, grpclimit.Call, error) error { return nil }
	c, err := grpclimit.NewClient(failingStore{store, "first"}, &grpclimit.ClientOptions{ErrorHandler: pass}, globalCharge(first), never)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = serveClient(t, &service{}, c).empty(t.Context())
	mustCode(t, "the second charge", err, codes.ResourceExhausted)
	if d, err := limiter.PeekN(t.Context(), "", 0); err != nil || d.Remaining != 2 {
		t.Errorf("got %+v, error %v want 2 remaining", d, err)
	}
}
