package httpapi

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// ServerOptions limit the time and the resources that a client can use. A field with
// its zero value has the default in its comment; nil options mean all defaults.
type ServerOptions struct {
	HeaderTimeout time.Duration // maximum time for reading a request header; 0 means 5 s
	ReadTimeout   time.Duration // maximum time for reading a whole request; 0 means 10 s
	// Maximum time from the end of a request's header to the end of the response; 0
	// means 10 s.
	WriteTimeout time.Duration
	IdleTimeout  time.Duration // maximum time that a connection may be idle between requests; 0 means 2 min
	// Maximum size of a request header, not exact: up to about 4 KiB more are accepted;
	// 0 means 16 KiB.
	MaxHeaderBytes int
	// MaxConnections is the maximum number of concurrent connections; 0 means 10,000.
	// For a further connection, one that is idle or whose request is incomplete for more
	// than a second is closed. If there is none, the further connection is closed.
	MaxConnections int
	// MaxMemoryBytes is the maximum memory of all connections and their requests, in
	// bytes, as estimated from their number and their headers and bodies; 0 means
	// [bounded.DefaultBytes]. If it is exceeded, an idle connection, or one whose request
	// is incomplete, is closed. If there is none, a request gets status 503.
	MaxMemoryBytes int64
	Log            *slog.Logger // logger for connection errors; nil means no log
}

// Server serves a [Handler] and limits the number of connections. It is created with
// [NewServer] and may be used concurrently.
type Server struct {
	handler  *Handler
	http     http.Server
	listener atomic.Pointer[backlogListener]
	limits   bounded.HTTP
}

// NewServer returns a server for h. opts may be nil.
func NewServer(h *Handler, opts *ServerOptions) *Server {
	opts = cmp.Or(opts, &ServerOptions{})
	s := &Server{handler: h, http: http.Server{
		Handler:           h,
		ReadHeaderTimeout: cmp.Or(opts.HeaderTimeout, 5*time.Second),
		ReadTimeout:       cmp.Or(opts.ReadTimeout, 10*time.Second),
		WriteTimeout:      cmp.Or(opts.WriteTimeout, 10*time.Second),
		IdleTimeout:       cmp.Or(opts.IdleTimeout, 2*time.Minute),
		MaxHeaderBytes:    cmp.Or(opts.MaxHeaderBytes, 16<<10),
		ErrorLog:          logs.ForHTTP(opts.Log),
	}}
	s.limits = bounded.HTTP{
		Connections: bounded.New(bounded.Limits{Connections: cmp.Or(opts.MaxConnections, 10_000), Bytes: cmp.Or(opts.MaxMemoryBytes, bounded.DefaultBytes)}),
		Full:        http.HandlerFunc(outOfMemory), Log: opts.Log,
	}
	s.limits.Apply(&s.http)
	return s
}

// outOfMemory responds to a request for which there is no memory.
func outOfMemory(w http.ResponseWriter, _ *http.Request) {
	writeProblem(w, http.StatusServiceUnavailable, "the connections of this listener use all of the memory in http.max_memory_bytes", "")
}

// Serve serves connections from ln until [Server.Shutdown] is called. It then returns
// nil without waiting for the connections. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	backlog := &backlogListener{Listener: s.limits.Listener(ln)}
	s.listener.Store(backlog)
	err := s.http.Serve(backlog)
	if errors.Is(err, http.ErrServerClosed) || backlog.stopping.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// OnShutdown registers a function that [Server.Shutdown] calls in a new goroutine after
// it has stopped accepting connections. f must end responses that would otherwise never
// end, such as event streams.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Drain calls [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown stops accepting connections and waits for all requests in flight. If ctx
// ends first, Shutdown closes the remaining connections and returns ctx's error.
//
// A request counts as in flight if its client sent it completely before the call, even
// if the server has not read it yet. For the first 100 ms, the server therefore accepts
// connections as before, but asks clients to close them. After that, it accepts only
// connections that are already queued.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	pause(ctx, settleTime)
	if ln := s.listener.Load(); ln != nil {
		ln.stop(time.Now().Add(settleTime))
	}
	pause(ctx, settleTime)
	for range 100 {
		if s.limits.Connections.Busy() == 0 || ctx.Err() != nil {
			break
		}
		pause(ctx, settleTime/50)
	}
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
