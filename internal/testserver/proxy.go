package testserver

import (
	"bytes"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// FaultProxy passes the bytes of TCP connections to a server and back, and does to them what networks do. It knows no protocol.
// All methods may be called concurrently; their effect is there when they return.
type FaultProxy struct {
	t               testing.TB
	network, target string
	port            int
	latency         atomic.Int64 // nanoseconds
	count           struct{ connections, requests, replies, sent, received atomic.Int64 }
	all             sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil while cut, and at the end
	links    map[*link]struct{}
	losses   int           // how many replies are still to be lost
	losesTo  []byte        // to requests that contain this
	blocked  chan struct{} // nil while bytes pass; closed when they do again
}

// ProxyCounts is what passed through a [FaultProxy] since it was made.
type ProxyCounts struct {
	Connections int64 // accepted
	Requests    int64 // pieces read from clients: one request, or several that were sent together
	Replies     int64 // pieces read from the server
	Sent        int64 // bytes read from clients
	Received    int64 // bytes read from the server
}

// Proxy starts a proxy in front of a server's address, or the path of a Unix socket. It ends with the test.
func Proxy(t testing.TB, target string) *FaultProxy {
	t.Helper()
	p := &FaultProxy{t: t, network: "tcp", target: target, port: freePort(t), links: make(map[*link]struct{})}
	if target[:1] == "/" {
		p.network = "unix"
	}
	if err := p.listen(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		p.Cut()
		p.all.Wait()
	})
	return p
}

// Addr is where clients dial: 127.0.0.1 and a port.
func (p *FaultProxy) Addr() string { return loopback(p.port) }

// Counts says what passed.
func (p *FaultProxy) Counts() ProxyCounts {
	c := &p.count
	return ProxyCounts{c.connections.Load(), c.requests.Load(), c.replies.Load(), c.sent.Load(), c.received.Load()}
}

// Open is how many connections there are now.
func (p *FaultProxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// SetLatency makes every reply arrive d later from now on, so that a round trip takes d longer. It delays, and does not narrow:
// replies that come together arrive together.
func (p *FaultProxy) SetLatency(d time.Duration) { p.latency.Store(int64(d)) }

// Cut closes all connections now and has new ones refused until Restore.
func (p *FaultProxy) Cut() {
	defer p.alone()()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
}

// Reset ends the present connections with a reset instead of a proper close. New ones work.
func (p *FaultProxy) Reset() {
	defer p.alone()()
	for l := range p.links {
		_ = l.client.SetLinger(0)
		l.close()
	}
}

// alone locks the proxy for closing sockets, and returns what unlocks it. A process that is just being started has copies of them
// until its program runs, and they are not closed before those are.
func (p *FaultProxy) alone() (unlock func()) {
	p.mu.Lock()
	syscall.ForkLock.RLock()
	return func() {
		syscall.ForkLock.RUnlock()
		p.mu.Unlock()
	}
}

// DropReplies loses the next n replies, each with its connection: the server has done what it was asked, all of it, the client
// reads nothing more and then the connection's end. Whatever else was under way on that connection is lost with it.
func (p *FaultProxy) DropReplies(n int) { p.DropRepliesTo(n, "") }

// DropRepliesTo is DropReplies for requests that contain a text, such as EVALSHA: what clients say to open a connection gets
// through. A request that arrives in two pieces with the text across them is not seen.
func (p *FaultProxy) DropRepliesTo(n int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.losses, p.losesTo = n, []byte(text)
}

// Blackhole with on set accepts connections and passes nothing, in either direction. What was under way is delivered, late, when
// it ends, as it is after a partition of a network.
func (p *FaultProxy) Blackhole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case on && p.blocked == nil:
		p.blocked = make(chan struct{})
	case !on && p.blocked != nil:
		close(p.blocked)
		p.blocked = nil
	}
}

// Restore ends every fault: new connections are accepted, nothing is delayed, lost or held back.
func (p *FaultProxy) Restore() {
	p.SetLatency(0)
	p.DropReplies(0)
	p.Blackhole(false)
	if err := p.listen(); err != nil {
		p.t.Errorf("proxy: %v", err)
	}
}

// listen accepts connections unless that is already done.
func (p *FaultProxy) listen() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != nil {
		return nil
	}
	l, err := net.Listen("tcp", p.Addr())
	if err != nil {
		return err
	}
	p.listener = l
	p.all.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			p.count.connections.Add(1)
			p.open(l, conn.(*net.TCPConn))
		}
	})
	return nil
}

// open begins to serve a connection, unless the proxy was cut since it came.
func (p *FaultProxy) open(from net.Listener, client *net.TCPConn) {
	l := &link{proxy: p, client: client, ended: make(chan struct{}), replies: make(chan reply, 1024)}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.listener != from {
		_ = client.Close()
		return
	}
	p.links[l] = struct{}{}
	p.all.Go(l.serve)
}

// pass waits while nothing passes. It reports whether the link is still there.
func (p *FaultProxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		blocked := p.blocked
		p.mu.Unlock()
		if blocked == nil {
			return !l.isClosed()
		}
		select {
		case <-blocked:
		case <-l.ended:
			return false
		}
	}
}

// losesReplyTo reports whether the reply to this request is to be lost, and counts it.
func (p *FaultProxy) losesReplyTo(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.losses == 0 || !bytes.Contains(request, p.losesTo) {
		return false
	}
	p.losses--
	return true
}
