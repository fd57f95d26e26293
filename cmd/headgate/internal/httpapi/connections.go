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

// How room is made for a new connection.
const (
	patience     = time.Second // what a new connection has to send its first request in, where others could take its place
	mostCompared = 64          // connections that wait, of which one is chosen
)

// connStates counts connections, and knows which of them wait.
type connStates struct {
	most   int64
	open   atomic.Int64
	silent atomic.Int64 // of them those that have asked for nothing yet
	asking atomic.Int64 // and those that are in a request
	conns  sync.Map     // net.Conn → *atomic.Int64, which says how it waits
}

// How a connection waits is since when, in ns of the wall clock: less than 0 from its beginning, more than 0 for its next request. The clock
// may step: it only chooses who makes room.
const (
	inRequest = 0
	gone      = math.MinInt64 // it has ended, or was cut off
)

// busy is how many connections are new, or in a request.
func (c *connStates) busy() int64 { return c.silent.Load() + c.asking.Load() }

func (c *connStates) change(conn net.Conn, state http.ConnState) {
	switch state {
	case http.StateNew:
		waits := new(atomic.Int64)
		waits.Store(-time.Now().UnixNano())
		c.count(waits.Load(), 1)
		c.conns.Store(conn, waits)
	case http.StateActive:
		c.put(conn, inRequest)
	case http.StateIdle:
		c.put(conn, time.Now().UnixNano())
	default:
		c.put(conn, gone)
		c.conns.Delete(conn)
	}
}

// put says how a connection waits from now on. One that was cut off stays so.
func (c *connStates) put(conn net.Conn, now int64) {
	known, ok := c.conns.Load(conn)
	if !ok {
		return
	}
	waits := known.(*atomic.Int64)
	before := waits.Load()
	for before != gone && !waits.CompareAndSwap(before, now) {
		before = waits.Load()
	}
	if before != gone {
		c.count(before, -1)
		c.count(now, 1)
	}
}

// count counts n connections that wait so.
func (c *connStates) count(waits, n int64) {
	if waits == gone {
		return
	}
	c.open.Add(n)
	switch {
	case waits == inRequest:
		c.asking.Add(n)
	case waits < 0:
		c.silent.Add(n)
	}
}

// room reports whether another connection may stay. If there are as many as may be, one that waits is closed for it: whoever only holds
// connections keeps nobody out.
func (c *connStates) room() bool {
	if c.open.Load() < c.most {
		return true
	}
	for c.open.Load() > c.asking.Load() { // or else all are looked at in vain
		conn, waits, since := c.dispensable()
		if conn == nil {
			return false
		}
		if waits.CompareAndSwap(since, gone) {
			c.count(since, -1)
			cut(conn)
			return true
		}
	}
	return false
}

// dispensable is the connection that is missed the least: one that has been silent from its beginning, or else one that waits for its next
// request; of some of these the one that has waited longest, as others are about to send. It is nil if there is none.
func (c *connStates) dispensable() (found net.Conn, waits *atomic.Int64, since int64) {
	compared, latest := 0, -time.Now().Add(-patience).UnixNano()
	c.conns.Range(func(conn, value any) bool {
		one := value.(*atomic.Int64)
		now := one.Load()
		if now == inRequest || now < latest { // which is gone, or new
			return true
		}
		if found == nil || goesBefore(now, since) {
			found, waits, since = conn.(net.Conn), one, now
		}
		compared++
		return compared < mostCompared
	})
	return found, waits, since
}

// goesBefore reports whether a connection that waits so makes room before another.
func goesBefore(waits, other int64) bool {
	if (waits < 0) != (other < 0) {
		return waits < 0
	}
	return max(waits, -waits) < max(other, -other)
}

// cut closes a connection at once. In TLS the one below is: to say that it ends takes five seconds where the client has stopped reading, and
// others wait to be accepted.
func cut(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	_ = conn.Close()
}
