package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"time"
)

// This file replaces connections that no longer work although they are open, for example
// because a firewall, a load balancer or a NAT gateway has lost their state. Nothing
// closes such a connection: without a check, its client waits for the operating system.

const (
	// minStall is the minimum time without a reply after which a connection is checked.
	minStall = 10 * time.Millisecond

	// minMaxStall is the minimum time without a reply after which a connection is closed
	// even if no new connection can be opened. A longer Timeout of the store is used
	// instead, because callers may wait for so long.
	minMaxStall = time.Second

	// replyGrace is the minimum time in which the checked connection may still answer
	// after a new connection has answered. A server that has been stopped answers on both
	// when it continues, in any order.
	replyGrace = 20 * time.Millisecond

	// minCheckTimeout is the minimum timeout of the first attempt to connect. The timeout
	// doubles for each further attempt.
	minCheckTimeout = 200 * time.Millisecond

	checkPause = 50 * time.Millisecond // pause between two attempts
	maxCheck   = 30 * time.Second      // maximum duration of a check
)

// endpoint is where a connection leads, so that another one can be opened.
type endpoint struct {
	address   string
	netDialer *net.Dialer
	config    *tls.Config
	took      time.Duration // time that connecting took
}

// suspect checks all connections on which a request has been waiting for a reply. It is
// called when a caller has stopped waiting. It does not block.
func (d *dialer) suspect() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return
	}
	for c := range d.open {
		if c.stalledFor() >= minStall && !d.checking[c.endpoint.address] {
			d.checking[c.endpoint.address] = true
			d.work.Go(func() { d.check(c) })
		}
	}
}

// check opens another connection to the server of c. If the server answers on it, but
// still does not answer on c, it closes c, and the next caller uses the new connection.
func (d *dialer) check(c *trackedConn) {
	defer d.endCheck(c.endpoint.address)
	e, asked, began := c.endpoint, c.asked.Load(), time.Now()
	timeout := min(max(8*e.took, minCheckTimeout), dialTimeout)
	var replacement *pendingDial // registered once c is closed
	for {
		fresh, err := d.connectAndPing(e, timeout)
		timeout = min(2*timeout, dialTimeout)
		switch {
		case replacement == nil && !c.stillWaits(asked):
			closeConn(fresh)
			return
		case err == nil && replacement != nil:
			d.finish(replacement, fresh, nil)
			return
		case err == nil:
			d.replace(c, asked, fresh)
			return
		case replacement == nil && c.stalledFor() >= d.maxStall:
			if replacement = d.register(e.address); replacement == nil {
				_ = c.Conn.Close()
				return
			}
			_ = c.Conn.Close()
		}
		if replacement != nil && (isRefused(err) || time.Since(began) > maxCheck || d.ctx.Err() != nil) {
			d.finish(replacement, nil, err)
			return
		}
		if !sleep(d.ctx, checkPause) && replacement == nil {
			return
		}
	}
}

// replace closes c after the grace, unless it answers, and keeps fresh for the next
// caller.
func (d *dialer) replace(c *trackedConn, asked int64, fresh *trackedConn) {
	if !sleep(d.ctx, max(replyGrace, 2*c.endpoint.took)) || !c.stillWaits(asked) {
		closeConn(fresh)
		return
	}
	if p := d.register(c.endpoint.address); p != nil {
		d.finish(p, fresh, nil)
	} else {
		closeConn(fresh)
	}
	_ = c.Conn.Close()
}

// register adds an attempt to connect that callers can wait for. It returns nil if there
// is one already.
func (d *dialer) register(address string) *pendingDial {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[address] != nil {
		return nil
	}
	return d.addPending(address)
}

func (d *dialer) endCheck(address string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.checking, address)
}

// connectAndPing opens a connection and waits for the reply to a PING. Any reply shows
// that the server works, also one that requires a password.
func (d *dialer) connectAndPing(e endpoint, timeout time.Duration) (*trackedConn, error) {
	ctx, cancel := context.WithTimeout(d.ctx, timeout)
	defer cancel()
	conn, err := d.connectToAny(ctx, e.address, e.netDialer, e.config)
	if err != nil {
		return nil, err
	}
	if err := ping(conn.Conn, time.Now().Add(timeout)); err != nil {
		closeConn(conn)
		return nil, err
	}
	return conn, nil
}

func ping(conn net.Conn, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	reply := make([]byte, 0, 512)
	for len(reply) == 0 || reply[len(reply)-1] != '\n' {
		if len(reply) == cap(reply) {
			return errors.New("the reply to PING is too long")
		}
		n, err := conn.Read(reply[len(reply):cap(reply)])
		if reply = reply[:len(reply)+n]; err != nil {
			return err
		}
	}
	return conn.SetDeadline(time.Time{})
}

// closeConn closes a connection that was not passed to the client. conn may be nil.
func closeConn(c *trackedConn) {
	if c != nil {
		c.settled.Store(true) // it was never counted
		_ = c.Close()
	}
}

// isRefused reports whether no server listens at the address.
func isRefused(err error) bool {
	var timeout net.Error
	return err != nil && !(errors.As(err, &timeout) && timeout.Timeout()) && !errors.Is(err, context.DeadlineExceeded)
}

// stalledFor returns the time for which a request has been waiting on the connection
// without any reply.
func (c *trackedConn) stalledFor() time.Duration {
	asked := c.asked.Load()
	if asked == 0 {
		return 0
	}
	return time.Since(processStart) - time.Duration(asked)
}

// stillWaits reports whether no reply has arrived since the request of the time asked,
// and the connection is open.
func (c *trackedConn) stillWaits(asked int64) bool {
	return asked != 0 && c.asked.Load() == asked && !c.closed.Load()
}
