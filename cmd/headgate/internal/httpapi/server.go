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

	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

// ServerOptions limit the resources of a client. A field that is zero has
// its default; nil means all defaults.
type ServerOptions struct {
	HeaderTimeout  time.Duration // to read a request header; 0 means 5 s
	ReadTimeout    time.Duration // to read a whole request; 0 means 10 s
	WriteTimeout   time.Duration // from the end of the header to the end of the response; 0 means 10 s
	IdleTimeout    time.Duration // between two requests on a connection; 0 means 2 min
	MaxHeaderBytes int           // of a request, exceeded by up to about 4 KiB; 0 means 16 KiB
	// MaxConnections is the maximum number of concurrent connections; 0 means 10,000. At
	// the limit, an idle connection is closed for a new one, or the new one if none is
	// idle.
	MaxConnections int
	Log            *slog.Logger // receives errors of connections; nil means no log
}

// Server serves a [Handler] with a bounded number of connections. It is created with
// [NewServer] and may be used concurrently.
type Server struct {
	handler  *Handler
	http     http.Server
	listener atomic.Pointer[backlogListener]
	conns    connStates
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
	s.conns.max = int64(cmp.Or(opts.MaxConnections, 10_000))
	s.http.ConnState = s.conns.change
	return s
}

// Serve serves the connections of ln until [Server.Shutdown], and then returns nil
// immediately. It closes ln.
func (s *Server) Serve(ln net.Listener) error {
	backlog := &backlogListener{Listener: ln, conns: &s.conns}
	s.listener.Store(backlog)
	err := s.http.Serve(backlog)
	if errors.Is(err, http.ErrServerClosed) || backlog.stopping.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// OnShutdown registers f to be called in a new goroutine once [Server.Shutdown] has
// stopped accepting connections: f ends responses that would otherwise never end, such as
// event streams.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Drain calls [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown stops accepting connections and waits for all requests in flight. If ctx ends
// first, it closes the remaining connections and returns the error of ctx.
//
// Requests that were sent completely before the call count as in flight, even if nothing
// has read them yet. For the first 100 ms, the server therefore continues as before, but
// asks clients to close their connections. Then it accepts only connections that are
// already queued.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	pause(ctx, settleTime)
	if ln := s.listener.Load(); ln != nil {
		ln.stop(time.Now().Add(settleTime))
	}
	pause(ctx, settleTime)
	for range 100 {
		if s.conns.busy() == 0 || ctx.Err() != nil {
			break
		}
		pause(ctx, settleTime/50)
	}
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
