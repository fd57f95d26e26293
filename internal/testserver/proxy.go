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

// FaultProxy forwards the bytes of TCP connections to a server and back, and injects
// network faults. It is independent of the protocol. All methods may be called
// concurrently. They have taken effect when they return.
type FaultProxy struct {
	t               testing.TB
	network, target string
	port            int
	latency         atomic.Int64 // nanoseconds
	count           struct{ connections, requests, replies, sent, received atomic.Int64 }
	all             sync.WaitGroup

	mu        sync.Mutex
	listener  net.Listener // nil while cut and after the test
	links     map[*link]struct{}
	dropsLeft int           // number of replies still to drop
	dropMatch []byte        // requests that contain this are affected
	blocked   chan struct{} // nil while bytes are forwarded; closed when forwarding resumes
}

// ProxyCounts are counters of a [FaultProxy] since its creation.
type ProxyCounts struct {
	Connections int64 // accepted
	Requests    int64 // chunks read from clients: one request, or several sent together
	Replies     int64 // chunks read from the server
	Sent        int64 // bytes read from clients
	Received    int64 // bytes read from the server
}

// Proxy starts a proxy for a server address, or for the path of a Unix socket. It ends
// with the test.
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

// Addr returns the address for clients: 127.0.0.1 and a port.
func (p *FaultProxy) Addr() string { return loopback(p.port) }

// Counts returns the counters.
func (p *FaultProxy) Counts() ProxyCounts {
	c := &p.count
	return ProxyCounts{c.connections.Load(), c.requests.Load(), c.replies.Load(), c.sent.Load(), c.received.Load()}
}

// Open returns the number of open connections.
func (p *FaultProxy) Open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

// SetLatency delays every future reply by d, so that a round trip takes d longer. It
// does not limit the bandwidth: replies that are sent together arrive together.
func (p *FaultProxy) SetLatency(d time.Duration) { p.latency.Store(int64(d)) }

// Cut closes all connections and refuses new ones until Restore.
func (p *FaultProxy) Cut() {
	defer p.lockForClose()()
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
	for l := range p.links {
		l.close()
	}
}

// Reset closes the open connections with a TCP reset. New connections work.
func (p *FaultProxy) Reset() {
	defer p.lockForClose()()
	for l := range p.links {
		_ = l.client.SetLinger(0)
		l.close()
	}
}

// Freeze stops forwarding on the open connections forever, in both directions, without
// closing them. New connections work.
func (p *FaultProxy) Freeze() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.frozen.Store(true)
	}
}

// lockForClose locks the proxy for closing sockets, and returns the unlock function. A
// child process that is being started has copies of the sockets until its exec, and
// they stay open that long.
func (p *FaultProxy) lockForClose() (unlock func()) {
	p.mu.Lock()
	syscall.ForkLock.RLock()
	return func() {
		syscall.ForkLock.RUnlock()
		p.mu.Unlock()
	}
}

// DropReplies drops the next n replies together with their connections. The server
// executes the request completely, and the client reads the end of the connection. All
// other requests in flight on that connection lose their replies too.
func (p *FaultProxy) DropReplies(n int) { p.DropRepliesTo(n, "") }

// DropRepliesTo is like DropReplies, but affects only requests that contain a text,
// such as EVALSHA, and not the requests that set up a connection. A request is not
// detected if the text is split between two chunks.
func (p *FaultProxy) DropRepliesTo(n int, text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropsLeft, p.dropMatch = n, []byte(text)
}

// Blackhole turns a black hole on or off. While it is on, the proxy accepts connections
// and forwards nothing in either direction. The bytes in flight are delivered when it
// is turned off, as after a network partition.
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

// Restore ends every fault: connections are accepted and bytes are forwarded without
// delay or loss.
func (p *FaultProxy) Restore() {
	p.SetLatency(0)
	p.DropReplies(0)
	p.Blackhole(false)
	if err := p.listen(); err != nil {
		p.t.Errorf("proxy: %v", err)
	}
}

// listen starts to accept connections unless it does already.
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

// open starts to serve a connection, unless the proxy was cut since it was accepted.
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

// pass waits while forwarding is blocked. It reports whether the link is still open.
func (p *FaultProxy) pass(l *link) bool {
	for {
		p.mu.Lock()
		blocked := p.blocked
		p.mu.Unlock()
		if l.frozen.Load() {
			<-l.ended
			return false
		}
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

// dropsReply reports whether the reply to this request must be dropped, and counts
// it.
func (p *FaultProxy) dropsReply(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dropsLeft == 0 || !bytes.Contains(request, p.dropMatch) {
		return false
	}
	p.dropsLeft--
	return true
}
