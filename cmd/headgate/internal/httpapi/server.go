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

// ServerOptions bound what a client may take of a server. The zero value of each field is its default; nil means all defaults.
type ServerOptions struct {
	HeaderTimeout  time.Duration // to read a request's header; 0 means 5 s
	ReadTimeout    time.Duration // to read a whole request; 0 means 10 s
	WriteTimeout   time.Duration // from the header's end until the answer is written; 0 means 10 s
	IdleTimeout    time.Duration // between two requests on a connection; 0 means 2 min
	MaxHeaderBytes int           // of a request, to some 4 KiB; 0 means 16 KiB
	MaxConnections int           // at a time; beyond, one that waits makes room, or else the newest is closed; 0 means 10,000
	Log            *slog.Logger  // hears of broken connections; nil means nobody does
}

// Server is a [Handler] behind bounded connections. It is made with [NewServer] and may be used concurrently.
type Server struct {
	handler  *Handler
	http     http.Server
	listener atomic.Pointer[backlogListener]
	conns    connStates
}

// NewServer makes a server for h. opts may be nil.
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
	s.conns.most = int64(cmp.Or(opts.MaxConnections, 10_000))
	s.http.ConnState = s.conns.change
	return s
}

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil at once.
func (s *Server) Serve(ln net.Listener) error {
	backlog := &backlogListener{Listener: ln, conns: &s.conns}
	s.listener.Store(backlog)
	err := s.http.Serve(backlog)
	if errors.Is(err, http.ErrServerClosed) || backlog.stopping.Load() && errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// OnShutdown has f called, on a goroutine of its own, once [Server.Shutdown] takes no more connections: it ends what would go on answering
// for ever, such as a stream of events.
func (s *Server) OnShutdown(f func()) { s.http.RegisterOnShutdown(f) }

// Drain is [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown takes no more connections and waits until every request in flight is answered. If ctx ends before, it closes what
// is left and returns ctx's error.
//
// Requests that were sent whole before it are in flight, also those that nobody has read yet: for the first tenth of a second
// it goes on as before, but for asking clients to use another connection, then it accepts those that wait to be.
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
