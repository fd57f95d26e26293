package httpapi

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// ServerOptions bound what a client may take of a server. The zero value of each field is its default; nil means all defaults.
type ServerOptions struct {
	HeaderTimeout  time.Duration // to read a request's header; 0 means 5 s
	ReadTimeout    time.Duration // to read a whole request; 0 means 10 s
	WriteTimeout   time.Duration // from the header's end until the answer is written; 0 means 10 s
	IdleTimeout    time.Duration // between two requests on a connection; 0 means 2 min
	MaxHeaderBytes int           // of a request, to some 4 KiB; 0 means 16 KiB
	Log            *slog.Logger  // hears of broken connections; nil means nobody does
}

// Server is a [Handler] behind bounded connections. It is made with [NewServer] and may be used concurrently.
type Server struct {
	handler *Handler
	http    http.Server
}

// NewServer makes a server for h. opts may be nil.
func NewServer(h *Handler, opts *ServerOptions) *Server {
	if opts == nil {
		opts = &ServerOptions{}
	}
	log := opts.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Server{handler: h, http: http.Server{
		Handler:           h,
		ReadHeaderTimeout: orDefault(opts.HeaderTimeout, 5*time.Second),
		ReadTimeout:       orDefault(opts.ReadTimeout, 10*time.Second),
		WriteTimeout:      orDefault(opts.WriteTimeout, 10*time.Second),
		IdleTimeout:       orDefault(opts.IdleTimeout, 2*time.Minute),
		MaxHeaderBytes:    orDefault(opts.MaxHeaderBytes, 16<<10),
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}}
}

func orDefault[T int | time.Duration](n, otherwise T) T {
	if n == 0 {
		return otherwise
	}
	return n
}

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil at once.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Drain is [Handler.Drain].
func (s *Server) Drain() { s.handler.Drain() }

// Shutdown takes no more connections and waits until every request in flight is answered. If ctx ends before, it closes what
// is left and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.Drain()
	if err := s.http.Shutdown(ctx); err != nil {
		return errors.Join(err, s.http.Close())
	}
	return nil
}
