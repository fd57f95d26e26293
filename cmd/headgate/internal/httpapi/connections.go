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

// settleTime is how long a shutdown waits for requests that are already in transit.
const settleTime = 100 * time.Millisecond

// pause waits for the duration d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// backlogListener can stop listening without refusing connections that are already
// queued.
type backlogListener struct {
	net.Listener
	conns    *connStates
	stopping atomic.Bool
	once     sync.Once
	closed   error // result of the first call of Close
}

// Close closes the listener. Only the first call has an effect.
func (l *backlogListener) Close() error {
	l.once.Do(func() { l.closed = l.Listener.Close() })
	return l.closed
}

// stop makes Accept return connections until the given time, and no more after that. A
// listener that does not support deadlines is closed immediately.
func (l *backlogListener) stop(until time.Time) {
	l.stopping.Store(true)
	if ln, ok := l.Listener.(interface{ SetDeadline(time.Time) error }); !ok || ln.SetDeadline(until) != nil {
		_ = l.Close() // makes Accept return the error
	}
}

// Accept returns the next connection that makeRoom permits, and closes the others.
// After a call of stop, Accept closes the listener when the deadline has passed.
func (l *backlogListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		switch {
		case l.stopping.Load() && errors.Is(err, os.ErrDeadlineExceeded):
			return nil, errors.Join(net.ErrClosed, l.Close())
		case err != nil || l.conns.makeRoom():
			return conn, err
		}
		_ = conn.Close() // nothing was sent on the connection
	}
}

// Settings for choosing the connection that is closed in favor of a new one.
const (
	firstRequestTime = time.Second // time within which a new connection is not closed
	maxCompared      = 64          // maximum number of idle connections that are compared
)

// connStates tracks the state of each connection, and counts the connections by state.
type connStates struct {
	max    int64
	open   atomic.Int64
	unused atomic.Int64 // number of connections that have not sent a request yet
	active atomic.Int64 // number of connections with a request in flight
	conns  sync.Map     // net.Conn → *atomic.Int64 with the state of the connection
}

// The state of a connection is inRequest, ended, or the time at which the connection
// became idle, in nanoseconds of the wall clock. This time is negative before the first
// request and positive after it. Jumps of the clock are harmless, because the time is
// only used to choose the connection to close.
const (
	inRequest = 0
	ended     = math.MinInt64 // the connection is closed
)

// busy returns the number of connections that have sent no request yet or have a
// request in flight.
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

// setState changes the state of a connection to now. The state ended is
// final.
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

// count adds n to the counters for a state.
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

// makeRoom reports whether a new connection is permitted. If the maximum number of
// connections is open, it first closes an idle one, so that idle connections cannot
// block the server.
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

// selectIdle returns the connection to close. It prefers connections that have never
// sent a request to connections between two requests. Among these it chooses the
// connection that has been idle longest, because the others are more likely to send a
// request. It compares at most maxCompared connections. It returns nil if no connection
// can be closed.
func (c *connStates) selectIdle() (found net.Conn, state *atomic.Int64, since int64) {
	compared, newest := 0, -time.Now().Add(-firstRequestTime).UnixNano()
	c.conns.Range(func(conn, value any) bool {
		one := value.(*atomic.Int64)
		now := one.Load()
		if now == inRequest || now < newest { // ended or recently opened, see firstRequestTime
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

// closesBefore reports whether a connection in the first state is to be closed rather
// than a connection in the other state.
func closesBefore(state, other int64) bool {
	if (state < 0) != (other < 0) {
		return state < 0
	}
	return max(state, -state) < max(other, -other)
}

// closeNow closes a connection immediately. If it uses TLS, closeNow closes the
// underlying connection: closing the TLS connection can take five seconds if the client
// has stopped reading, and would delay new connections.
func closeNow(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
