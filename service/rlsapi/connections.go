package rlsapi

import (
	"net"
	"sync"
	"sync/atomic"
)

// boundedListener closes connections beyond a number of them.
type boundedListener struct {
	net.Listener
	most int64
	open atomic.Int64
}

// Accept is that of the listener, for connections that may stay.
func (l *boundedListener) Accept() (net.Conn, error) {
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
