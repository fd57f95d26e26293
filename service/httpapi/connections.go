package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is what requests on their way have to arrive in when a server stops.
const settleTime = 100 * time.Millisecond

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// backlogListener can stop without turning away who already waits to be accepted.
type backlogListener struct {
	net.Listener
	conns    *connStates
	stopping atomic.Bool
	once     sync.Once
	closed   error // what the first Close said
}

// Close closes the listener; only the first call does anything.
func (l *backlogListener) Close() error {
	l.once.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// stop accepts what comes until then and no more. A listener that knows no deadlines is closed at once.
func (l *backlogListener) stop(until time.Time) {
	l.stopping.Store(true)
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); !ok || ln.SetDeadline(until) != nil {
		_ = l.Close() // Accept tells of it
	}
}

// Accept is that of the listener, for connections that there is room for; the end of the last wait is that of the listener.
func (l *backlogListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errors.Join(net.ErrClosed, l.Close())
		case err != nil || l.conns.room():
			return conn, err
		}
		_ = conn.Close() // nothing was said on it
	}
}

// connStates counts connections, and those that are not idle.
type connStates struct {
	most  int64
	open  atomic.Int64
	busy  atomic.Int64 // new, or in a request
	conns sync.Map     // net.Conn → whether it is busy
}

func (c *connStates) change(conn net.Conn, state http.ConnState) {
	busy := state == http.StateNew || state == http.StateActive
	before, known := c.conns.Swap(conn, busy)
	if !known {
		c.open.Add(1)
	}
	if state == http.StateClosed || state == http.StateHijacked {
		c.conns.Delete(conn)
		c.open.Add(-1)
	}
	switch was := known && before.(bool); {
	case busy && !was:
		c.busy.Add(1)
	case !busy && was:
		c.busy.Add(-1)
	}
}

// room reports whether another connection may stay. If there are as many as may be, one that waits for its next request is closed for it:
// whoever only holds connections keeps nobody out.
func (c *connStates) room() bool {
	if c.open.Load() < c.most {
		return true
	}
	made := false
	if c.open.Load() > c.busy.Load() { // or else all are looked at in vain
		c.conns.Range(func(conn, _ any) bool {
			if made = c.conns.CompareAndDelete(conn, false); made {
				c.open.Add(-1)
				cut(conn.(net.Conn)) // whose end is then told, as of one that nobody knows
			}
			return !made
		})
	}
	return made
}

// cut closes a connection at once. In TLS the one below is: to say that it ends takes five seconds where the client has stopped reading, and
// others wait to be accepted.
func cut(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
