package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

// dialer opens the connections of the client. A client reconnects on behalf of a caller
// whose deadline may be short. A connection that is established after that deadline is
// kept for the next caller. Without this, short deadlines could prevent the client from
// ever connecting.
type dialer struct {
	kind      kind
	addresses []string // alternative addresses of one server; nil if the client selects the address
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup
	mu        sync.Mutex
	pending   map[string]*pendingDial
	first     int // index of the address to try first
}

// pendingDial is a connection attempt in progress or completed.
type pendingDial struct {
	done        chan struct{}
	conn        net.Conn
	err         error
	took        time.Duration
	endedAt     time.Time
	leftForNext atomic.Bool // left for a later caller than the one that started it
}

// maxUnclaimed is how long an unclaimed result, a connection or an error, may be used.
const maxUnclaimed = time.Second

func newDialer(t *target) *dialer {
	d := &dialer{kind: t.kind, pending: map[string]*pendingDial{}}
	if t.kind == single || t.kind == socket {
		d.addresses = t.addresses
	}
	d.ctx, d.cancel = context.WithCancel(context.Background())
	return d
}

// dial returns a connection to address, with TLS if config is not nil.
func (d *dialer) dial(ctx context.Context, address string, netDialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	for {
		p, err := d.start(address, netDialer, config)
		if err != nil {
			return nil, err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: d.network(), Err: ctx.Err()}
		}
		if p.leaveForNext(ctx) {
			return nil, &net.OpError{Op: "dial", Net: d.network(), Err: context.DeadlineExceeded}
		}
		if !d.claim(address, p) {
			continue // another caller claimed it
		}
		if time.Since(p.endedAt) <= maxUnclaimed {
			return p.conn, p.err
		}
		if p.conn != nil {
			_ = p.conn.Close() // unclaimed for so long that it may be stale
		}
	}
}

// start starts to connect, unless an attempt is in progress.
func (d *dialer) start(address string, netDialer *net.Dialer, config *tls.Config) (*pendingDial, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, headgate.ErrClosed
	}
	p := d.pending[address]
	if p == nil {
		p = &pendingDial{done: make(chan struct{})}
		d.pending[address] = p
		d.work.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, netDialer.Timeout)
			defer cancel()
			began := time.Now()
			p.conn, p.err = d.connect(ctx, address, netDialer, config)
			p.endedAt = time.Now()
			p.took = p.endedAt.Sub(began)
			close(p.done)
		})
	}
	return p, nil
}

// leaveForNext reports, once, that the caller's remaining time is too short for the
// handshake and one request. These are two round trips, and connecting took at least
// one. The client drops a connection on which a caller has waited for too long.
func (p *pendingDial) leaveForNext(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && p.err == nil && time.Until(deadline) < 2*p.took && p.leftForNext.CompareAndSwap(false, true)
}

// claim removes a pending dial. It returns false if another caller has claimed it.
func (d *dialer) claim(address string, p *pendingDial) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[address] != p {
		return false
	}
	delete(d.pending, address)
	return true
}

func (d *dialer) network() string {
	if d.kind == socket {
		return "unix"
	}
	return "tcp"
}

// connect tries each address of the server, beginning with the one that worked last.
func (d *dialer) connect(ctx context.Context, address string, netDialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	addresses := d.addresses
	if addresses == nil {
		addresses = []string{address}
	}
	d.mu.Lock()
	first := d.first
	d.mu.Unlock()
	var lastErr error
	for i := range addresses {
		n := (first + i) % len(addresses)
		conn, err := d.connectTo(ctx, addresses[n], len(addresses)-i, netDialer, config)
		if err == nil {
			d.setFirst(n)
			return d.track(conn, n), nil
		}
		lastErr = err
	}
	return nil, lastErr
}

func (d *dialer) setFirst(index int) {
	d.mu.Lock()
	d.first = index
	d.mu.Unlock()
}

// connectTo connects to one address. It uses 1/remaining of the time left, so that the
// other addresses can still be tried; remaining includes this one.
func (d *dialer) connectTo(ctx context.Context, address string, remaining int, netDialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	deadline, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(deadline)/time.Duration(remaining))
	defer cancel()
	conn, err := netDialer.DialContext(ctx, d.network(), address)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return conn, nil
	}
	return handshakeTLS(ctx, conn, address, config)
}

// handshakeTLS performs a TLS handshake on conn. The certificate must contain the host,
// unless the configuration sets another name.
func handshakeTLS(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	tlsConn := tls.Client(conn, config)
	if err := tlsConn.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = &handshakeError{err}
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err}
	}
	return tlsConn, nil
}

// handshakeError is the error for a server that does not answer the TLS handshake.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

func (e *handshakeError) Unwrap() error { return e.err }

// track returns a connection that is closed with the dialer at the latest, even while a
// caller waits for a reply. If no reply ever arrives on it, the next attempt starts
// with another address.
func (d *dialer) track(conn net.Conn, index int) net.Conn {
	c := &trackedConn{Conn: conn, dialer: d, index: index}
	c.touch()
	c.release = context.AfterFunc(d.ctx, func() { _ = conn.Close() })
	return c
}

type trackedConn struct {
	net.Conn
	dialer   *dialer
	index    int
	answered atomic.Bool
	lastUsed atomic.Int64 // last write, or last read of data, in ns since processStart
	reading  atomic.Int32 // Read calls in progress
	release  func() bool
}

// idleAfter is how long a connection without traffic counts as in use. An idle
// connection is checked before a write: servers and firewalls close idle connections,
// and what was not sent can be sent again.
const idleAfter = 100 * time.Millisecond

var processStart = time.Now()

// errClosedWhileIdle: the connection was found closed before anything was sent on it.
var errClosedWhileIdle = errors.New("the server closed the connection while it was idle")

// Write sends p, unless the connection is idle and found closed. During a Read, replies
// to earlier requests may be pending, so the Read reports the closed connection.
func (c *trackedConn) Write(p []byte) (int, error) {
	if c.isIdle() && c.reading.Load() == 0 && closedByPeer(c.Conn) {
		return 0, errClosedWhileIdle
	}
	c.touch()
	defer c.touch()
	return c.Conn.Write(p)
}

func (c *trackedConn) touch() { c.lastUsed.Store(int64(time.Since(processStart))) }

func (c *trackedConn) isIdle() bool {
	return int64(time.Since(processStart))-c.lastUsed.Load() > int64(idleAfter)
}

// Read reads from the connection.
func (c *trackedConn) Read(p []byte) (int, error) {
	c.reading.Add(1)
	defer c.reading.Add(-1)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
		c.answered.Store(true)
	}
	return n, err
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.release()
	if n := len(c.dialer.addresses); n > 1 && !c.answered.Load() {
		c.dialer.setFirst((c.index + 1) % n)
	}
	return c.Conn.Close()
}

// close cancels pending dials, closes every connection, and waits.
func (d *dialer) close() {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	d.work.Wait()
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, p := range d.pending {
		if p.conn != nil {
			_ = p.conn.Close()
		}
	}
}
