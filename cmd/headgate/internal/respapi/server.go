package respapi

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// ServerOptions limit the time and the resources that a client can use. A field with
// its zero value has the default in its comment; nil options mean all defaults.
type ServerOptions struct {
	RequestTimeout time.Duration // maximum time from the first to the last byte of a request; 0 means 10 s
	WriteTimeout   time.Duration // maximum time for a client to read replies; 0 means 10 s
	IdleTimeout    time.Duration // maximum time that a connection may be idle between requests; 0 means 10 min
	// NoLoops makes the server use a separate goroutine for each connection, not event
	// loops. TLS connections, networked stores, and systems other than Linux always use
	// goroutines.
	NoLoops bool
	// Loops is the number of event loops; 0 means half of GOMAXPROCS, at least 1. One
	// loop processes at least as many small requests per second as a Redis server,
	// which uses one core.
	Loops int
}

// Server serves connections with a [Handler] and limits their number. It is created
// with [NewServer] and may be used concurrently.
type Server struct {
	handler *Handler
	opts    ServerOptions
	ctx     context.Context // context for decisions
	cancel  context.CancelFunc
	running sync.WaitGroup // counts the goroutines of loops and connections

	mu        sync.Mutex
	started   bool
	stopping  bool
	stopped   chan struct{} // closed when stopping becomes true
	listeners map[net.Listener]bool
	streams   map[net.Conn]bool
	loops     []*loop
	next      int // index of the loop for the next connection
}

// NewServer returns a server for h. opts may be nil.
func NewServer(h *Handler, opts *ServerOptions) *Server {
	opts = cmp.Or(opts, &ServerOptions{})
	s := &Server{
		handler:   h,
		opts:      *opts,
		stopped:   make(chan struct{}),
		listeners: make(map[net.Listener]bool),
		streams:   make(map[net.Conn]bool),
	}
	s.opts.RequestTimeout = cmp.Or(s.opts.RequestTimeout, 10*time.Second)
	s.opts.WriteTimeout = cmp.Or(s.opts.WriteTimeout, 10*time.Second)
	s.opts.IdleTimeout = cmp.Or(s.opts.IdleTimeout, 10*time.Minute)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Serve serves connections from ln until [Server.Shutdown] is called. It then returns
// nil without waiting for the connections. It closes ln. It may be called for several
// listeners, which may be TLS listeners of package crypto/tls.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	if err := s.addListener(ln); err != nil {
		if s.isStopping() { // Shutdown was called before Serve
			return nil
		}
		return err
	}
	for pause := time.Duration(0); ; {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.accept(conn)
		case s.isStopping():
			return nil
		case !isTemporary(err):
			return err
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.handler.log.Warn("accept failed; retrying", "error", err, "pause", pause)
			s.sleep(pause)
		}
	}
}

// isTemporary reports whether Accept may succeed if it is called again: because no file
// descriptor or memory was available, or the client had disconnected.
func isTemporary(err error) bool {
	causes := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET}
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

func (s *Server) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopped:
	}
}

// addListener registers ln, so that Shutdown closes it. It starts the event loops if
// they are to be used and have not been started.
func (s *Server) addListener(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errors.New("respapi: server is shut down")
	}
	s.listeners[ln] = true
	if s.started || s.handler.networked || s.opts.NoLoops {
		return nil
	}
	s.started = true
	return s.startLoops()
}

func (s *Server) isStopping() bool {
	select {
	case <-s.stopped:
		return true
	default:
		return false
	}
}

const errTooManyClients = "-ERR max number of clients reached\r\n"

// accept serves a connection, or rejects it if the maximum number of connections is
// open.
func (s *Server) accept(conn net.Conn) {
	c := &s.handler.clients
	if c.current.Add(1) > c.max {
		s.connectionClosed()
		c.refused.Add(1)
		rejectConn(conn)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		s.connectionClosed()
		_ = conn.Close()
		return
	}
	if s.addToLoop(conn) {
		return
	}
	s.streams[conn] = true
	s.running.Go(func() { s.serveStream(conn) })
}

// rejectConn sends an error on conn and closes it. It sends no error over TLS, because
// that would require a handshake.
func rejectConn(conn net.Conn) {
	if isPlain(conn) {
		_, _ = conn.Write([]byte(errTooManyClients)) // does not block, because the send buffer is empty
	}
	_ = conn.Close()
}

func isPlain(conn net.Conn) bool {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// connectionClosed updates the number of open connections after one was closed.
func (s *Server) connectionClosed() { s.handler.clients.current.Add(-1) }

func (s *Server) addToLoop(conn net.Conn) bool {
	if len(s.loops) == 0 {
		return false
	}
	s.next = (s.next + 1) % len(s.loops)
	return s.loops[s.next].add(conn)
}

func (h *Handler) newSessionFor(conn net.Conn) *session {
	return h.newSession(displayAddr(conn.RemoteAddr()), displayAddr(conn.LocalAddr()))
}

// displayAddr returns an address for CLIENT INFO. For a unix socket it returns “unix”,
// because the address of such a connection is the socket's temporary name.
func displayAddr(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix"
	}
	return a.String()
}

// Shutdown closes the listeners, serves the requests that have already arrived, and
// closes each connection after its last reply, like QUIT. It returns when all
// connections are closed. If ctx ends first, Shutdown closes the remaining connections
// and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.startShutdown()
	defer s.cancel()
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.closeAll()
	<-done
	return ctx.Err()
}

// startShutdown notifies the listeners, loops and connections of the shutdown.
func (s *Server) startShutdown() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	s.stopping = true
	close(s.stopped)
	for ln := range s.listeners {
		_ = ln.Close() // makes Serve return
	}
	for _, l := range s.loops {
		l.setState(loopDraining)
	}
	for conn := range s.streams {
		_ = conn.SetReadDeadline(time.Now()) // interrupts the read; the goroutine then calls isStopping
	}
}

func (s *Server) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		l.setState(loopStopping)
	}
	for conn := range s.streams {
		_ = conn.Close()
	}
}

// isTimeout reports whether a deadline was exceeded.
func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
