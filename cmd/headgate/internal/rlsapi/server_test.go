package rlsapi_test

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"

	"github.com/headgate/headgate/internal/testserver"
)

const smallConfig = `
domain: d
descriptors:
  - key: k
    rate_limit: {unit: hour, requests_per_unit: 5, name: five}
`

func TestOverGRPC(t *testing.T) {
	t.Parallel()
	c := client(t, open(t, nil, smallConfig, nil), nil)
	for i := range 7 {
		resp, err := c.ShouldRateLimit(t.Context(), request("d", "k", "v"))
		if err != nil {
			t.Fatal(err)
		}
		s := resp.GetStatuses()[0]
		wantCode, wantLeft := pb.RateLimitResponse_OK, uint32(max(0, 4-i))
		if i >= 5 {
			wantCode = pb.RateLimitResponse_OVER_LIMIT
		}
		if resp.GetOverallCode() != wantCode || s.GetCode() != wantCode || s.GetLimitRemaining() != wantLeft || s.GetCurrentLimit().GetName() != "five" ||
			s.GetDurationUntilReset().GetSeconds() < 1 || s.GetDurationUntilReset().GetNanos() != 0 {
			t.Errorf("request %d: got %v want %v with %d left", i+1, resp, wantCode, wantLeft)
		}
	}
}

// TestLongKeys: a long key is stored as its hash and still has its own counter.
func TestLongKeys(t *testing.T) {
	t.Parallel()
	h := open(t, nil, "domain: d\ndescriptors: [{key: k, descriptors: [{key: k, rate_limit: {unit: hour, requests_per_unit: 1}}]}]", nil)
	ask := func(last string) pb.RateLimitResponse_Code {
		resp, err := h.ShouldRateLimit(t.Context(), request("d", "k", strings.Repeat("v", 1024), "k", strings.Repeat("v", 1023)+last))
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetOverallCode()
	}
	if ask("a") != pb.RateLimitResponse_OK || ask("b") != pb.RateLimitResponse_OK || ask("a") != pb.RateLimitResponse_OVER_LIMIT {
		t.Error("two long keys that differ in their last byte share a budget, or one has several")
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	h := open(t, nil, "", &rlsapi.Options{NeedDomains: true})
	addr, s := serve(t, h, nil)
	c := grpc_health_v1.NewHealthClient(connect(t, addr))
	state := func(service string) grpc_health_v1.HealthCheckResponse_ServingStatus {
		resp, err := c.Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		return resp.GetStatus()
	}
	mustBe := func(when string, want grpc_health_v1.HealthCheckResponse_ServingStatus) {
		t.Helper()
		if got := state("ratelimit"); got != want {
			t.Errorf("%s: ratelimit is %v, want %v", when, got, want)
		}
		if got := state(""); got != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("%s: the server is %v, want it serving in any case", when, got)
		}
	}
	mustBe("without a configuration", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if err := h.Apply(mustConfig(t, smallConfig)); err != nil {
		t.Fatal(err)
	}
	mustBe("with one", grpc_health_v1.HealthCheckResponse_SERVING)
	s.Drain()
	mustBe("on its way out", grpc_health_v1.HealthCheckResponse_NOT_SERVING)
	if h.Healthy() {
		t.Error("on its way out the handler is healthy")
	}
}

func TestShutdownEndsHealthWatches(t *testing.T) {
	t.Parallel()
	addr, s := serve(t, open(t, nil, smallConfig, nil), nil)
	c := grpc_health_v1.NewHealthClient(connect(t, addr))
	states := make(map[string]grpc_health_v1.Health_WatchClient)
	for _, service := range []string{"", "ratelimit", "unknown"} {
		stream, err := c.Watch(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); err != nil {
			t.Fatal(err)
		}
		states[service] = stream
	}
	s.Drain()
	if resp, err := states["ratelimit"].Recv(); err != nil || resp.GetStatus() != grpc_health_v1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("on its way out: %v, %v, want not serving", resp.GetStatus(), err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if err := s.Shutdown(ctx); err != nil {
		t.Errorf("three who watch held it open: %v", err)
	}
	for service, stream := range states {
		if resp, err := stream.Recv(); status.Code(err) != codes.Unavailable {
			t.Errorf("%q: %v, %v, want the end", service, resp, err)
		}
	}
}

func TestReflection(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, open(t, nil, smallConfig, nil), nil)
	stream, err := grpc_reflection_v1.NewServerReflectionClient(connect(t, addr)).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
	}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || !strings.Contains(resp.String(), "envoy.service.ratelimit.v3.RateLimitService") {
		t.Errorf("got %v, error %v, want Envoy's service among those listed", resp, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	ours, theirs := testserver.NewAuthority(t), testserver.NewAuthority(t)
	addr, _ := serve(t, open(t, nil, smallConfig, nil), &rlsapi.ServerOptions{TLS: &tls.Config{
		Certificates: []tls.Certificate{ours.Pair(2, "127.0.0.1")}, ClientCAs: ours.Pool, ClientAuth: tls.RequireAndVerifyClientCert,
	}})
	for _, c := range []struct {
		name string
		cert []tls.Certificate
		want codes.Code
	}{
		{"a certificate of ours", []tls.Certificate{ours.Pair(3, "envoy")}, codes.OK},
		{"none", nil, codes.Unavailable},
		{"one of others", []tls.Certificate{theirs.Pair(3, "envoy")}, codes.Unavailable},
	} {
		conn := connect(t, addr, grpc.WithTransportCredentials(credentials.NewTLS(&tls.Config{RootCAs: ours.Pool, Certificates: c.cert})))
		_, err := pb.NewRateLimitServiceClient(conn).ShouldRateLimit(t.Context(), request("d", "k", "v"))
		if status.Code(err) != c.want {
			t.Errorf("%s: got %v want %v", c.name, err, c.want)
		}
	}
	if _, err := pb.NewRateLimitServiceClient(connect(t, addr)).ShouldRateLimit(t.Context(), request("d", "k", "v")); status.Code(err) != codes.Unavailable {
		t.Errorf("plain text: got %v", err)
	}
}

// TestShutdownUnderLoad: requests in flight get their responses, even during a shutdown
// and a reload.
func TestShutdownUnderLoad(t *testing.T) {
	t.Parallel()
	rounds := 8
	if testing.Short() {
		rounds = 3
	}
	for range rounds {
		h := open(t, nil, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: 1000000000}}]", nil)
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		s := rlsapi.NewServer(h, nil)
		ended := make(chan error, 1)
		go func() { ended <- s.Serve(ln) }()
		var answered, failed atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 8 {
			conn := connect(t, ln.Addr().String())
			c := pb.NewRateLimitServiceClient(conn)
			if _, err := c.ShouldRateLimit(ctx, request("d", "k", "v")); err != nil {
				t.Fatal(err)
			}
			wg.Go(func() {
				for ctx.Err() == nil && conn.GetState().String() == "READY" {
					if _, err := c.ShouldRateLimit(context.Background(), request("d", "k", "v")); err == nil {
						answered.Add(1)
					} else if !strings.Contains(err.Error(), "connection refused") { // it was not accepted any more
						failed.Add(1)
						t.Errorf("a call failed: %v", err)
					}
				}
			})
		}
		until(t, "100 calls are answered, or one fails", func() bool { return answered.Load() >= 100 || failed.Load() > 0 })
		if err := s.Shutdown(t.Context()); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		stop()
		wg.Wait()
		if err := <-ended; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Errorf("Serve: %v", err)
		}
	}
}

// TestPanic: a request that causes a panic gets an error, and the next one is served.
func TestPanic(t *testing.T) {
	t.Parallel()
	var log strings.Builder
	c := client(t, open(t, panicking{memstore.New(nil)}, smallConfig, &rlsapi.Options{Log: slog.New(slog.NewTextHandler(&log, nil))}), nil)
	for range 2 {
		if _, err := c.ShouldRateLimit(t.Context(), request("d", "k", "person@example.com")); status.Code(err) != codes.Internal {
			t.Errorf("got %v want Internal", err)
		}
	}
	if got := log.String(); !strings.Contains(got, "the store is broken") || strings.Contains(got, "person") {
		t.Errorf("the log is %s", got)
	}
}

// panicking is a store that panics at every decision.
type panicking struct{ headgate.Store }

func (p panicking) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := p.Store.Bind(rule)
	return panickingBound{b}, err
}

type panickingBound struct{ headgate.Bound }

func (panickingBound) Apply(context.Context, headgate.Instant, string, headgate.Verb, int64) (headgate.Decision, error) {
	panic("the store is broken")
}

// TestServeAfterShutdown: a listener that is started during a shutdown is closed
// without error.
func TestServeAfterShutdown(t *testing.T) {
	t.Parallel()
	s := rlsapi.NewServer(open(t, nil, "domain: d", nil), nil)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Serve(ln); err != nil {
		t.Errorf("got error %v want none", err)
	}
	if _, err := ln.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("the listener: got error %v want it closed", err)
	}
}
