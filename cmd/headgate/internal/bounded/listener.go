// Package bounded limits the number of open connections that a listener has accepted.
package bounded

import (
	"net"
	"sync"
	"sync/atomic"
)

// Listener returns a listener that accepts connections from ln, and keeps at most limit
// of them open at a time; a limit below 1 counts as 1. It closes further connections
// before a byte is read. Closing the returned listener closes ln. It may be used
// concurrently and allocates once per connection.
func Listener(ln net.Listener, limit int) net.Listener {
	return &listener{Listener: ln, max: int64(limit)}
}

type listener struct {
	net.Listener
	max  int64
	open atomic.Int64
}

// Accept returns the next connection, and closes connections above the limit.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.max {
			return &countedConn{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = conn.Close() // the error is ignored: nothing was read or written
	}
}

// countedConn is a connection that is included in the number of open connections until
// it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close closes the connection. Only the first call decrements the number of open
// connections.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
