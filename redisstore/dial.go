package redisstore

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/respcheck"
)

// dialer opens the connections of the client. The client reconnects when a caller needs
// a connection, and the deadline of that caller may be short. A connection that is
// established after the deadline is kept for the next caller. Without this, short
// deadlines could prevent the client from ever connecting.
type dialer struct {
	kind      kind
	addresses []string // alternative addresses of one server; nil if the client selects the address
	ctx       context.Context
	cancel    context.CancelFunc
	work      sync.WaitGroup
	mu        sync.Mutex
	pending   map[string]*pendingDial
	first     int // index of the address to try first

	// unsettled is the number of connections that are being opened, or that are open and
	// on which no reply has arrived yet.
	unsettled atomic.Int32

	open     map[*trackedConn]struct{}
	checking map[string]bool // addresses whose connections are being checked: see suspect
	maxStall time.Duration   // see minMaxStall
	calls    callCount
}

// pendingDial is an attempt to connect. It is in progress until done is closed.
type pendingDial struct {
	done        chan struct{}
	conn        net.Conn
	err         error
	took        time.Duration
	endedAt     time.Time
	leftForNext atomic.Bool // whether the caller that waited left the connection to a later caller
}

// maxUnclaimed is the maximum time for which the result of an attempt, a connection or
// an error, is kept for a caller that uses it.
const maxUnclaimed = time.Second

func newDialer(t *target) *dialer {
	d := &dialer{kind: t.kind, pending: map[string]*pendingDial{}, open: map[*trackedConn]struct{}{}, checking: map[string]bool{}, maxStall: minMaxStall}
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
			continue // another caller uses this result
		}
		if time.Since(p.endedAt) <= maxUnclaimed {
			return p.conn, p.err
		}
		if p.conn != nil {
			_ = p.conn.Close() // the connection may be stale
		}
	}
}

// start returns the attempt to connect to address that is in progress. If there is
// none, it starts one.
func (d *dialer) start(address string, netDialer *net.Dialer, config *tls.Config) (*pendingDial, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil, headgate.ErrClosed
	}
	p := d.pending[address]
	if p == nil {
		p = d.addPending(address)
		d.work.Go(func() {
			ctx, cancel := context.WithTimeout(d.ctx, netDialer.Timeout)
			defer cancel()
			began := time.Now()
			conn, err := d.connectToAny(ctx, address, netDialer, config)
			p.took = time.Since(began)
			d.finish(p, conn, err)
		})
	}
	return p, nil
}

// addPending adds an attempt to connect to address. The caller holds d.mu.
func (d *dialer) addPending(address string) *pendingDial {
	p := &pendingDial{done: make(chan struct{})}
	d.pending[address] = p
	d.unsettled.Add(1)
	return p
}

// finish ends an attempt to connect with its result. The connection returns only valid
// replies, because the client trusts them.
func (d *dialer) finish(p *pendingDial, conn *trackedConn, err error) {
	p.err, p.endedAt = err, time.Now()
	if err != nil {
		d.unsettled.Add(-1)
	} else {
		p.conn = respcheck.New(conn, respcheck.DefaultLimits)
	}
	close(p.done)
}

// leaveForNext reports whether the caller should leave the connection to a later
// caller, because its remaining time is too short for the handshake and one request.
// These take two round trips, and connecting took at least one. If a caller used the
// connection and its deadline passed, the client would close the connection.
// leaveForNext returns true only once.
func (p *pendingDial) leaveForNext(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && p.err == nil && time.Until(deadline) < 2*p.took && p.leftForNext.CompareAndSwap(false, true)
}

// claim removes an attempt, so that only the caller uses its result. It returns false
// if another caller has removed it.
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

// connectToAny opens a connection to the server. It tries the addresses of the server
// one after another, beginning with the address that worked last.
func (d *dialer) connectToAny(ctx context.Context, address string, netDialer *net.Dialer, config *tls.Config) (*trackedConn, error) {
	addresses := d.addresses
	if addresses == nil {
		addresses = []string{address}
	}
	d.mu.Lock()
	first := d.first
	d.mu.Unlock()
	began := time.Now()
	var lastErr error
	for i := range addresses {
		n := (first + i) % len(addresses)
		conn, err := d.connectTo(ctx, addresses[n], len(addresses)-i, netDialer, config)
		if err == nil {
			d.setFirst(n)
			return d.track(conn, n, endpoint{address, netDialer, config, time.Since(began)}), nil
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

// connectTo connects to one address. remaining is the number of addresses to try,
// including this one. connectTo uses at most 1/remaining of the time left, so that
// there is time for the others.
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

// handshakeTLS performs a TLS handshake on conn. The server's certificate must be valid
// for the host in address, unless config sets another name.
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

// handshakeError is the error for a server that does not complete the TLS handshake in
// time.
type handshakeError struct{ err error }

func (e *handshakeError) Error() string { return "TLS handshake: " + e.err.Error() }

func (e *handshakeError) Unwrap() error { return e.err }

// track wraps a connection. When the dialer is closed, it closes the connection even if
// a caller is waiting for a reply. If a connection is closed and no reply has ever
// arrived on it, the next attempt starts with the next address.
func (d *dialer) track(conn net.Conn, index int, e endpoint) *trackedConn {
	c := &trackedConn{Conn: conn, dialer: d, index: index, endpoint: e}
	c.touch()
	c.release = context.AfterFunc(d.ctx, func() { _ = conn.Close() })
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[c] = struct{}{}
	return c
}

type trackedConn struct {
	net.Conn
	dialer   *dialer
	index    int
	endpoint endpoint
	closed   atomic.Bool
	answered atomic.Bool
	settled  atomic.Bool  // whether the connection does not count as unsettled any more
	lastUsed atomic.Int64 // time of the last write, or of the last read that returned data, in ns since processStart
	reading  atomic.Int32 // number of Read calls in progress
	release  func() bool

	// use protects foundClosed, and keeps a Write from starting while Read sets it.
	use         sync.Mutex
	foundClosed bool // whether the server closed the connection while it was unused

	// Time of the first write since the last read that returned data, in ns since
	// processStart; 0 if there is none.
	asked atomic.Int64
}

func (c *trackedConn) settle() {
	if !c.settled.Load() && c.settled.CompareAndSwap(false, true) {
		c.dialer.unsettled.Add(-1)
	}
}

// Close closes the connection.
func (c *trackedConn) Close() error {
	c.release()
	c.settle()
	if !c.closed.Swap(true) {
		c.dialer.mu.Lock()
		delete(c.dialer.open, c)
		c.dialer.mu.Unlock()
	}
	if n := len(c.dialer.addresses); n > 1 && !c.answered.Load() {
		c.dialer.setFirst((c.index + 1) % n)
	}
	return c.Conn.Close()
}

// close cancels attempts to connect, closes every connection, and waits until all
// attempts have ended.
func (d *dialer) close() {
	d.mu.Lock()
	d.cancel()
	d.mu.Unlock()
	d.work.Wait()
	d.mu.Lock()
	pending := slices.Collect(maps.Values(d.pending))
	d.mu.Unlock()
	for _, p := range pending {
		if p.conn != nil {
			_ = p.conn.Close()
		}
	}
}
