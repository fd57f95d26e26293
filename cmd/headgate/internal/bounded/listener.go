// Package bounded limits the number of open connections of a listener.
package bounded

import (
	"net"
	"sync"
	"sync/atomic"
)

// Listener returns ln with at most limit open connections, at least 1. Further
// connections are closed before a byte is read. Closing the returned listener closes
// ln. It may be used concurrently and allocates once per connection.
func Listener(ln net.Listener, limit int) net.Listener {
	return &listener{Listener: ln, max: int64(limit)}
}

type listener struct {
	net.Listener
	max  int64
	open atomic.Int64
}

// Accept returns the next connection within the limit.
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
		_ = conn.Close() // nothing was read or written
	}
}

// countedConn counts as open until it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close closes the connection. Only the first call decrements the count.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
