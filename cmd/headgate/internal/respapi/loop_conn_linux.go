package respapi

import (
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// loopConn is a connection that a loop serves. Between two turns it holds no buffer, but for what has not arrived whole and what the
// client did not take.
type loopConn struct {
	fd      int
	s       *session
	in      []byte    // input that is not run yet
	out     []byte    // replies that are not sent yet
	waits   uint32    // the events that are waited for; while it is EPOLLOUT there is something to send or to run, and nothing is read
	since   time.Time // when it came to be as it is: idle, in a request, with replies to send, or ending
	last    bool      // nothing more is read: the server stops
	lingers bool      // our end is closed, and the client's is waited for
}

// turn does what the events of a connection call for.
func (l *loop) turn(c *loopConn, events uint32) {
	switch {
	case c.lingers:
		l.discard(c)
	case c.waits == unix.EPOLLOUT:
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			l.drop(c)
			return
		}
		l.resume(c)
	default:
		l.receive(c)
	}
}

// receive reads once and answers. It reports whether anything came.
func (l *loop) receive(c *loopConn) bool {
	have := copy(l.buf, c.in)
	n, errno := read(c.fd, l.buf[have:have+readSize])
	switch {
	case errno == syscall.EAGAIN || errno == syscall.EINTR:
		return false
	case errno != 0 || n == 0:
		l.drop(c)
		return false
	}
	l.answer(c, l.buf[:have+n], have)
	return true
}

// answer runs requests in the input, of which so many bytes were known before, and sends the replies. Where these are enough for now
// the rest is left for the connection's next turn: some requests have a reply a thousand times their size, and others wait.
func (l *loop) answer(c *loopConn, in []byte, before int) {
	used := l.w.serve(c.s, in)
	full := len(l.w.out) >= enough
	sent := l.send(c)
	if l.conns[c.fd] != c {
		return
	}
	if used > 0 || before == 0 {
		c.since = l.now
	}
	if c.s.closing {
		used = len(in)
	}
	c.in = kept(c.in, in[used:])
	switch {
	case !sent:
	case full && len(c.in) > 0:
		l.await(c, unix.EPOLLOUT)
	case c.s.closing || c.last:
		l.finish(c)
	default:
		l.await(c, unix.EPOLLIN|unix.EPOLLRDHUP)
	}
}

// kept is a copy of rest in memory that is not much larger.
func kept(memory, rest []byte) []byte {
	if len(rest) == 0 {
		return nil
	}
	if cap(memory) < len(rest) {
		memory = make([]byte, 0, len(rest)+len(rest)/2)
	}
	return append(memory[:0], rest...)
}

// send writes the replies. It reports whether the client took them all; those that it did not are kept.
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
	l.await(c, unix.EPOLLOUT)
	c.since = l.now
	return false
}

// resume sends what a client did not take before, and goes on with what it sent meanwhile.
func (l *loop) resume(c *loopConn) {
	if len(c.out) > 0 && !l.flush(c) {
		return
	}
	c.since = l.now
	if c.s.closing {
		l.finish(c)
		return
	}
	n := copy(l.buf, c.in)
	l.answer(c, l.buf[:n], n)
}

// flush sends the replies that were kept. It reports whether the client took them all.
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

// await has the loop woken by these events of the connection. Where that is not possible, it ends.
func (l *loop) await(c *loopConn, events uint32) (ok bool) {
	if c.waits == events {
		return true
	}
	c.waits = events
	if err := l.control(unix.EPOLL_CTL_MOD, c.fd, events); err != nil {
		l.drop(c)
		return false
	}
	return true
}

// finish closes our end behind the last reply, and waits a while for the client to close its: whoever is closed with input unread may
// lose what was sent.
func (l *loop) finish(c *loopConn) {
	if !l.await(c, unix.EPOLLIN|unix.EPOLLRDHUP) {
		return
	}
	if unix.Shutdown(c.fd, unix.SHUT_WR) != nil {
		l.drop(c)
		return
	}
	c.lingers, c.in, c.since = true, nil, l.now
	l.discard(c)
}

// discard throws away what comes behind the end, a read at a time.
func (l *loop) discard(c *loopConn) {
	n, errno := read(c.fd, l.buf[:readSize])
	if errno == syscall.EAGAIN || errno == syscall.EINTR || errno == 0 && n > 0 {
		return
	}
	l.drop(c)
}

// drop closes a connection.
func (l *loop) drop(c *loopConn) {
	if l.conns[c.fd] != c {
		return
	}
	l.conns[c.fd] = nil
	l.count--
	_ = unix.Close(c.fd)
	l.server.part()
}

// mostDrained is how many reads have to bring in all that a client has sent when a server stops.
const mostDrained = 64

// drain answers what has arrived, and ends the connection. A client that does not take its replies is given the time it has anyway.
func (l *loop) drain(c *loopConn) {
	for range mostDrained {
		if c.waits == unix.EPOLLOUT || c.lingers || l.conns[c.fd] != c || !l.receive(c) {
			break
		}
	}
	c.last = true
	if l.conns[c.fd] == c && c.waits != unix.EPOLLOUT && !c.lingers {
		l.finish(c)
	}
}

// sweep ends the connections that have been for too long as they are.
func (l *loop) sweep() {
	l.swept = l.now
	opts := &l.server.opts
	l.each(func(c *loopConn) {
		most := opts.IdleTimeout
		switch {
		case c.lingers:
			most = lingerTime
		case c.waits == unix.EPOLLOUT:
			most = opts.WriteTimeout
		case len(c.in) > 0:
			most = opts.RequestTimeout
		}
		if l.now.Sub(c.since) >= most {
			l.drop(c)
		}
	})
}

// read and write return at once, so the scheduler need not know of them.

func read(fd int, buf []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_READ, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	return int(n), errno
}

func write(fd int, buf []byte) (int, syscall.Errno) {
	n, _, errno := syscall.RawSyscall(syscall.SYS_WRITE, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(buf))), uintptr(len(buf)))
	return int(n), errno
}
