package respapi

import (
	"cmp"
	"fmt"
	"net"
	"runtime"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loopState is the state that a server requests from a loop.
type loopState int

const (
	loopDraining loopState = iota + 1 // serve the requests that have arrived, then close each connection
	loopStopping                      // close all connections immediately
)

const maxEvents = 256 // maximum number of events that one poll returns

// loop serves many connections on one goroutine. Only this goroutine uses the fields of
// loop, except for the fields that mu guards.
type loop struct {
	server        *Server
	w             *worker
	epoll         int
	wake          int // eventfd that wakes the loop
	events        [maxEvents]unix.EpollEvent
	buf           []byte      // input of the current connection; unused input is copied to loopConn.in
	conns         []*loopConn // indexed by file descriptor
	count         int         // number of connections
	now           time.Time   // time at which the current poll returned
	lastSweep     time.Time
	sweepInterval time.Duration
	state         loopState

	mu             sync.Mutex
	newConns       []*loopConn
	evicted        []*loopConn // connections to close in favor of others
	requestedState loopState
	closed         bool
}

func (s *Server) startLoops() error {
	n := cmp.Or(s.opts.Loops, max(1, runtime.GOMAXPROCS(0)/2))
	for range n {
		l, err := s.newLoop()
		if err != nil {
			return fmt.Errorf("respapi: start event loop: %w", err)
		}
		s.loops = append(s.loops, l)
		s.running.Go(l.run)
	}
	return nil
}

func (s *Server) newLoop() (*loop, error) {
	l := &loop{server: s, w: s.handler.newWorker(s.ctx), now: time.Now()}
	l.buf = make([]byte, s.handler.bounds.request+readSize)
	shortest := min(s.opts.RequestTimeout, s.opts.WriteTimeout, s.opts.IdleTimeout, lingerTimeout)
	l.sweepInterval = min(max(shortest/4, 5*time.Millisecond), time.Second)
	var err error
	if l.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, err
	}
	if l.wake, err = unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK); err == nil {
		err = l.control(unix.EPOLL_CTL_ADD, l.wake, unix.EPOLLIN)
	}
	if err != nil {
		_ = unix.Close(l.epoll)
		return nil, err
	}
	return l, nil
}

func (l *loop) control(op, fd int, events uint32) error {
	return unix.EpollCtl(l.epoll, op, fd, &unix.EpollEvent{Events: events, Fd: int32(fd)})
}

// add passes a plain connection to the loop. It returns false if there is no room for
// the connection, or no file descriptor. It can be called from any goroutine.
func (l *loop) add(conn net.Conn) bool {
	fd, err := duplicate(conn.(syscall.Conn))
	if err != nil {
		return false
	}
	c := &loopConn{fd: fd, stateSince: time.Now()}
	if c.handle = l.server.handler.clients.open.Add(loopConnBytes, func() { l.evict(c) }); c.handle == nil {
		_ = unix.Close(fd)
		return false
	}
	c.s = l.server.handler.newSessionFor(conn)
	_ = conn.Close() // the duplicate descriptor stays open
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = unix.Close(fd)
		c.handle.End()
		return true
	}
	l.newConns = append(l.newConns, c)
	l.wakeUp()
	return true
}

// evict makes the loop close a connection. It can be called from any goroutine.
func (l *loop) evict(c *loopConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.evicted = append(l.evicted, c)
	l.wakeUp()
}

// duplicate returns a file descriptor of conn that is not registered with the poller of
// the Go runtime.
func duplicate(conn syscall.Conn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	var failed error
	if err := raw.Control(func(from uintptr) {
		fd, failed = unix.FcntlInt(from, unix.F_DUPFD_CLOEXEC, 0)
	}); err != nil {
		return 0, err
	}
	return fd, failed
}

// setState requests a state, unless a later state was already requested. It can be
// called from any goroutine.
func (l *loop) setState(order loopState) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requestedState = max(l.requestedState, order)
	l.wakeUp()
}

// wakeUp makes the current poll return. The caller holds l.mu.
func (l *loop) wakeUp() {
	if !l.closed {
		// Fails only if the counter is full; the loop then wakes up anyway.
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	}
}

// run serves connections until the server requests a stop and all connections are
// closed.
func (l *loop) run() {
	defer l.close()
	for {
		n := l.wait()
		l.now = time.Now()
		woken := false
		for i := range l.events[:n] {
			e := &l.events[i]
			if int(e.Fd) == l.wake {
				woken = true
				continue
			}
			if c := l.conns[e.Fd]; c != nil {
				l.handleEvents(c, e.Events)
				l.report(c)
			}
		}
		if woken {
			l.receiveUpdates()
		}
		if l.now.Sub(l.lastSweep) >= l.sweepInterval {
			l.sweep()
		}
		if l.state != 0 && l.count == 0 && l.tryStop() {
			return
		}
	}
}

// wait polls for events and returns their number. It first polls without blocking, by a
// raw system call: this is cheaper because it bypasses the Go scheduler. If there are
// no events, it polls again and blocks.
func (l *loop) wait() int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events)), maxEvents, 0, 0, 0)
	if errno == 0 && n > 0 {
		return int(n)
	}
	timeout := -1 // no timeout
	if l.count > 0 {
		timeout = max(0, int((l.sweepInterval-time.Since(l.lastSweep)+time.Millisecond-1)/time.Millisecond))
	}
	got, err := unix.EpollWait(l.epoll, l.events[:], timeout)
	if err != nil { // interrupted by a signal
		return 0
	}
	return got
}

// receiveUpdates registers new connections and changes to the requested state.
func (l *loop) receiveUpdates() {
	var count [8]byte
	_, _ = unix.Read(l.wake, count[:]) // resets the counter
	l.mu.Lock()
	arrived, evicted := l.newConns, l.evicted
	l.newConns, l.evicted = nil, nil
	l.state = l.requestedState
	l.mu.Unlock()
	for _, c := range arrived {
		l.register(c)
	}
	for _, c := range evicted {
		l.drop(c)
	}
	switch l.state {
	case loopDraining:
		l.forEach(l.drain)
	case loopStopping:
		l.forEach(l.drop)
	}
}

func (l *loop) register(c *loopConn) {
	for c.fd >= len(l.conns) {
		l.conns = append(l.conns, nil)
	}
	l.conns[c.fd] = c
	l.count++
	if c.handle.Ended() { // evicted before it was registered
		l.drop(c)
		return
	}
	c.interest = unix.EPOLLIN | unix.EPOLLRDHUP
	if err := l.control(unix.EPOLL_CTL_ADD, c.fd, c.interest); err != nil {
		l.server.handler.log.Warn("connection closed; event loop registration failed", "error", err)
		l.drop(c)
	}
}

func (l *loop) forEach(do func(*loopConn)) {
	for _, c := range l.conns {
		if c != nil {
			do(c)
		}
	}
}

// tryStop marks the loop as closed, unless new connections are waiting to be
// registered. It reports whether the loop is closed.
func (l *loop) tryStop() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = len(l.newConns) == 0
	return l.closed
}

func (l *loop) close() {
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.wake)
}
