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

// loopOrder is what a loop is told to do.
type loopOrder int

const (
	loopDrains loopOrder = iota + 1 // answer what has arrived, and end the connections
	loopEnds                        // end them as they are
)

const mostEvents = 256 // that are asked for at a time

// loop serves many connections on one goroutine. All fields but those behind mu belong to it.
type loop struct {
	server *Server
	w      *worker
	epoll  int
	wake   int // an eventfd that the others write to
	events [mostEvents]unix.EpollEvent
	buf    []byte        // what is read; what is left of it is copied
	conns  []*loopConn   // by their file descriptors
	count  int           // of conns
	now    time.Time     // at the beginning of the turn
	swept  time.Time     // when all were last looked through
	every  time.Duration // how often that is
	order  loopOrder

	mu      sync.Mutex
	arrived []*loopConn
	told    loopOrder
	closed  bool
}

func (s *Server) startLoops() error {
	n := cmp.Or(s.opts.Loops, max(1, runtime.GOMAXPROCS(0)/2))
	for range n {
		l, err := s.newLoop()
		if err != nil {
			return fmt.Errorf("respapi: an event loop: %w", err)
		}
		s.loops = append(s.loops, l)
		s.running.Go(l.run)
	}
	return nil
}

func (s *Server) newLoop() (*loop, error) {
	l := &loop{server: s, w: s.handler.newWorker(s.ctx), now: time.Now()}
	l.buf = make([]byte, s.handler.known.request+readSize)
	shortest := min(s.opts.RequestTimeout, s.opts.WriteTimeout, s.opts.IdleTimeout, lingerTime)
	l.every = min(max(shortest/4, 5*time.Millisecond), time.Second)
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

// add gives a connection to the loop, if it is one that a loop can serve. It may be called from any goroutine.
func (l *loop) add(conn net.Conn) bool {
	if !plain(conn) {
		return false
	}
	fd, err := duplicate(conn.(syscall.Conn))
	if err != nil {
		return false
	}
	c := &loopConn{fd: fd, s: l.server.handler.openFor(conn), since: time.Now()}
	_ = conn.Close() // this one's file descriptor; the other stays
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = unix.Close(fd)
		l.server.part()
		return true
	}
	l.arrived = append(l.arrived, c)
	l.rouse()
	return true
}

// duplicate is a file descriptor of conn that the runtime's poller knows nothing of.
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

// tell gives an order to the loop. It may be called from any goroutine.
func (l *loop) tell(order loopOrder) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.told = max(l.told, order)
	l.rouse()
}

// rouse ends the loop's wait. l.mu is held.
func (l *loop) rouse() {
	if !l.closed {
		_, _ = unix.Write(l.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // full is as good
	}
}

// run serves until the order to stop has come and all connections are closed.
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
				l.turn(c, e.Events)
			}
		}
		if woken {
			l.hear()
		}
		if l.now.Sub(l.swept) >= l.every {
			l.sweep()
		}
		if l.order != 0 && l.count == 0 && l.leave() {
			return
		}
	}
}

// wait is for events. It first looks without waiting, which is cheaper: the scheduler need not know of it.
func (l *loop) wait() int {
	n, _, errno := syscall.RawSyscall6(syscall.SYS_EPOLL_PWAIT, uintptr(l.epoll), uintptr(unsafe.Pointer(&l.events)), mostEvents, 0, 0, 0)
	if errno == 0 && n > 0 {
		return int(n)
	}
	timeout := -1 // as long as it takes
	if l.count > 0 {
		timeout = max(0, int((l.every-time.Since(l.swept)+time.Millisecond-1)/time.Millisecond))
	}
	got, err := unix.EpollWait(l.epoll, l.events[:], timeout)
	if err != nil { // interrupted
		return 0
	}
	return got
}

// hear takes in what others have left for the loop.
func (l *loop) hear() {
	var count [8]byte
	_, _ = unix.Read(l.wake, count[:]) // only to empty it
	l.mu.Lock()
	arrived := l.arrived
	l.arrived = nil
	l.order = l.told
	l.mu.Unlock()
	for _, c := range arrived {
		l.take(c)
	}
	switch l.order {
	case loopDrains:
		l.each(l.drain)
	case loopEnds:
		l.each(l.drop)
	}
}

func (l *loop) take(c *loopConn) {
	for c.fd >= len(l.conns) {
		l.conns = append(l.conns, nil)
	}
	l.conns[c.fd] = c
	l.count++
	c.waits = unix.EPOLLIN | unix.EPOLLRDHUP
	if err := l.control(unix.EPOLL_CTL_ADD, c.fd, c.waits); err != nil {
		l.server.handler.log.Warn("a connection could not be served", "cause", err)
		l.drop(c)
	}
}

func (l *loop) each(do func(*loopConn)) {
	for _, c := range l.conns {
		if c != nil {
			do(c)
		}
	}
}

// leave ends the loop, unless a connection has just arrived.
func (l *loop) leave() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = len(l.arrived) == 0
	return l.closed
}

func (l *loop) close() {
	_ = unix.Close(l.epoll)
	_ = unix.Close(l.wake)
}
