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
	bodyTimeout    = 5 * time.Second // for the body of a request; few requests have one
	maxConnections = 1000
	writeTimeout   = time.Minute // for writing a response, in addition to the duration of a profile
)

// Server serves a handler with a bounded number of connections. It is created with
// [NewServer] and may be used concurrently.
type Server struct{ http http.Server }

// NewServer returns a server for a handler, usually a [Handler]. A profile may take as
// long as its request asks for. log receives errors of connections; nil means no log.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	return &Server{http.Server{
		Handler:           limitBodyTime(handler),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          logs.ForHTTP(log),
	}}
}

// limitBodyTime sets a read deadline for request bodies. Requests without a body get
// none, because an http.Server's ReadTimeout would also end a profile.
func limitBodyTime(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // an http.Server supports it
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve serves the connections of ln until [Server.Shutdown], and then returns nil
// immediately. It closes ln. Above 1,000 concurrent connections, new ones are closed.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(bounded.Listener(ln, maxConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown stops accepting connections and waits one second for requests in flight, or
// until ctx ends: a running profile does not delay it.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		return s.http.Close()
	}
	return nil
}
