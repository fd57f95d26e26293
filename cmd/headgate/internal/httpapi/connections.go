package httpapi

import (
	"context"
	"crypto/tls"
	"errors"
	"math"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// settleTime is how long a shutdown state for requests that are already on their way.
const settleTime = 100 * time.Millisecond

// pause state for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// backlogListener can stop without refusing connections that are already queued.
type backlogListener struct {
	net.Listener
	conns    *connStates
	stopping atomic.Bool
	once     sync.Once
	closed   error // the result of the first Close
}

// Close closes the listener. Only the first call has an effect.
func (l *backlogListener) Close() error {
	l.once.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// stop accepts connections until the deadline, then none. A listener that does not
// support deadlines is closed immediately.
func (l *backlogListener) stop(until time.Time) {
	l.stopping.Store(true)
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); !ok || ln.SetDeadline(until) != nil {
		_ = l.Close() // Accept returns the error
	}
}

// Accept returns the next connection for which there is room. A connection without room
// is closed. After stop, the deadline closes the listener.
func (l *backlogListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errors.Join(net.ErrClosed, l.Close())
		case err != nil || l.conns.makeRoom():
			return conn, err
		}
		_ = conn.Close() // nothing was sent on it
	}
}

// How a connection is chosen that is closed for a new one.
const (
	firstRequestTime = time.Second // a new connection is not closed before this time
	maxCompared      = 64          // idle connections that are compared
)

// connStates counts connections by state.
type connStates struct {
	max    int64
	open   atomic.Int64
	unused atomic.Int64 // connections that have not sent a request yet
	active atomic.Int64 // connections with a request in flight
	conns  sync.Map     // net.Conn → *atomic.Int64, the connection's state
}

// The state of a connection is inRequest, ended, or the time since which it is idle, in
// ns of the wall clock: negative before its first request, positive after. Steps of the
// clock are harmless: the time only selects which connection is closed.
const (
	inRequest = 0
	ended     = math.MinInt64 // the connection was closed
)

// busy returns the number of connections that are new or have a request in flight.
func (c *connStates) busy() int64 { return c.unused.Load() + c.active.Load() }

func (c *connStates) change(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		since := -time.Now().UnixNano()
		value := new(atomic.Int64)
		value.Store(since)
		c.count(since, 1)
		c.conns.Store(conn, value)
	case http.StateActive:
		c.setState(conn, inRequest)
	case http.StateIdle:
		c.setState(conn, time.Now().UnixNano())
	default:
		c.setState(conn, ended)
		c.conns.Delete(conn)
	}
}

// setState changes the state of a connection. Ended is final.
func (c *connStates) setState(conn net.Conn, now int64) {
	known, ok := c.conns.Load(conn)
	if !ok {
		return
	}
	state := known.(*atomic.Int64)
	before := state.Load()
	for before != ended && !state.CompareAndSwap(before, now) {
		before = state.Load()
	}
	if before != ended {
		c.count(before, -1)
		c.count(now, 1)
	}
}

// count adds n connections of a state to the counters.
func (c *connStates) count(state, n int64) {
	if state == ended {
		return
	}
	c.open.Add(n)
	switch {
	case state == inRequest:
		c.active.Add(n)
	case state < 0:
		c.unused.Add(n)
	}
}

// makeRoom reports whether another connection is allowed. At the maximum, it closes an
// idle connection for the new one, so that idle connections cannot block the server.
func (c *connStates) makeRoom() bool {
	if c.open.Load() < c.max {
		return true
	}
	for c.open.Load() > c.active.Load() { // otherwise no connection is idle
		conn, state, since := c.selectIdle()
		if conn == nil {
			return false
		}
		if state.CompareAndSwap(since, ended) {
			c.count(since, -1)
			closeNow(conn)
			return true
		}
	}
	return false
}

// selectIdle returns the connection to close: one that has never sent a request, or else
// one between two requests. Of up to maxCompared it is the one that has been idle
// longest, because others are more likely to send. It returns nil if no connection can be
// closed.
func (c *connStates) selectIdle() (found net.Conn, state *atomic.Int64, since int64) {
	compared, newest := 0, -time.Now().Add(-firstRequestTime).UnixNano()
	c.conns.Range(func(conn, value any) bool {
		one := value.(*atomic.Int64)
		now := one.Load()
		if now == inRequest || now < newest { // ended, or new
			return true
		}
		if found == nil || closesBefore(now, since) {
			found, state, since = conn.(net.Conn), one, now
		}
		compared++
		return compared < maxCompared
	})
	return found, state, since
}

// closesBefore reports whether a connection in one state is closed before one in another
// state.
func closesBefore(state, other int64) bool {
	if (state < 0) != (other < 0) {
		return state < 0
	}
	return max(state, -state) < max(other, -other)
}

// closeNow closes a connection immediately. For TLS it closes the underlying connection:
// a TLS close can take five seconds if the client has stopped reading, and would delay
// new connections.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
