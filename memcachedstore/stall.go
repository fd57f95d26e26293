package memcachedstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// This file replaces connections that no longer work although they are open, for example
// because a firewall, a load balancer or a NAT gateway has lost their state. Nothing
// closes such a connection: without a check, each of them costs a whole Timeout.

const (
	// minStall is the minimum time without a reply after which a connection is checked.
	minStall = 10 * time.Millisecond

	// replyGrace is the time in which the checked connections may still answer after a
	// new connection has answered. A server that has been stopped answers on all of
	// them when it continues, in any order.
	replyGrace = 20 * time.Millisecond

	checkTimeout = 200 * time.Millisecond // timeout of one attempt to connect and of its reply
	checkPause   = 50 * time.Millisecond  // pause between two attempts
)

// connections contains the open connections to one server.
type connections struct {
	server   net.Addr
	mu       sync.Mutex
	open     map[*trackedConn]struct{}
	checking bool
}

// trackedConn is a connection that records whether a request waits for a reply.
type trackedConn struct {
	net.Conn
	of *connections
	// Time of the first write since the last read that returned data, in ns since
	// processStart; 0 if there is none.
	asked atomic.Int64
}

var processStart = time.Now()

// dial opens a connection to the server.
func (c *connections) dial(ctx context.Context) (net.Conn, error) {
	conn, err := dialLimited(ctx, c.server.Network(), c.server.String())
	if err != nil {
		return nil, err
	}
	t := &trackedConn{Conn: conn, of: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open[t] = struct{}{}
	return t, nil
}

// Write sends p and records that a request waits for a reply.
func (t *trackedConn) Write(p []byte) (int, error) {
	t.asked.CompareAndSwap(0, int64(time.Since(processStart)))
	return t.Conn.Write(p)
}

// Read reads from the connection.
func (t *trackedConn) Read(p []byte) (int, error) {
	n, err := t.Conn.Read(p)
	if n > 0 {
		t.asked.Store(0)
	}
	return n, err
}

// Close closes the connection.
func (t *trackedConn) Close() error {
	t.of.mu.Lock()
	delete(t.of.open, t)
	t.of.mu.Unlock()
	return t.Conn.Close()
}

// stalled returns the connections on which a request has been waiting for a reply, and
// the times of the requests.
func (c *connections) stalled() map[*trackedConn]int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	found := map[*trackedConn]int64{}
	for t := range c.open {
		if asked := t.asked.Load(); asked != 0 && time.Since(processStart)-time.Duration(asked) >= minStall {
			found[t] = asked
		}
	}
	return found
}

// suspect checks the connections to the servers of a group, on which requests may wait
// for replies that never arrive. It is called when a caller has stopped waiting, and does
// not block.
func (s *Store) suspect(names []string) {
	if s.servers == nil {
		return
	}
	for _, name := range names {
		c := s.connections[s.servers.index(name)]
		if c.startCheck() && !s.goInBackground(func() { s.check(c) }) {
			c.endCheck()
		}
	}
}

// goInBackground starts a goroutine for which Close waits, unless the store is closed.
func (s *Store) goInBackground(f func()) bool {
	s.scheduler.mu.Lock()
	defer s.scheduler.mu.Unlock()
	if s.scheduler.closed {
		return false
	}
	s.scheduler.workers.Go(f)
	return true
}

func (c *connections) startCheck() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.checking {
		return false
	}
	c.checking = true
	return true
}

func (c *connections) endCheck() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checking = false
}

// check opens another connection to the server. If the server answers on it, but still
// does not answer on the connections that were stalled, check closes these, and all idle
// connections, which most likely hang, too.
func (s *Store) check(c *connections) {
	defer c.endCheck()
	for {
		stalled := c.stalled()
		if len(stalled) == 0 {
			return
		}
		pause := checkPause
		if c.answers() == nil && s.sleep(replyGrace) && s.closeStalled(stalled) {
			pause = minStall // the next requests may stall on further connections
		}
		if !s.sleep(pause) {
			return
		}
	}
}

// closeStalled closes the connections that still have not replied, and all idle ones if
// there is any such connection. It reports whether there is one.
func (s *Store) closeStalled(stalled map[*trackedConn]int64) (closed bool) {
	for t, asked := range stalled {
		if t.asked.Load() == asked {
			_ = t.Conn.Close() // the request in progress gets an error, and its caller closes t
			closed = true
		}
	}
	if closed {
		s.closeIdle()
	}
	return closed
}

// answers opens a connection and returns nil if the server replies to a request.
func (c *connections) answers() error {
	conn, err := net.DialTimeout(c.server.Network(), c.server.String(), checkTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(checkTimeout)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("version\r\n")); err != nil {
		return err
	}
	if n, err := conn.Read(make([]byte, 64)); n == 0 {
		return errors.Join(errors.New("no reply"), err)
	}
	return nil
}

// sleep blocks for d. It returns false if the store is closed.
func (s *Store) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-s.closing:
		return false
	}
}

// newConnections returns the connections to each server of the list, and a function for
// the field DialContext of a client.
func newConnections(list servers) ([]*connections, func(ctx context.Context, network, address string) (net.Conn, error)) {
	all := make([]*connections, len(list))
	for i, server := range list {
		all[i] = &connections{server: server, open: map[*trackedConn]struct{}{}}
	}
	return all, func(ctx context.Context, network, address string) (net.Conn, error) {
		i := slices.IndexFunc(list, func(a net.Addr) bool { return a.Network() == network && a.String() == address })
		return all[i].dial(ctx)
	}
}
