package respapi

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// loopConn is a connection that an event loop serves. Between two events, its only
// buffers hold an incomplete request and replies that the client has not yet read.
type loopConn struct {
	fd         int
	s          *session
	handle     *bounded.Conn
	held       int64     // memory of the buffers that the handle includes
	in         []byte    // input that contains incomplete requests or requests that are not yet served
	out        []byte    // replies that are not yet sent
	interest   uint32    // polled events; with EPOLLOUT, replies or requests are pending and nothing is read
	stateSince time.Time // start of the current state: idle, in a request, sending or closing
	draining   bool      // during shutdown: nothing more is read
	lingering  bool      // closed for writing, waiting for the client to close
}

// handleEvents handles the events that the poll returned for a connection.
func (l *loop) handleEvents(c *loopConn, events uint32) {
	switch {
	case c.lingering:
		l.discard(c)
	case c.interest == unix.EPOLLOUT:
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			l.drop(c)
			return
		}
		l.resume(c)
	default:
		l.readAndServe(c)
	}
}

// readAndServe reads once and serves the requests in the input. It reports whether it
// read any input.
func (l *loop) readAndServe(c *loopConn) bool {
	have := copy(l.buf, c.in)
	n, errno := read(c.fd, l.buf[have:have+readSize])
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return false
	case errno != 0 || n == 0:
		l.drop(c)
		return false
	}
	l.serve(c, l.buf[:have+n], have)
	return true
}

// serve runs the requests in the input and sends the replies. The first before bytes of
// the input had been read earlier. After maxReplyBatch bytes of replies, the rest of
// the input is left for the next event: replies can be a thousand times as long as
// requests, and other connections would have to wait.
func (l *loop) serve(c *loopConn, in []byte, before int) {
	used := l.w.serve(c.s, in)
	full := len(l.w.out) >= maxReplyBatch
	sent := l.send(c)
	if l.conns[c.fd] != c {
		return
	}
	if used > 0 || before == 0 {
		c.stateSince = l.now
	}
	if c.s.closing {
		used = len(in)
	}
	c.in = copyUnread(c.in, in[used:])
	switch {
	case !sent:
	case full && len(c.in) > 0:
		l.setInterest(c, unix.EPOLLOUT)
	case c.s.closing || c.draining:
		l.finish(c)
	default:
		l.setInterest(c, unix.EPOLLIN|unix.EPOLLRDHUP)
	}
}

// copyUnread returns a copy of rest. It uses the array of memory if this is large
// enough.
func copyUnread(memory, rest []byte) []byte {
	if len(rest) == 0 {
		return nil
	}
	if cap(memory) < len(rest) {
		memory = make([]byte, 0, len(rest)+len(rest)/2)
	}
	return append(memory[:0], rest...)
}

// send writes the replies to the socket. If some could not be sent yet, it buffers
// these in c.out and returns false. It also returns false if it closed the connection.
func (l *loop) send(c *loopConn) bool {
	out := l.w.out
	l.w.out = out[:0]
	if len(out) == 0 {
		return true
	}
	n, errno := write(c.fd, out)
	switch {
	case errno == 0 && n == len(out):
		return true
	case errno != 0 && errno != syscall.EAGAIN && errno != syscall.EINTR:
		l.drop(c)
		return false
	}
	c.out = append([]byte(nil), out[max(n, 0):]...)
	l.setInterest(c, unix.EPOLLOUT)
	c.stateSince = l.now
	return false
}

// resume sends the buffered replies. After all are sent, it serves the buffered input.
func (l *loop) resume(c *loopConn) {
	if len(c.out) > 0 && !l.flush(c) {
		return
	}
	c.stateSince = l.now
	if c.s.closing {
		l.finish(c)
		return
	}
	n := copy(l.buf, c.in)
	l.serve(c, l.buf[:n], n)
}

// flush sends the buffered replies. It reports whether all of them were sent.
func (l *loop) flush(c *loopConn) bool {
	n, errno := write(c.fd, c.out)
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return false
	case errno != 0:
		l.drop(c)
		return false
	case n < len(c.out):
		c.out = c.out[n:]
		return false
	}
	c.out = nil
	return true
}

// setInterest sets the events for which the connection is polled. If this fails, it
// closes the connection and returns false.
func (l *loop) setInterest(c *loopConn, events uint32) (ok bool) {
	if c.interest == events {
		return true
	}
	c.interest = events
	if err := l.control(unix.EPOLL_CTL_MOD, c.fd, events); err != nil {
		l.drop(c)
		return false
	}
	return true
}

// finish ends a connection after its last reply: it shuts down writing and waits until
// the client closes the connection, at most lingerTimeout. Reason: closing a socket
// with unread input can discard replies that the client has not received.
func (l *loop) finish(c *loopConn) {
	if !l.setInterest(c, unix.EPOLLIN|unix.EPOLLRDHUP) {
		return
	}
	if unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.drop(c)
		return
	}
	c.lingering, c.in, c.stateSince = true, nil, l.now
	l.discard(c)
}

// discard reads once from a connection that finish has shut down, and ignores the
// input. At the end of the input it closes the connection.
func (l *loop) discard(c *loopConn) {
	n, errno := read(c.fd, l.buf[:readSize])
	if errno == syscall.EAGAIN || errno == syscall.EINTR || errno == 0 && n > 0 {
		return
	}
	l.drop(c)
}

// drop closes a connection immediately.
func (l *loop) drop(c *loopConn) {
	if c.fd >= len(l.conns) || l.conns[c.fd] != c {
		return
	}
	l.conns[c.fd] = nil
	l.count--
	_ = unix.Close(c.fd)
	c.handle.End()
}

// report reports the state of a connection and the memory of its buffers.
func (l *loop) report(c *loopConn) {
	if l.conns[c.fd] != c {
		return
	}
	if c.interest == unix.EPOLLOUT || c.lingering || len(c.in) > 0 {
		c.handle.Waiting(c.stateSince)
	} else {
		c.handle.Idle(l.now)
	}
	held := int64(cap(c.in)+cap(c.out)) + c.s.memory()
	if n := held - c.held; n != 0 {
		if c.held = held; !c.handle.Grow(n) {
			l.drop(c)
		}
	}
}

// maxDrainReads is the maximum number of reads from one connection during shutdown.
const maxDrainReads = 64

// drain serves the requests that have already arrived and closes the connection. If the
// client has not read all replies, the connection is closed after they are sent or the
// write timeout has passed.
func (l *loop) drain(c *loopConn) {
	for range maxDrainReads {
		if c.interest == unix.EPOLLOUT || c.lingering || l.conns[c.fd] != c || !l.readAndServe(c) {
			break
		}
	}
	c.draining = true
	if l.conns[c.fd] == c && c.interest != unix.EPOLLOUT && !c.lingering {
		l.finish(c)
	}
}

// sweep closes all connections that have been in one state for longer than the timeout
// of this state: idle, in a request, sending or closing.
func (l *loop) sweep() {
	l.lastSweep = l.now
	opts := &l.server.opts
	l.forEach(func(c *loopConn) {
		timeout := opts.IdleTimeout
		switch {
		case c.lingering:
			timeout = lingerTimeout
		case c.interest == unix.EPOLLOUT:
			timeout = opts.WriteTimeout
		case len(c.in) > 0:
			timeout = opts.RequestTimeout
		}
		if l.now.Sub(c.stateSince) >= timeout {
			l.drop(c)
		}
	})
}

// read and write are raw system calls that bypass the Go scheduler. This is safe
// because they never block: the sockets are non-blocking.

func read(fd int, buf []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	return int(n), errno
}

func write(fd int, buf []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	return int(n), errno
}
