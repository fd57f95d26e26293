// Package bounded keeps the connections of a listener to a number of them.
package bounded

import (
	"net"
	"sync"
	"sync/atomic"
)

// Listener is ln with at most most connections open at a time, from 1 up: those beyond are closed before a byte is read. Closing it closes
// ln. It may be used concurrently, and costs a connection one allocation.
func Listener(ln net.Listener, most int) net.Listener {
	return &listener{Listener: ln, most: int64(most)}
}

type listener struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept is that of the listener, for connections that may stay.
func (l *listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if l.open.Add(1) <= l.most {
			return &countedConn{Conn: conn, open: &l.open}, nil
		}
		l.open.Add(-1)
		_ = conn.Close() // nothing was said on it
	}
}

// countedConn is counted until it is closed.
type countedConn struct {
	net.Conn
	open *atomic.Int64
	once sync.Once
}

// Close is that of the connection.
func (c *countedConn) Close() error {
	c.once.Do(func() { c.open.Add(-1) })
	return c.Conn.Close()
}
