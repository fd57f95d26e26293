// Package bounded limits what the clients of a listener can use: the number of open
// connections and the memory that these hold. All listeners of the service use it.
package bounded

import (
	"errors"
	"log/slog"
	"net"
	"slices"
	"sync"
	"syscall"
	"time"
)

// The pause after an error of Accept, which doubles with each further error, and the
// minimum time between two log lines about such errors.
const (
	minPause    = 5 * time.Millisecond
	maxPause    = time.Second
	logInterval = time.Minute
)

// Retry returns a listener that accepts connections from ln. If Accept fails for a lack
// of file descriptors or memory, or because a client has disconnected, it tries again
// after a pause. It logs such errors at most once a minute, with their number. Closing
// the returned listener closes ln and ends a pause.
func Retry(ln net.Listener, log *slog.Logger) *RetryListener {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &RetryListener{Listener: ln, log: log, closed: make(chan struct{})}
}

// RetryListener is a listener that [Retry] returned. Only one goroutine may call Accept.
type RetryListener struct {
	net.Listener
	log      *slog.Logger
	failed   int       // errors since the last log line
	lastLine time.Time // time of the last log line
	closed   chan struct{}
	once     sync.Once
	closeErr error // result of the first call of Close
}

// Accept returns the next connection, or an error that is not temporary.
func (l *RetryListener) Accept() (net.Conn, error) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		conn, err := l.Listener.Accept()
		if err == nil || !isTemporary(err) {
			return conn, err
		}
		l.logError(err)
		select {
		case <-time.After(pause):
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
}

// logError logs an error and the number of errors since the last line, unless the last
// line is less than a minute old.
func (l *RetryListener) logError(err error) {
	l.failed++
	now := time.Now()
	if !l.lastLine.IsZero() && now.Sub(l.lastLine) < logInterval {
		return
	}
	l.log.Warn("accept failed; retrying", "error", cause(err), "errors", l.failed)
	l.failed, l.lastLine = 0, now
}

// temporary are the errors after which Accept may succeed if it is called again.
var temporary = []syscall.Errno{
	syscall.EMFILE, syscall.ENFILE, syscall.ENOBUFS, syscall.ENOMEM, syscall.ECONNABORTED, syscall.ECONNRESET, syscall.EINTR,
}

func isTemporary(err error) bool {
	return slices.ContainsFunc(temporary, func(one syscall.Errno) bool { return errors.Is(err, one) })
}

// cause returns the system's error in err, which has the same text for every listener.
func cause(err error) error {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		return errno
	}
	return err
}

// SetDeadline sets the deadline of Accept, if the underlying listener supports one.
func (l *RetryListener) SetDeadline(t time.Time) error { return setDeadline(l.Listener, t) }

func setDeadline(ln net.Listener, t time.Time) error {
	if ln, ok := ln.(interface{ SetDeadline(time.Time) error }); ok {
		return ln.SetDeadline(t)
	}
	return errors.ErrUnsupported
}

// Close closes the listener. Only the first call has an effect.
func (l *RetryListener) Close() error {
	l.once.Do(func() {
		close(l.closed)
		l.closeErr = l.Listener.Close()
	})
	return l.closeErr
}

// Wrap returns wrap(ln). If ln adds TLS to the connections of another listener, Wrap
// returns a listener that adds TLS to the connections of wrap(that listener). Such a
// listener has a method Wrapped, which returns it with another inner listener.
func Wrap(ln net.Listener, wrap func(net.Listener) net.Listener) net.Listener {
	if outer, ok := ln.(interface {
		Wrapped(wrap func(net.Listener) net.Listener) net.Listener
	}); ok {
		return outer.Wrapped(wrap)
	}
	return wrap(ln)
}

// Listener returns a listener that accepts connections from ln and adds them to set. A
// connection for which there is no room is closed before a byte is read. base is the
// memory of each connection, see [Connections.Add]. The connections that the listener
// returns are of type *[NetConn].
func Listener(ln net.Listener, set *Connections, base int64) net.Listener {
	return &listener{ln, set, base}
}

type listener struct {
	net.Listener
	set  *Connections
	base int64
}

// Accept returns the next connection for which there is room.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if handle := l.set.Add(l.base, func() { _ = conn.Close() }); handle != nil {
			return &NetConn{Conn: conn, Handle: handle}, nil
		}
		_ = conn.Close() // the error is ignored: nothing was read or written
	}
}

// SetDeadline sets the deadline of Accept, if the underlying listener supports one.
func (l *listener) SetDeadline(t time.Time) error { return setDeadline(l.Listener, t) }

// NetConn is a network connection that is a member of a [Connections] until it is
// closed.
type NetConn struct {
	net.Conn
	Handle *Conn
}

// Close closes the connection and removes it from its set.
func (c *NetConn) Close() error {
	c.Handle.End()
	return c.Conn.Close()
}

// CloseWrite closes the sending half of the connection, if it supports that.
func (c *NetConn) CloseWrite() error {
	if conn, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return conn.CloseWrite()
	}
	return errors.ErrUnsupported
}
