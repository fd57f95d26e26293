package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
)

const (
	bodyTimeout    = 5 * time.Second // for reading a request body; few requests have one
	maxConnections = 1000
	maxMemory      = 64 << 20    // of connections and requests, in bytes
	writeTimeout   = time.Minute // for writing a response; a profile's duration is added
)

// Server serves a handler and limits the number of connections. It is created with
// [NewServer] and may be used concurrently.
type Server struct {
	http   http.Server
	limits bounded.HTTP
}

// NewServer returns a server for a handler, usually a [Handler]. It does not limit the
// duration of a profile. The logger log receives connection errors; nil means no log.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	s := &Server{http: http.Server{
		Handler:           limitBodyTime(handler),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          logs.ForHTTP(log),
	}}
	full := func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "the connections of this listener use too much memory", http.StatusServiceUnavailable)
	}
	s.limits = bounded.HTTP{
		Connections: bounded.New(bounded.Limits{Connections: maxConnections, Bytes: maxMemory}),
		Full:        http.HandlerFunc(full), Log: log,
	}
	s.limits.Apply(&s.http)
	return s
}

// limitBodyTime sets a read deadline for requests with a body only. It is used instead
// of the ReadTimeout of http.Server, which would also end long profiles.
func limitBodyTime(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			// The server of net/http supports deadlines.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve serves connections from ln until [Server.Shutdown] is called. It then returns
// nil without waiting for the connections. It closes ln. While 1,000 connections are
// open, it closes an idle one for each new one.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(s.limits.Listener(ln)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting connections and waits for requests in flight, for at most
// one second or until ctx ends. It then closes the remaining connections, so that a
// running profile does not delay the shutdown.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		return s.http.Close()
	}
	return nil
}
