package grpclimit_test

import (
	"context"
	"errors"
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

func slotsCharge() grpclimit.Charge {
	return grpclimit.Charge{Policy: headgate.MustNamedPolicy("slots", "1 concurrent"), Key: grpclimit.Global()}
}

func rateCharge() grpclimit.Charge {
	return grpclimit.Charge{Policy: headgate.MustNamedPolicy("rate", "9/366d"), Key: grpclimit.Global()}
}

// mustBeFree fails if a slot is taken, or if the number of units of the rate that are
// spent differs.
func mustBeFree(t *testing.T, store headgate.Store, spent int64) {
	t.Helper()
	for name, want := range map[string]int64{"1 concurrent": 1, "9/366d": 9 - spent} {
		charge := slotsCharge()
		if name == "9/366d" {
			charge = rateCharge()
		}
		l, err := headgate.New(store, charge.Policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.PeekN(context.Background(), "", 0); err != nil || d.Remaining != want {
			t.Errorf("%s: got %d remaining, error %v want %d", name, d.Remaining, err, want)
		}
	}
}

// A server holds a slot while a handler runs, extends it for as long, and releases it
// however the call ends. A denial spends no rate.
func TestServerSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		limit, err := grpclimit.NewServer(store, nil, slotsCharge(), rateCharge())
		if err != nil {
			t.Fatal(err)
		}
		running, end := make(chan struct{}), make(chan func() error)
		wait := func(ctx context.Context) error {
			running <- struct{}{}
			select {
			case f := <-end:
				return f()
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		w := serve(t, &service{unary: wait, duplex: func(s pb.TestService_FullDuplexCallServer) error { return wait(s.Context()) }}, limit)
		defer w.stop()
		calls := map[string]func(ctx context.Context) error{
			"unary": func(ctx context.Context) error { _, err := w.client.EmptyCall(ctx, &pb.Empty{}); return err },
			"stream": func(ctx context.Context) error {
				s, err := w.client.FullDuplexCall(ctx)
				if err == nil {
					_, err = s.Recv()
				}
				return err
			},
		}
		spent := int64(0)
		for kind, call := range calls {
			for _, how := range []string{"return", "error", "disconnect", "panic"} {
				if kind == "stream" && how == "panic" {
					continue // the test server recovers panics of unary handlers only
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx) }()
				<-running
				spent++
				time.Sleep(10 * time.Minute)
				if err := calls["unary"](t.Context()); status.Code(err) != codes.ResourceExhausted {
					t.Errorf("%s, while a call runs: got %v want RESOURCE_EXHAUSTED", kind, err)
				}
				switch how {
				case "disconnect":
					cancel()
				case "panic":
					end <- func() error { panic("a handler that panics") }
				case "error":
					end <- func() error { return errors.New("failed") }
				default:
					end <- func() error { return nil }
				}
				<-done
				cancel()
				synctest.Wait()
				t.Log(kind, how)
				mustBeFree(t, store, spent)
			}
		}
	})
}

// A client holds a slot until the call or stream has ended. A call for which none is
// available is not sent, and spends no rate.
func TestClientSlots(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New(nil)
		limit, err := grpclimit.NewClient(store, nil, rateCharge(), slotsCharge())
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan struct{})
		s := &service{
			unary:  func(context.Context) error { <-end; return nil },
			duplex: func(pb.TestService_FullDuplexCallServer) error { <-end; return nil },
		}
		w := serve(t, s, nil, grpc.WithUnaryInterceptor(limit.Unary), grpc.WithStreamInterceptor(limit.Stream))
		defer w.stop()
		done := make(chan error, 1)
		go func() { _, err := w.client.EmptyCall(t.Context(), &pb.Empty{}); done <- err }()
		time.Sleep(10 * time.Minute)
		if _, err := w.client.EmptyCall(t.Context(), &pb.Empty{}); status.Code(err) != codes.ResourceExhausted || !errors.Is(err, grpclimit.ErrNoSlot) {
			t.Errorf("a second call: got error %v want RESOURCE_EXHAUSTED and ErrNoSlot", err)
		}
		end <- struct{}{}
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		mustBeFree(t, store, 1)

		for _, how := range []string{"end", "cancel"} {
			ctx, cancel := context.WithCancel(t.Context())
			stream, err := w.client.FullDuplexCall(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := w.client.FullDuplexCall(t.Context()); !errors.Is(err, grpclimit.ErrNoSlot) {
				t.Errorf("a second stream: got error %v want ErrNoSlot", err)
			}
			if how == "end" {
				end <- struct{}{}
				stream.Recv()
			}
			cancel()
			synctest.Wait()
			if how == "cancel" {
				end <- struct{}{}
			}
		}
		mustBeFree(t, store, 3)
	})
}

func TestSlotsPerMessage(t *testing.T) {
	t.Parallel()
	charge := slotsCharge()
	charge.PerMessage = true
	if _, err := grpclimit.NewServer(memstore.New(nil), nil, charge); !errors.Is(err, grpclimit.ErrInvalidOptions) {
		t.Errorf("server: got error %v want ErrInvalidOptions", err)
	}
	if _, err := grpclimit.NewClient(memstore.New(nil), nil, charge); !errors.Is(err, grpclimit.ErrInvalidOptions) {
		t.Errorf("client: got error %v want ErrInvalidOptions", err)
	}
}
