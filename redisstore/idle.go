package redisstore

import (
	"errors"
	"sync/atomic"
	"time"
)

// This file detects that the server has closed an unused connection, before a request is
// sent on it. Servers and firewalls close idle connections. A call that has not been sent
// can safely be sent on another connection.

// idleAfter is the time without traffic after which a Write checks whether the
// connection is still open.
const idleAfter = 100 * time.Millisecond

var processStart = time.Now()

// errClosedWhileIdle means that the server had closed the connection before the request
// was sent.
var errClosedWhileIdle = errors.New("the server closed the connection while it was idle")

// callCount counts the calls of a client that wait for replies.
type callCount struct {
	waiting atomic.Int64
	endedAt atomic.Int64 // when waiting was last reduced to 0, in ns since processStart
}

func (n *callCount) begin() { n.waiting.Add(1) }

func (n *callCount) end() {
	// The time is that before the subtraction: a call that begins after it may already
	// have been sent when the time is stored, and must not count as ended.
	if now := sinceStart(); n.waiting.Add(-1) == 0 {
		n.endedAt.Store(now)
	}
}

func sinceStart() int64 { return int64(time.Since(processStart)) }

// Write sends p, unless the server has closed the connection since it was last used.
func (c *trackedConn) Write(p []byte) (int, error) {
	if !c.beginWrite() {
		return 0, errClosedWhileIdle
	}
	defer c.touch()
	return c.Conn.Write(p)
}

// beginWrite returns false if the server has closed the connection while it was unused.
func (c *trackedConn) beginWrite() bool {
	c.use.Lock()
	defer c.use.Unlock()
	if !c.foundClosed && c.isIdle() && (c.reading.Load() == 0 || c.unused()) {
		c.foundClosed = closedByPeer(c.Conn)
	}
	if c.foundClosed {
		return false
	}
	c.touch()
	if c.asked.Load() == 0 {
		c.asked.Store(c.lastUsed.Load())
	}
	return true
}

// unused reports whether no call that still waits was sent on the connection: since its
// last use, there was an instant without any call of the client.
func (c *trackedConn) unused() bool { return c.dialer.calls.endedAt.Load() > c.lastUsed.Load() }

func (c *trackedConn) touch() { c.lastUsed.Store(sinceStart()) }

func (c *trackedConn) isIdle() bool { return sinceStart()-c.lastUsed.Load() > int64(idleAfter) }

// Read reads from the connection. If the server has closed it while it was unused, Read
// returns errClosedWhileIdle, because the client passes the error to calls that it has
// not sent yet. Write then sends nothing any more.
func (c *trackedConn) Read(p []byte) (int, error) {
	c.reading.Add(1)
	defer c.reading.Add(-1)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
		c.asked.Store(0)
		c.answered.Store(true)
		c.settle()
	} else if err != nil && c.closedUnused() {
		err = errClosedWhileIdle
	}
	return n, err
}

func (c *trackedConn) closedUnused() bool {
	c.use.Lock()
	defer c.use.Unlock()
	c.foundClosed = c.foundClosed || c.unused()
	return c.foundClosed
}
