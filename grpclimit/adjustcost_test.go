package grpclimit_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/memstore"
)

// adjusted returns a charge of a policy with a first and a final cost.
func adjusted(p headgate.Policy, cost int64, final func(context.Context, grpclimit.Response) int64) grpclimit.Charge {
	return grpclimit.Charge{
		Policy: p, Key: grpclimit.Global(), AdjustCost: final,
		Cost: func(context.Context, grpclimit.Call) int64 { return cost },
	}
}

func finally(n int64) func(context.Context, grpclimit.Response) int64 {
	return func(context.Context, grpclimit.Response) int64 { return n }
}

// remaining returns how many units of a policy are left.
func remaining(t *testing.T, store headgate.Store, p headgate.Policy) int64 {
	t.Helper()
	l, err := headgate.New(store, p, nil)
	if err != nil {
		t.Fatal(err)
	}
	d, err := l.PeekN(context.Background(), "", 0)
	if err != nil {
		t.Fatal(err)
	}
	return d.Remaining
}

// sides has the two ways to limit calls with one charge or several.
var sides = map[string]func(t *testing.T, store headgate.Store, observer headgate.Observer, s *service, charges ...grpclimit.Charge) *testServer{
	"server": func(t *testing.T, store headgate.Store, observer headgate.Observer, s *service, charges ...grpclimit.Charge) *testServer {
		t.Helper()
		l, err := grpclimit.NewServer(store, &grpclimit.Options{Observer: observer}, charges...)
		if err != nil {
			t.Fatal(err)
		}
		return serve(t, s, l)
	},
	"client": func(t *testing.T, store headgate.Store, observer headgate.Observer, s *service, charges ...grpclimit.Charge) *testServer {
		t.Helper()
		c, err := grpclimit.NewClient(store, &grpclimit.ClientOptions{Observer: observer}, charges...)
		if err != nil {
			t.Fatal(err)
		}
		return serveClient(t, s, c)
	},
}

func TestAdjustCost(t *testing.T) {
	t.Parallel()
	fails := func(code codes.Code) func(context.Context) error {
		return func(context.Context) error { return status.Error(code, "no") }
	}
	for _, c := range []struct {
		name   string
		cost   int64
		adjust func(context.Context, grpclimit.Response) int64
		unary  func(context.Context) error
		left   int64
	}{
		{"no AdjustCost", 10, nil, nil, 90},
		{"only failures: a success", 10, grpclimit.OnlyFailures, nil, 100},
		{"only failures: a failure", 10, grpclimit.OnlyFailures, fails(codes.NotFound), 90},
		{"only successes: a success", 10, grpclimit.OnlySuccesses, nil, 90},
		{"only successes: a failure", 10, grpclimit.OnlySuccesses, fails(codes.Internal), 100},
		{"only a code: this one", 10, grpclimit.OnlyCodes(codes.PermissionDenied), fails(codes.PermissionDenied), 90},
		{"only a code: another one", 10, grpclimit.OnlyCodes(codes.PermissionDenied), fails(codes.NotFound), 100},
		{"more than was charged", 10, finally(42), nil, 58},
		{"more than remains", 10, finally(1000), nil, 0},
		{"unchanged", 10, finally(10), nil, 90},
		{"a cost below zero counts as 0", 10, finally(-5), nil, 100},
		{"cost 0, charged afterwards", 0, finally(30), nil, 70},
		{"largest cost", 100, finally(1 << 62), nil, 0},
	} {
		for side, start := range sides {
			store, p := memstore.New(nil), policy("p", "100/1h")
			w := start(t, store, nil, &service{unary: c.unary}, adjusted(p, c.cost, c.adjust))
			_, _, _ = w.empty(t.Context())
			w.stop()
			if got := remaining(t, store, p); got != c.left {
				t.Errorf("%s, %s: got %d units left of 100 want %d", side, c.name, got, c.left)
			}
		}
	}
}

// A lower cost has the same effect as if it had been charged at the beginning, also if
// others spent units during the call. A refund of the difference would leave 10.
func TestAdjustCostIsExact(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		synctest.Test(t, func(t *testing.T) {
			store, bucket := memstore.New(nil), policy("bucket", "1/s burst 10")
			other, err := headgate.New(store, bucket, nil)
			if err != nil {
				t.Fatal(err)
			}
			work := func(ctx context.Context) error {
				time.Sleep(8 * time.Second)
				_, err := other.AllowN(ctx, "", 5)
				return err
			}
			w := start(t, store, nil, &service{unary: work}, adjusted(bucket, 10, finally(1)))
			_, _, err = w.empty(t.Context())
			mustCode(t, side, err, codes.OK)
			synctest.Wait()
			if got := remaining(t, store, bucket); got != 5 {
				t.Errorf("%s: got %d units left want 5", side, got)
			}
			w.stop()
		})
	}
}

// AdjustCost gets the code, the error, the messages and the cost of a call however it
// ends, once.
func TestResponse(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		synctest.Test(t, func(t *testing.T) {
			got := make(chan grpclimit.Response, 9)
			adjust := func(_ context.Context, r grpclimit.Response) int64 {
				got <- r
				return r.Charged
			}
			var unary func(context.Context) error
			duplex := func(s pb.TestService_FullDuplexCallServer) error {
				for range 2 {
					if _, err := s.Recv(); err != nil {
						return err
					}
				}
				for range 3 {
					if err := s.Send(&pb.StreamingOutputCallResponse{Payload: &pb.Payload{Body: []byte("usage")}}); err != nil {
						return err
					}
				}
				return unary(s.Context())
			}
			s := &service{unary: func(ctx context.Context) error { return unary(ctx) }, duplex: duplex}
			w := start(t, memstore.New(nil), nil, s, adjusted(policy("p", "1000/1h"), 3, adjust))
			defer w.stop()
			stream := func(ctx context.Context) {
				s, err := w.client.FullDuplexCall(ctx)
				for range 2 {
					if err == nil {
						err = s.Send(message)
					}
				}
				for err == nil {
					_, err = s.Recv()
				}
			}
			hang := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
			for name, tt := range map[string]struct {
				do    func(context.Context) error
				code  codes.Code
				fails bool
			}{
				"success":         {func(context.Context) error { return nil }, codes.OK, false},
				"failure":         {func(context.Context) error { return status.Error(codes.NotFound, "no") }, codes.NotFound, true},
				"no status":       {func(context.Context) error { return errBroken }, codes.Unknown, true},
				"deadline passed": {hang, codes.DeadlineExceeded, true},
				"disconnect":      {hang, codes.Canceled, true},
			} {
				unary = tt.do
				for _, isStream := range []bool{false, true} {
					ctx, cancel := context.WithCancel(t.Context())
					if name == "deadline passed" {
						ctx, cancel = context.WithTimeout(t.Context(), time.Minute)
					} else if name == "disconnect" {
						time.AfterFunc(time.Minute, cancel)
					}
					if isStream {
						stream(ctx)
					} else {
						_, _ = w.client.EmptyCall(ctx, &pb.Empty{})
					}
					r := <-got
					cancel()
					synctest.Wait()
					requests, responses := int64(1), int64(1)
					if isStream {
						requests, responses = 2, 3
					} else if tt.fails {
						responses = 0
					}
					if side == "server" && name == "deadline passed" && r.Code == codes.Canceled {
						r.Code = tt.code // the client has cancelled the call at the same instant
					}
					if r.Code != tt.code || (r.Err != nil) != tt.fails || r.Panicked || r.Charged != 3 || r.Call.Stream != isStream || r.Call.Method == "" ||
						r.Requests != requests || r.Responses != responses || (r.Message != nil) != (responses > 0) || len(got) > 0 {
						t.Errorf("%s, %s, stream %v: got %+v and %d more want code %v, %d requests and %d responses",
							side, name, isStream, r, len(got), tt.code, requests, responses)
					}
					if m, ok := r.Message.(*pb.StreamingOutputCallResponse); isStream && (!ok || string(m.GetPayload().GetBody()) != "usage") {
						t.Errorf("%s, %s: got message %v want the last one of the stream", side, name, r.Message)
					}
				}
			}
		})
	}
}

// The cost of a client's stream is adjusted if the client only sends, cancels the stream,
// or cannot open it.
func TestAdjustCostOfClientStream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := make(chan grpclimit.Response, 9)
		store, p := memstore.New(nil), policy("p", "100/1h")
		w := sides["client"](t, store, nil, &service{}, adjusted(p, 10, func(_ context.Context, r grpclimit.Response) int64 {
			got <- r
			return 1
		}))
		one, err := w.client.StreamingInputCall(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			if err := one.Send(&pb.StreamingInputCallRequest{}); err != nil {
				t.Fatal(err)
			}
		}
		_, err = one.CloseAndRecv()
		mustCode(t, "only the client sends", err, codes.OK)
		if r := <-got; r.Code != codes.OK || r.Requests != 3 || r.Responses != 1 || r.Message == nil {
			t.Errorf("only the client sends: got %+v want 3 requests and 1 response", r)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if _, err := w.client.FullDuplexCall(ctx); err != nil {
			t.Fatal(err)
		}
		cancel()
		if r := <-got; r.Code != codes.Canceled || r.Responses != 0 {
			t.Errorf("cancelled: got %+v want code Canceled", r)
		}
		w.stop()
		if _, err := w.client.FullDuplexCall(t.Context()); err == nil {
			t.Fatal("a stream on a closed connection: no error")
		}
		if r := <-got; r.Code != codes.Canceled || r.Panicked {
			t.Errorf("not opened: got %+v want code Canceled", r)
		}
		synctest.Wait()
		if left := remaining(t, store, p); left != 97 || len(got) > 0 {
			t.Errorf("got %d units left and %d more calls of AdjustCost want 97 and 0", left, len(got))
		}
	})
}

// The cost is adjusted if a handler panics, and the panic continues. If AdjustCost
// panics, the charge stays and a slot of the same call is available again.
func TestAdjustCostPanic(t *testing.T) {
	t.Parallel()
	for _, inHandler := range []bool{true, false} {
		store, p, slots := memstore.New(nil), policy("p", "100/1h"), headgate.MustNamedPolicy("slots", "1 concurrent")
		adjust := func(_ context.Context, r grpclimit.Response) int64 {
			if !inHandler {
				panic("adjust")
			}
			if !r.Panicked || r.Code != codes.Internal || r.Err != nil {
				t.Errorf("got %+v want a panic with code Internal", r)
			}
			return 1
		}
		work := func() {
			if inHandler {
				panic("handler")
			}
		}
		l, err := grpclimit.NewServer(store, nil, adjusted(p, 10, adjust), globalCharge(slots))
		if err != nil {
			t.Fatal(err)
		}
		c, err := grpclimit.NewClient(store, nil, adjusted(p, 10, adjust), globalCharge(slots))
		if err != nil {
			t.Fatal(err)
		}
		want := int64(100)
		for name, call := range map[string]func(){
			"unary": func() {
				_, _ = l.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/m"}, func(context.Context, any) (any, error) { work(); return nil, nil })
			},
			"stream": func() {
				_ = l.Stream(nil, idleStream{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/m"}, func(any, grpc.ServerStream) error { work(); return nil })
			},
			"client": func() {
				_ = c.Unary(t.Context(), "/m", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
					work()
					return nil
				})
			},
		} {
			func() {
				defer func() {
					if recover() == nil {
						t.Errorf("%s: the panic did not continue", name)
					}
				}()
				call()
			}()
			if want--; !inHandler {
				want -= 9
			}
			if got := remaining(t, store, p); got != want {
				t.Errorf("%s, panic in handler %v: got %d units left want %d", name, inHandler, got, want)
			}
			if got := remaining(t, store, slots); got != 1 {
				t.Errorf("%s, panic in handler %v: got %d free slots want 1", name, inHandler, got)
			}
		}
	}
}

// idleStream is a stream of a server without messages.
type idleStream struct {
	grpc.ServerStream
	ctx context.Context
}

func (s idleStream) Context() context.Context { return s.ctx }

// A response without messages has no message.
func TestResponseOfEmptyStream(t *testing.T) {
	t.Parallel()
	for side, start := range sides {
		got := make(chan grpclimit.Response, 1)
		w := start(t, memstore.New(nil), nil, &service{}, adjusted(policy("p", "10/1h"), 1, func(_ context.Context, r grpclimit.Response) int64 {
			got <- r
			return 0
		}))
		n, _, err := w.echo(t.Context(), 0)
		if n != 0 || err != nil && !errors.Is(err, io.EOF) {
			t.Fatalf("%s: got %d responses, error %v want none", side, n, err)
		}
		if r := <-got; r.Code != codes.OK || r.Message != nil || r.Requests != 0 || r.Responses != 0 {
			t.Errorf("%s: got %+v want no messages", side, r)
		}
	}
}
