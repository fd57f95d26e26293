package rlsapi

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/reflection"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// healthName is the name of the service whose health envoyproxy/ratelimit reports.
const healthName = "ratelimit"

// FullMethod is the name of the method that decides requests, as interceptors get it.
const FullMethod = pb.RateLimitService_ShouldRateLimit_FullMethodName

// streamWorkers is the number of goroutines that are kept for processing requests.
// Reason: the stack of a new goroutine would have to grow for each request. The number
// is roughly how many requests wait for a remote store simultaneously.
const streamWorkers = 128

// DefaultMaxHeaderBytes is the default of [ServerOptions].MaxHeaderBytes. It is more than
// Envoy sends: Envoy adds fields of its client to a call, such as tracestate, and accepts
// header fields of 60 KiB in total.
const DefaultMaxHeaderBytes = 128 << 10

// ServerOptions limit what clients can use. A field with its zero value has the default
// in its comment.
type ServerOptions struct {
	TLS             *tls.Config // may require client certificates; nil means plain text
	MaxMessageBytes int         // size above which a request is denied; 0 means DefaultMaxMessageBytes
	// Maximum simultaneous connections; 0 means 4,096. For a further connection, one that
	// is idle or waits for its client is closed.
	MaxConnections int
	// Maximum memory of all connections and their requests, in bytes, as estimated from
	// the requests and the received bytes of their messages; 0 means
	// [bounded.DefaultBytes]. Requests above 16 KiB may use a quarter of it; if there is
	// no room, they are denied. If the maximum is exceeded, a connection with an
	// incomplete request, or an idle one, is closed.
	MaxMemoryBytes   int64
	MaxStreams       int           // maximum simultaneous requests on one connection; 0 means 1,024
	ReadTimeout      time.Duration // maximum time from the first to the last byte of a request or frame; 0 means 10 s
	WriteTimeout     time.Duration // maximum time for a client to read a response; 0 means 10 s
	MaxHeaderBytes   int           // maximum size of a request's header; 0 means DefaultMaxHeaderBytes
	MaxConnectionAge time.Duration // age at which a client must connect again; 0 means 24 h
	AgeGrace         time.Duration // grace period for requests in flight at that age; 0 means 1 h
	HandshakeTimeout time.Duration // timeout of TLS handshake and HTTP/2 preface; 0 means 5 s
	Log              *slog.Logger  // logger for connection errors; nil means no log
	// Interceptor is called for each request of the rate limit service; nil means none.
	Interceptor grpc.StreamServerInterceptor
}

// Server serves a [Handler] over gRPC: the rate limit service and the rate limit quota
// service, with health checks and reflection. It is created
// with [NewServer] and may be used concurrently.
type Server struct {
	handler         *Handler
	grpc            *grpc.Server
	health          *health.Server
	stopping        <-chan struct{}    // closed when all streams must end
	stopStreams     context.CancelFunc // ends the streams of health checks and quotas
	connections     *bounded.Connections
	connBytes       int64 // memory of a connection without requests
	maxMessageBytes int64
	log             *slog.Logger
}

// NewServer creates a server for h. It may be called only once for a handler. opts may
// be nil.
func NewServer(h *Handler, opts *ServerOptions) *Server {
	opts = cmp.Or(opts, &ServerOptions{})
	stopping, stop := context.WithCancel(context.Background())
	s := &Server{
		handler: h, grpc: grpc.NewServer(newServerOptions(opts)...), health: health.NewServer(), stopping: stopping.Done(), stopStreams: stop,
		connections: bounded.New(bounded.Limits{Connections: cmp.Or(opts.MaxConnections, 4096), Bytes: cmp.Or(opts.MaxMemoryBytes, bounded.DefaultBytes)}),
		connBytes:   connBytes, maxMessageBytes: int64(cmp.Or(opts.MaxMessageBytes, DefaultMaxMessageBytes)), log: opts.Log,
	}
	if opts.TLS != nil {
		s.connBytes = tlsConnBytes
	}
	s.grpc.RegisterService(s.serviceDesc(), h)
	s.grpc.RegisterService(s.quotaServiceDesc(), nil)
	grpc_health_v1.RegisterHealthServer(s.grpc, &healthService{s.health, stopping})
	reflection.Register(s.grpc)
	h.publishTo(func(healthy bool) {
		state := grpc_health_v1.HealthCheckResponse_NOT_SERVING
		if healthy {
			state = grpc_health_v1.HealthCheckResponse_SERVING
		}
		s.health.SetServingStatus(healthName, state)
	})
	return s
}

func newServerOptions(opts *ServerOptions) []grpc.ServerOption {
	options := []grpc.ServerOption{
		grpc.MaxRecvMsgSize(shortBytes), // rate limit requests are read by serveRequest
		grpc.MaxConcurrentStreams(uint32(cmp.Or(opts.MaxStreams, 1024))),
		grpc.MaxHeaderListSize(uint32(cmp.Or(opts.MaxHeaderBytes, DefaultMaxHeaderBytes))),
		grpc.ConnectionTimeout(cmp.Or(opts.HandshakeTimeout, 5*time.Second)),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(streamWorkers),
		// With a dynamic window, gRPC measures the bandwidth by a ping after each read.
		grpc.StaticStreamWindowSize(64 << 10),
		grpc.StaticConnWindowSize(1 << 20),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: 5 * time.Second, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{
			MaxConnectionAge:      cmp.Or(opts.MaxConnectionAge, 24*time.Hour),
			MaxConnectionAgeGrace: cmp.Or(opts.AgeGrace, time.Hour),
			Time:                  time.Minute, // a client that does not respond to a ping is disconnected
			Timeout:               20 * time.Second,
		}),
	}
	if opts.Interceptor != nil {
		options = append(options, grpc.StreamInterceptor(opts.Interceptor))
	}
	var creds credentials.TransportCredentials
	if opts.TLS != nil {
		creds = credentials.NewTLS(opts.TLS)
	}
	limits := &connLimits{
		read: cmp.Or(opts.ReadTimeout, 10*time.Second), write: cmp.Or(opts.WriteTimeout, 10*time.Second),
		header: headerListFactor * int64(cmp.Or(opts.MaxHeaderBytes, DefaultMaxHeaderBytes)),
	}
	return append(options, grpc.Creds(watch(creds, limits)))
}

// Serve serves connections from ln until [Server.Shutdown] is called, and then returns
// nil. It closes ln. It may be called for several listeners, which share the limits on
// connections and memory.
func (s *Server) Serve(ln net.Listener) error {
	err := s.grpc.Serve(bounded.Listener(bounded.Retry(ln, s.log), s.connections, s.connBytes))
	if errors.Is(err, grpc.ErrServerStopped) { // Shutdown was called before Serve
		return nil
	}
	return err
}

// Drain calls [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown makes health checks fail, stops accepting connections, asks clients to use
// other servers, ends the streams of health checks and quotas, and waits until every
// request in flight has its response. If ctx ends first, Shutdown closes all connections
// and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	s.stopStreams()
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

// healthService is gRPC's health service, except that Watch ends its streams when the
// server stops. Otherwise open streams would delay the shutdown.
type healthService struct {
	*health.Server
	stopping context.Context
}

// Watch sends each change of the health until the client or the server ends the stream.
func (h *healthService) Watch(r *grpc_health_v1.HealthCheckRequest, stream grpc_health_v1.Health_WatchServer) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	defer context.AfterFunc(h.stopping, cancel)()
	err := h.Server.Watch(r, watchStream{stream, ctx})
	if h.stopping.Err() != nil {
		return status.Error(codes.Unavailable, "server is shutting down")
	}
	return err
}

// watchStream is a stream with a different context.
type watchStream struct {
	grpc_health_v1.Health_WatchServer
	ctx context.Context
}

// Context returns the context whose cancellation ends the stream.
func (w watchStream) Context() context.Context { return w.ctx }
