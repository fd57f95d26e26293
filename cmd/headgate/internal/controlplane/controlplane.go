// Package controlplane is an xDS server for tests, based on go-control-plane.
package controlplane

import (
	"context"
	"crypto/tls"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	discovery "github.com/envoyproxy/go-control-plane/envoy/service/discovery/v3"
	"github.com/envoyproxy/go-control-plane/pkg/cache/types"
	"github.com/envoyproxy/go-control-plane/pkg/cache/v3"
	"github.com/envoyproxy/go-control-plane/pkg/resource/v3"
	"github.com/envoyproxy/go-control-plane/pkg/server/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
)

// Server is a control plane over TCP. It is created with [Start], stops at the end of
// the test, and may be used concurrently.
type Server struct {
	t    testing.TB
	tls  *tls.Config
	addr string

	mu       sync.Mutex
	cache    cache.SnapshotCache
	grpc     *grpc.Server
	cancel   context.CancelFunc
	done     chan struct{}
	requests []*discovery.DiscoveryRequest
	headers  []metadata.MD
}

// Start starts a server on a free loopback port; with TLS if config is not nil.
func Start(t testing.TB, config *tls.Config) *Server {
	t.Helper()
	s := &Server{t: t, tls: config, addr: "127.0.0.1:0"}
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// Addr returns the address, which stays the same after [Server.Down].
func (s *Server) Addr() string { return s.addr }

// Secure sets the TLS configuration, nil for plain text, from the next call of
// [Server.Up] on.
func (s *Server) Secure(config *tls.Config) { s.tls = config }

// Up starts the server again at the same address, without a configuration.
func (s *Server) Up() {
	s.t.Helper()
	ln, err := s.listen()
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(context.Background())
	s.addr, s.done = ln.Addr().String(), make(chan struct{})
	s.cache = cache.NewSnapshotCache(true, cache.IDHash{}, nil)
	var opts []grpc.ServerOption
	if s.tls != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(s.tls)))
	}
	s.grpc = grpc.NewServer(opts...)
	callbacks := server.CallbackFuncs{StreamOpenFunc: s.streamOpened, StreamRequestFunc: s.requestReceived}
	discovery.RegisterAggregatedDiscoveryServiceServer(s.grpc, server.NewServer(ctx, s.cache, callbacks))
	go func(server *grpc.Server, done chan<- struct{}) {
		defer close(done)
		_ = server.Serve(ln) // clients detect errors
	}(s.grpc, s.done)
}

// listen listens on the server's address. Until clients have closed their
// connections, another socket may use the port.
func (s *Server) listen() (ln net.Listener, err error) {
	for range 100 {
		if ln, err = net.Listen("tcp", s.addr); err == nil { //nolint:noctx // a loopback port
			return ln, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

// Down stops the server immediately.
func (s *Server) Down() {
	s.mu.Lock()
	running, cancel, done := s.grpc, s.cancel, s.done
	s.mu.Unlock()
	cancel()
	running.Stop()
	<-done
}

// Push replaces the configuration of a node.
func (s *Server) Push(node, version string, configs ...*ratelimit.RateLimitConfig) {
	s.t.Helper()
	resources := make([]types.Resource, len(configs))
	for i, c := range configs {
		resources[i] = c
	}
	snapshot, err := cache.NewSnapshot(version, map[resource.Type][]types.Resource{resource.RateLimitConfigType: resources})
	if err != nil {
		s.t.Fatal(err)
	}
	s.mu.Lock()
	snapshots := s.cache
	s.mu.Unlock()
	if err := snapshots.SetSnapshot(context.Background(), node, snapshot); err != nil {
		s.t.Fatal(err)
	}
}

func (s *Server) streamOpened(ctx context.Context, _ int64, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	header, _ := metadata.FromIncomingContext(ctx)
	s.headers = append(s.headers, header)
	return nil
}

func (s *Server) requestReceived(_ int64, request *discovery.DiscoveryRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests = append(s.requests, request)
	return nil
}

// Requests returns all requests of all clients.
func (s *Server) Requests() []*discovery.DiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Headers returns the request headers of all streams.
func (s *Server) Headers() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

// Refusals returns the reasons of all rejections, by the version that the client kept.
func (s *Server) Refusals() map[string][]string {
	found := make(map[string][]string)
	for _, r := range s.Requests() {
		if r.GetErrorDetail() != nil {
			found[r.GetVersionInfo()] = append(found[r.GetVersionInfo()], r.GetErrorDetail().GetMessage())
		}
	}
	return found
}
