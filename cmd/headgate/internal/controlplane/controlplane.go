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

// Server is an xDS control plane over TCP. Create it with [Start]. It is stopped at the
// end of the test, and may be used concurrently.
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

// Start starts a server on a free loopback port. It uses TLS if config is not nil.
func Start(t testing.TB, config *tls.Config) *Server {
	t.Helper()
	s := &Server{t: t, tls: config, addr: "127.0.0.1:0"}
	s.Up()
	t.Cleanup(s.Down)
	return s
}

// Addr returns the address of the server. The address also stays the same after
// [Server.Down] and [Server.Up].
func (s *Server) Addr() string { return s.addr }

// Secure sets the TLS configuration, or plain text if config is nil. It takes effect at
// the next call of [Server.Up].
func (s *Server) Secure(config *tls.Config) { s.tls = config }

// Up starts a stopped server again, at the same address and without a configuration.
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
		_ = server.Serve(ln) // the error is ignored: clients detect failures
	}(s.grpc, s.done)
}

// listen listens on the address of the server. It tries again for up to 2 s, because
// another socket may use the port until the clients have closed their connections.
func (s *Server) listen() (ln net.Listener, err error) {
	for range 100 {
		if ln, err = net.Listen("tcp", s.addr); err == nil { //nolint:noctx // a loopback port
			return ln, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return nil, err
}

// Down stops the server immediately and closes its connections.
func (s *Server) Down() {
	s.mu.Lock()
	running, cancel, done := s.grpc, s.cancel, s.done
	s.mu.Unlock()
	cancel()
	running.Stop()
	<-done
}

// Push replaces the configuration of the node with the given ID.
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

// Requests returns all requests that all clients have sent.
func (s *Server) Requests() []*discovery.DiscoveryRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// Headers returns the request headers of all streams that clients have opened.
func (s *Server) Headers() []metadata.MD {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.headers)
}

// Refusals returns the reasons with which clients rejected a configuration, by the
// version that the client kept.
func (s *Server) Refusals() map[string][]string {
	found := make(map[string][]string)
	for _, r := range s.Requests() {
		if r.GetErrorDetail() != nil {
			found[r.GetVersionInfo()] = append(found[r.GetVersionInfo()], r.GetErrorDetail().GetMessage())
		}
	}
	return found
}
