package admin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/headgate/headgate/internal/logs"
)

// Server is a handler behind bounded connections. It is made with [NewServer] and may be used concurrently.
type Server struct{ http http.Server }

// NewServer makes a server, mostly for a [Handler]. Answers may take their time: a profile is recorded for as long as it is asked for. log
// hears of broken connections; nil means nobody does.
func NewServer(handler http.Handler, log *slog.Logger) *Server {
	return &Server{http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 5 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          logs.ForHTTP(log),
	}}
}

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil at once.
func (s *Server) Serve(ln net.Listener) error {
	if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
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
