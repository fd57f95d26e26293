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
	bodyTimeout     = 5 * time.Second // for the body of a request, which hardly any has
	mostConnections = 1000
	writeTimeout    = time.Minute // for a client to take an answer, behind the time that a profile is recorded for
)

// Server is a handler behind bounded connections. It is made with [NewServer] and may be used concurrently.
type Server struct{ http http.Server }

// NewServer makes a server, mostly for a [Handler]. Answers may take their time: a profile is recorded for as long as it is asked for. log
// hears of broken connections; nil means nobody does.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	return &Server{http.Server{
		Handler:           inTime(handler),
		ReadHeaderTimeout: 5 * time.Second,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          logs.ForHTTP(log),
	}}
}

// inTime bounds the time for the body of a request. It does for none without: the end of a server's ReadTimeout also ends a profile.
func inTime(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Body != http.NoBody {
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // that of an http.Server can be set
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil at once. Of more
// than 1,000 connections at a time the newest are closed.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(bounded.Listener(ln, mostConnections)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// Shutdown takes no more connections and gives requests in flight a second, or until ctx ends: nobody waits for a profile.
func (s *Server) Shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	if s.http.Shutdown(ctx) != nil {
		return s.http.Close()
	}
	return nil
}
