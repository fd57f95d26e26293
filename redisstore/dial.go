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

// dialer makes the client's connections. A client that reconnects does so on behalf of a caller who may have little time left; a
// connection that comes about too late for him is there for the next, so that short deadlines do not keep a client from ever
// connecting.
type dialer struct {
	kind      kind
	addresses []string // of one server by several ways: the first that answers is it; nil if the client says where to
	life      context.Context
	end       context.CancelFunc
	work      sync.WaitGroup
	mu        sync.Mutex
	pending   map[string]*pending
	first     int // of addresses: with which to begin
}

// pending is a connection on its way.
type pending struct {
	done chan struct{}
	conn net.Conn
	err  error
	took time.Duration
	over time.Time
	left atomic.Bool // for another caller than the one for whom it was begun
}

// maxPending is for how long a connection that nobody waited for is good, and a failure true.
const maxPending = time.Second

func newDialer(t *target) *dialer {
	d := &dialer{kind: t.kind, pending: map[string]*pending{}}
	if t.kind == single || t.kind == socket {
		d.addresses = t.addresses
	}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// dial is a connection to address, with TLS if config is not nil.
func (d *dialer) dial(ctx context.Context, address string, with *net.Dialer, config *tls.Config) (net.Conn, error) {
	for {
		p, err := d.start(address, with, config)
		if err != nil {
			return nil, err
		}
		select {
		case <-p.done:
		case <-ctx.Done():
			return nil, &net.OpError{Op: "dial", Net: d.network(), Err: ctx.Err()}
		}
		if p.tooLateFor(ctx) {
			return nil, &net.OpError{Op: "dial", Net: d.network(), Err: context.DeadlineExceeded}
		}
		if !d.claim(address, p) {
			continue // another caller has it
		}
		if time.Since(p.over) <= maxPending {
			return p.conn, p.err
		}
		if p.conn != nil {
			_ = p.conn.Close() // nobody wanted it for so long that it may be stale
		}
	}
}

// start begins to connect, unless that is under way.
func (d *dialer) start(address string, with *net.Dialer, config *tls.Config) (*pending, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.life.Err() != nil {
		return nil, headgate.ErrClosed
	}
	p := d.pending[address]
	if p == nil {
		p = &pending{done: make(chan struct{})}
		d.pending[address] = p
		d.work.Go(func() {
			ctx, cancel := context.WithTimeout(d.life, with.Timeout)
			defer cancel()
			begun := time.Now()
			p.conn, p.err = d.connect(ctx, address, with, config)
			p.over = time.Now()
			p.took = p.over.Sub(begun)
			close(p.done)
		})
	}
	return p, nil
}

// tooLateFor reports, once, that who waits has not the time left to greet the server and to ask it: two round trips, and connecting
// took at least one. The client gives up a connection on which somebody has waited for too long.
func (p *pending) tooLateFor(ctx context.Context) bool {
	until, ok := ctx.Deadline()
	return ok && p.err == nil && time.Until(until) < 2*p.took && p.left.CompareAndSwap(false, true)
}

// claim takes what is pending, once.
func (d *dialer) claim(address string, p *pending) bool {
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

// connect tries each way to the server, beginning with the one that worked last.
func (d *dialer) connect(ctx context.Context, address string, with *net.Dialer, config *tls.Config) (net.Conn, error) {
	ways := d.addresses
	if ways == nil {
		ways = []string{address}
	}
	d.mu.Lock()
	first := d.first
	d.mu.Unlock()
	var last error
	for i := range ways {
		n := (first + i) % len(ways)
		conn, err := d.connectTo(ctx, ways[n], len(ways)-i, with, config)
		if err == nil {
			d.beginWith(n)
			return d.bound(conn, n), nil
		}
		last = err
	}
	return nil, last
}

func (d *dialer) beginWith(way int) {
	d.mu.Lock()
	d.first = way
	d.mu.Unlock()
}

// connectTo takes its part of the time that is left, so that others, as many as ways says with this one, can still be tried.
func (d *dialer) connectTo(ctx context.Context, address string, ways int, with *net.Dialer, config *tls.Config) (net.Conn, error) {
	until, _ := ctx.Deadline()
	ctx, cancel := context.WithTimeout(ctx, time.Until(until)/time.Duration(ways))
	defer cancel()
	conn, err := with.DialContext(ctx, d.network(), address)
	if err != nil {
		return nil, err
	}
	if config == nil {
		return conn, nil
	}
	return secured(ctx, conn, address, config)
}

// secured is conn behind a TLS handshake; the certificate must name the host unless the configuration names another.
func secured(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		if ctx.Err() != nil {
			err = &handshakeError{err}
		}
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: conn.RemoteAddr(), Err: err}
	}
	return secure, nil
}

// handshakeError is for a server that does not answer to TLS.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

func (e *handshakeError) Unwrap() error { return e.err }

// bound is a connection that is closed with the dialer at the latest, whoever waits for it to answer. If it never does another way
// is tried first the next time.
func (d *dialer) bound(conn net.Conn, way int) net.Conn {
	c := &boundConn{Conn: conn, dialer: d, way: way}
	c.touch()
	c.release = context.AfterFunc(d.life, func() { _ = conn.Close() })
	return c
}

type boundConn struct {
	net.Conn
	dialer  *dialer
	way     int
	heard   atomic.Bool
	used    atomic.Int64 // when it was last written to or heard of, in ns since start
	reading atomic.Int32 // calls of Read under way
	release func() bool
}

// restsAfter is how long a connection that is not used still counts as in use. One that rests is looked at before it is written to:
// servers and firewalls close what nobody uses, and what was not sent can be sent again.
const restsAfter = 100 * time.Millisecond

var start = time.Now()

// errHungUp: the connection was found closed before anything was sent on it.
var errHungUp = errors.New("the server has closed the connection while it was not used")

// Write sends p, unless the connection rests and is found closed. While somebody reads, answers may be awaited to what was sent
// before, and that the connection is closed is for him to find.
func (c *boundConn) Write(p []byte) (int, error) {
	if c.rests() && c.reading.Load() == 0 && hungUp(c.Conn) {
		return 0, errHungUp
	}
	c.touch()
	defer c.touch()
	return c.Conn.Write(p)
}

func (c *boundConn) touch() { c.used.Store(int64(time.Since(start))) }

func (c *boundConn) rests() bool { return int64(time.Since(start))-c.used.Load() > int64(restsAfter) }

// Read reads what the server says.
func (c *boundConn) Read(p []byte) (int, error) {
	c.reading.Add(1)
	defer c.reading.Add(-1)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.touch()
		c.heard.Store(true)
	}
	return n, err
}

// Close closes the connection.
func (c *boundConn) Close() error {
	c.release()
	if ways := len(c.dialer.addresses); ways > 1 && !c.heard.Load() {
		c.dialer.beginWith((c.way + 1) % ways)
	}
	return c.Conn.Close()
}

// close ends what is on its way, closes every connection, and waits.
func (d *dialer) close() {
	d.mu.Lock()
	d.end()
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
