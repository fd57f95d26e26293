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

// ServerOptions bound what a client may take of a server. The zero value of each field is its default; nil means all defaults.
type ServerOptions struct {
	RequestTimeout time.Duration // from a request's first byte to its last; 0 means 10 s
	WriteTimeout   time.Duration // for a client to take replies that do not go out at once; 0 means 10 s
	IdleTimeout    time.Duration // between two requests on a connection; 0 means 10 min
	// NoLoops serves each connection with a goroutine, as is always done for TLS, over a store on a
	// network, and on systems other than Linux.
	NoLoops bool
	// Loops is how many event loops there are; 0 means one for each two processors. One serves as many small requests as one core of a
	// Redis does, and more.
	Loops int
}

// Server is a [Handler] behind bounded connections. It is made with [NewServer] and may be used concurrently.
type Server struct {
	handler *Handler
	opts    ServerOptions
	ctx     context.Context // of decisions
	cancel  context.CancelFunc
	running sync.WaitGroup // loops and connections

	mu        sync.Mutex
	started   bool
	stopping  bool
	stopped   chan struct{} // closed with stopping
	listeners map[net.Listener]bool
	streams   map[net.Conn]bool
	loops     []*loop
	next      int // the loop that gets the next connection
}

// NewServer makes a server for h. opts may be nil.
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

// Serve answers the connections of ln, which it closes, until [Server.Shutdown]; it then returns nil at once. It may be called for
// several listeners. A listener may be one of package crypto/tls.
func (s *Server) Serve(ln net.Listener) error {
	defer ln.Close()
	if err := s.begin(ln); err != nil {
		return err
	}
	for pause := time.Duration(0); ; {
		conn, err := ln.Accept()
		switch {
		case err == nil:
			pause = 0
			s.welcome(conn)
		case s.isStopping():
			return nil
		case !passing(err):
			return err
		default:
			pause = min(max(2*pause, 5*time.Millisecond), time.Second)
			s.handler.log.Warn("no connection could be accepted", "cause", err, "pause", pause)
			s.sleep(pause)
		}
	}
}

// passing reports whether Accept may succeed later: no file descriptor or memory is free, or the client has gone already.
func passing(err error) bool {
	causes := []error{syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET}
	return slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) })
}

func (s *Server) sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-s.stopped:
	}
}

// begin starts the loops, if they are not there, and makes ln known to Shutdown.
func (s *Server) begin(ln net.Listener) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return errors.New("respapi: the server was shut down")
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

const tooMany = "-ERR max number of clients reached\r\n"

// welcome takes a connection in, or tells it that there are too many.
func (s *Server) welcome(conn net.Conn) {
	c := &s.handler.clients
	if c.now.Add(1) > c.most {
		s.part()
		c.refused.Add(1)
		refuse(conn)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		s.part()
		_ = conn.Close()
		return
	}
	if s.addToLoop(conn) {
		return
	}
	s.streams[conn] = true
	s.running.Go(func() { s.serveStream(conn) })
}

// refuse tells a client that there are too many, where that takes no time: in TLS a handshake would come first.
func refuse(conn net.Conn) {
	if plain(conn) {
		_, _ = conn.Write([]byte(tooMany)) // it goes into an empty buffer
	}
	_ = conn.Close()
}

func plain(conn net.Conn) bool {
	switch conn.(type) {
	case *net.TCPConn, *net.UnixConn:
		return true
	}
	return false
}

// part forgets a connection.
func (s *Server) part() { s.handler.clients.now.Add(-1) }

func (s *Server) addToLoop(conn net.Conn) bool {
	if len(s.loops) == 0 {
		return false
	}
	s.next = (s.next + 1) % len(s.loops)
	return s.loops[s.next].add(conn)
}

func (h *Handler) openFor(conn net.Conn) *session {
	return h.open(shownAddr(conn.RemoteAddr()), shownAddr(conn.LocalAddr()))
}

// shownAddr is an address as its client is told. That of a unix socket is the name it had when it was made, which nobody knows.
func shownAddr(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix"
	}
	return a.String()
}

// Shutdown takes no more connections, answers every request that has arrived, and ends each connection behind its last reply, as QUIT
// does. It returns when all are closed. If ctx ends before, it cuts off those that are left and returns ctx's error.
func (s *Server) Shutdown(ctx context.Context) error {
	s.stop()
	defer s.cancel()
	done := make(chan struct{})
	go func() { s.running.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	s.cancel()
	s.cutOff()
	<-done
	return ctx.Err()
}

// stop tells all that Shutdown has begun.
func (s *Server) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return
	}
	s.stopping = true
	close(s.stopped)
	for ln := range s.listeners {
		_ = ln.Close() // Serve tells of it
	}
	for _, l := range s.loops {
		l.tell(loopDrains)
	}
	for conn := range s.streams {
		_ = conn.SetReadDeadline(time.Now()) // it then looks whether the server stops
	}
}

func (s *Server) cutOff() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, l := range s.loops {
		l.tell(loopEnds)
	}
	for conn := range s.streams {
		_ = conn.Close()
	}
}

// timedOut reports whether err is that of a deadline.
func timedOut(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }
