package rlsapi

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// healthName is what envoyproxy/ratelimit calls itself in health checks.
const healthName = "ratelimit"

// streamWorkers is how many goroutines are kept for requests: their stacks have grown already, which a new one's does for each request
// again. Those that find none free get one of their own. They are as many as wait for a store behind a network at a time.
const streamWorkers = 128

// ServerOptions bound what a client may take of a server. The zero value of each field is its default; nil means all defaults.
type ServerOptions struct {
	TLS              *tls.Config   // for TLS, and certificates of clients; nil means plain text
	MaxMessageBytes  int           // of a request; 0 means 64 KiB
	MaxConnections   int           // at a time, those beyond are closed at once; 0 means 4,096
	MaxStreams       int           // requests at a time on one connection; 0 means 1,024
	MaxHeaderBytes   int           // of a request's header; 0 means 16 KiB
	MaxConnectionAge time.Duration // after which a client is asked for another connection; 0 means 24 h
	AgeGrace         time.Duration // for requests in flight after that; 0 means 1 h
	HandshakeTimeout time.Duration // for a client to say that it speaks HTTP/2, and its TLS; 0 means 5 s
}

// Server is a [Handler] behind gRPC, beside health checks and reflection. It is made with [NewServer] and may be used concurrently.
type Server struct {
	handler *Handler
	grpc    *grpc.Server
	health  *health.Server
	stop    context.CancelFunc // lets those go who watch the health
	most    int                // connections on one listener
}

// NewServer makes a server for h, which must have no other. opts may be nil.
func NewServer(h *Handler, opts *ServerOptions) *Server {
	if opts == nil {
		opts = &ServerOptions{}
	}
	s := &Server{handler: h, grpc: grpc.NewServer(serverOptions(opts)...), health: health.NewServer()}
	s.most = orDefault(opts.MaxConnections, 4096)
	pb.RegisterRateLimitServiceServer(s.grpc, h)
	stopping, stop := context.WithCancel(context.Background())
	s.stop = stop
	grpc_health_v1.RegisterHealthServer(s.grpc, &healthService{s.health, stopping})
	reflection.Register(s.grpc)
	tell := func(healthy bool) {
		state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
		if healthy {
			state = grpc_health_v1.HealthCheckResponse_SERVING
		}
		s.health.SetServingStatus(healthName, state)
	}
	h.onReady.Store(&tell)
	tell(h.Healthy())
	return s
}

func serverOptions(opts *ServerOptions) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(orDefault(opts.MaxMessageBytes, 64<<10)),
		grpc.MaxConcurrentStreams(uint32(orDefault(opts.MaxStreams, 1024))),
		grpc.MaxHeaderListSize(uint32(orDefault(opts.MaxHeaderBytes, 16<<10))),
		grpc.ConnectionTimeout(orDefaultTime(opts.HandshakeTimeout, 5*time.Second)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.StaticStreamWindowSize(64 << 10), // without these each read is followed by a ping, to find out how wide the way is
		grpc.StaticConnWindowSize(1 << 20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      orDefaultTime(opts.MaxConnectionAge, 24*time.Hour),
			MaxConnectionAgeGrace: orDefaultTime(opts.AgeGrace, time.Hour),
			Time:                  time.Minute, // a client that does not answer a ping is gone
			Timeout:               20 * time.Second,
		}),
	}
	if opts.TLS != nil {
		options = append(options, grpc.Creds(credentials.NewTLS(opts.TLS)))
	}
	return options
}

func orDefaultTime(d, otherwise time.Duration) time.Duration {
	if d == 0 {
		return otherwise
	}
	return d
}

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil. It may be called for several
// listeners; each is bounded by itself.
func (s *Server) Serve(ln net.Listener) error {
	return s.grpc.Serve(bounded.Listener(ln, s.most))
}

// Drain is [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown makes health checks fail, takes no more connections, asks clients to use others, lets those go who watch the health, and waits
// until every request in flight is answered. If ctx ends before, it closes what is left and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.stop()
	done := make(chan struct{})
	go func() {
		s.grpc.GracefulStop()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		s.grpc.Stop()
		<-done
		return ctx.Err()
	}
}
