package rlsapi_test

import (
	"context"
	"net"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

func mustConfig(t testing.TB, content string) *envoyconfig.Config {
	t.Helper()
	c, err := envoyconfig.Parse([]envoyconfig.File{{Name: "test.yaml", Content: []byte(content)}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// open returns a handler with a store; nil means a new one in memory.
func open(t testing.TB, store headgate.Store, config string, opts *rlsapi.Options) *rlsapi.Handler {
	t.Helper()
	if store == nil {
		store = memstore.New(nil)
	}
	e, err := engine.New(store, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := mustHandler(t, e, opts)
	if config != "" {
		if err := h.Apply(mustConfig(t, config)); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// serve serves on a free port until the test ends.
func serve(t testing.TB, h *rlsapi.Handler, opts *rlsapi.ServerOptions) (addr string, s *rlsapi.Server) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = rlsapi.NewServer(h, opts)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-ended; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return ln.Addr().String(), s
}

func connect(t testing.TB, addr string, opts ...grpc.DialOption) *grpc.ClientConn {
	t.Helper()
	if len(opts) == 0 {
		opts = []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	}
	conn, err := grpc.NewClient(addr, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func client(t testing.TB, h *rlsapi.Handler, opts *rlsapi.ServerOptions) pb.RateLimitServiceClient {
	t.Helper()
	addr, _ := serve(t, h, opts)
	return pb.NewRateLimitServiceClient(connect(t, addr))
}
