package respapi

import (
	"cmp"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
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
	ln = bounded.Retry(ln, s.handler.log)
	defer ln.Close()
	if err := s.addListener(ln); err != nil {
		if s.isStopping() { // Shutdown was called before Serve
			return nil
		}
		return err
	}
	for {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			s.accept(conn)
		case s.isStopping():
			return nil
		default:
			return err
		}
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

// The memory of connections without requests, in bytes. The estimates are measured with
// bench/cmd/connections.
const (
	loopConnBytes  = 2 << 10  // a connection of an event loop
	streamBytes    = 20 << 10 // a connection with a goroutine
	tlsStreamBytes = 48 << 10 // the same with TLS
)

const errTooManyClients = "-ERR max number of clients reached\r\n"

// accept serves a connection, or rejects it if there is no room for it.
func (s *Server) accept(conn net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		_ = conn.Close()
		return
	}
	if l := s.nextLoop(); l != nil && isPlain(conn) {
		if l.add(conn) {
			return
		}
	} else if s.addStream(conn) {
		return
	}
	s.handler.clients.refused.Add(1)
	rejectConn(conn)
}

// addStream serves a connection with a goroutine. It returns false if there is no room
// for it.
func (s *Server) addStream(conn net.Conn) bool {
	base, raw := int64(streamBytes), conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		base, raw = tlsStreamBytes, secure.NetConn() // closing the TLS connection can block
	}
	handle := s.handler.clients.open.Add(base, func() { _ = raw.Close() })
	if handle == nil {
		return false
	}
	s.streams[conn] = true
	s.running.Go(func() { s.serveStream(conn, handle) })
	return true
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

// nextLoop returns the loop for the next connection, or nil if there are no loops.
func (s *Server) nextLoop() *loop {
	if len(s.loops) == 0 {
		return nil
	}
	s.next = (s.next + 1) % len(s.loops)
	return s.loops[s.next]
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
