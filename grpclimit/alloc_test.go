package grpclimit_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	pb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/grpclimit"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/memstore"
)

// Concurrent clients with separate connections, unary calls and streams: exactly the
// limit is allowed.
func TestConcurrentCallsStayWithinLimit(t *testing.T) {
	t.Parallel()
	const clients, calls, limit = 16, 40, 301
	w := serve(t, &service{}, newServer(t, nil, globalCharge(policy("calls", fmt.Sprintf("%d/1h", limit)))))
	var allowed, denied atomic.Int64
	var all sync.WaitGroup
	for range clients {
		conn := w.dial(t)
		defer conn.Close()
		client := &testServer{client: pb.NewTestServiceClient(conn)}
		all.Go(func() {
			for i := range calls {
				var err error
				if i%4 == 0 {
					_, _, err = client.echo(t.Context(), 1)
				} else {
					_, _, err = client.empty(t.Context())
				}
				switch retry, _ := details(err); {
				case err == nil:
					allowed.Add(1)
				case status.Code(err) == codes.ResourceExhausted && retry.GetRetryDelay().AsDuration() > 0:
					denied.Add(1)
				default:
					t.Errorf("got %v", err)
				}
			}
		})
	}
	all.Wait()
	if allowed.Load() != limit || denied.Load() != clients*calls-limit || w.service.calls.Load() != limit {
		t.Errorf("got %d allowed, %d denied, %d handled want %d allowed", allowed.Load(), denied.Load(), w.service.calls.Load(), limit)
	}
}

func TestHealthChecksAreSkipped(t *testing.T) {
	t.Parallel()
	l := newServer(t, &grpclimit.Options{Skip: grpclimit.HealthOrReflection}, globalCharge(policy("calls", "1/1h")))
	server := grpc.NewServer(grpc.UnaryInterceptor(l.Unary), grpc.StreamInterceptor(l.Stream))
	checks := health.NewServer()
	healthpb.RegisterHealthServer(server, checks)
	socket, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go server.Serve(socket)
	defer server.Stop()
	conn := connect(t, socket.Addr().String())
	defer conn.Close()
	client := healthpb.NewHealthClient(conn)
	for range 3 {
		if _, err := client.Check(t.Context(), &healthpb.HealthCheckRequest{}); err != nil {
			t.Fatalf("a health check: got %v", err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		watch, err := client.Watch(ctx, &healthpb.HealthCheckRequest{})
		if err == nil {
			_, err = watch.Recv()
		}
		cancel()
		if err != nil {
			t.Fatalf("a watch: got %v", err)
		}
	}
	for method, want := range map[string]bool{
		"/grpc.reflection.v1.ServerReflection/ServerReflectionInfo":      true,
		"/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo": true,
		"/grpc.health.v1.HealthX/Check":                                  false,
		"/shop.Cart/grpc.health.v1.Health":                               false,
		"":                                                               false,
	} {
		if got := grpclimit.HealthOrReflection(t.Context(), grpclimit.Call{Method: method}); got != want {
			t.Errorf("%q: got %v want %v", method, got, want)
		}
	}
}

// transport is a server transport stream that stores the header.
type transport struct{ header metadata.MD }

func (s *transport) Method() string { return "/shop.Cart/Add" }
func (s *transport) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}
func (s *transport) SendHeader(metadata.MD) error { return nil }
func (s *transport) SetTrailer(metadata.MD) error { return nil }

// interceptor returns a function that calls limit as a server does.
func interceptor(ctx context.Context, limit *grpclimit.Server) func() {
	to := &transport{}
	ctx = grpc.NewContextWithServerTransportStream(ctx, to)
	info := &grpc.UnaryServerInfo{FullMethod: to.Method()}
	handler := func(context.Context, any) (any, error) { return nil, nil }
	return func() {
		to.header = nil
		if _, err := limit.Unary(ctx, nil, info, handler); err != nil {
			panic(err)
		}
	}
}

var fieldsWhen = map[string]*httpfields.Options{"always": nil, "denied": {When: httpfields.OnDenial}}

// An allowed unary call allocates its key, the fields' text, values and metadata (4),
// and the copies of the transport (4).
func TestAllowedCallAllocations(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector allocates")
	}
	for when, maxAllocs := range map[string]float64{"always": 9, "denied": 1} {
		l := newServer(t, &grpclimit.Options{Fields: fieldsWhen[when]}, grpclimit.Charge{Policy: policy("calls", "1000000000/1s")})
		if got := testing.AllocsPerRun(1000, interceptor(from("198.51.100.7:4711", "user-agent", "x"), l)); got > maxAllocs {
			t.Errorf("fields %s: got %v allocations want at most %v", when, got, maxAllocs)
		}
	}
}

func BenchmarkUnary(b *testing.B) {
	for when, fields := range fieldsWhen {
		b.Run("fields="+when, func(b *testing.B) {
			l, err := grpclimit.NewServer(memstore.New(nil), &grpclimit.Options{Fields: fields}, grpclimit.Charge{Policy: policy("calls", "1000000000/1s")})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run := interceptor(from("198.51.100.7:4711", "user-agent", "x"), l)
			for b.Loop() {
				run()
			}
		})
	}
}

// BenchmarkServer measures complete calls on a connection, with and without a limit.
func BenchmarkServer(b *testing.B) {
	for _, c := range []struct {
		name  string
		limit *grpclimit.Server
	}{
		{"unlimited", nil},
		{"limited", newServer(b, nil, grpclimit.Charge{Policy: policy("calls", "1000000000/1s")})},
		{"no fields", newServer(b, &grpclimit.Options{Fields: fieldsWhen["denied"]}, grpclimit.Charge{Policy: policy("calls", "1000000000/1s")})},
	} {
		b.Run(c.name, func(b *testing.B) {
			w := serve(b, &service{}, c.limit)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := w.client.EmptyCall(b.Context(), &pb.Empty{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
