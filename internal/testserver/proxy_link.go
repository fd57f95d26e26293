package testserver

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is one client connection through a proxy.
type link struct {
	proxy  *FaultProxy
	client *net.TCPConn
	lost   atomic.Bool // replies are dropped from now on
	frozen atomic.Bool // nothing is forwarded from now on

	mu      sync.Mutex
	server  net.Conn      // nil until dialled
	closed  bool          // ended is closed
	ended   chan struct{} // closed with the link
	replies chan reply    // in flight to the client
}

// reply is a chunk of the server's replies, and when to deliver it.
type reply struct {
	due  time.Time
	data []byte
}

// chunkSize is the size of a read in bytes: many pipelined requests or replies.
const chunkSize = 64 << 10

// close closes both connections. It may be called again.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.closed = true
	close(l.ended)
	_ = l.client.Close()
	if l.server != nil {
		_ = l.server.Close()
	}
}

func (l *link) isClosed() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// serve dials the server and forwards bytes until both sides have ended.
func (l *link) serve() {
	defer func() {
		l.close()
		l.proxy.mu.Lock()
		delete(l.proxy.links, l)
		l.proxy.mu.Unlock()
	}()
	if !l.proxy.pass(l) || !l.dial() {
		return
	}
	var both sync.WaitGroup
	both.Go(l.readReplies)
	both.Go(l.writeReplies)
	l.passRequests()
	both.Wait()
}

// dial connects to the server. It returns false if that fails or the client has
// disconnected.
func (l *link) dial() bool {
	server, err := net.DialTimeout(l.proxy.network, l.proxy.target, maxWait)
	if err != nil {
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

// passRequests forwards requests until the client ends, and then closes the server
// connection for writing. Replies may follow.
func (l *link) passRequests() {
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.client.Read(buffer)
		if n > 0 {
			l.proxy.count.requests.Add(1)
			l.proxy.count.sent.Add(int64(n))
			if !l.passRequest(buffer[:n]) {
				return
			}
		}
		if err != nil {
			l.endRequests()
			return
		}
	}
}

// passRequest forwards data and reports whether more may follow. Nothing follows a
// request whose reply is dropped: the server reads the end of the stream after it, and
// has executed everything when it closes the connection.
func (l *link) passRequest(data []byte) bool {
	if !l.proxy.pass(l) {
		return false
	}
	lost := l.proxy.dropsReply(data)
	if lost {
		l.lost.Store(true)
	}
	if _, err := l.server.Write(data); err != nil {
		l.close()
		return false
	}
	if lost {
		l.endRequests()
	}
	return !lost
}

// endRequests closes the server connection for writing.
func (l *link) endRequests() {
	if half, ok := l.server.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		return
	}
	l.close()
}

// readReplies reads replies from the server until it ends.
func (l *link) readReplies() {
	defer close(l.replies)
	buffer := make([]byte, chunkSize)
	for {
		n, err := l.server.Read(buffer)
		if n > 0 {
			l.proxy.count.replies.Add(1)
			l.proxy.count.received.Add(int64(n))
			if !l.lost.Load() {
				due := time.Now().Add(time.Duration(l.proxy.latency.Load()))
				l.send(reply{due, append([]byte(nil), buffer[:n]...)})
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) send(r reply) {
	select {
	case l.replies <- r:
	case <-l.ended:
	}
}

// writeReplies delivers each reply when it is due, and closes the link after the last
// one.
func (l *link) writeReplies() {
	defer l.close()
	for r := range l.replies {
		if !l.sleep(time.Until(r.due)) || !l.proxy.pass(l) {
			return
		}
		if _, err := l.client.Write(r.data); err != nil {
			return
		}
	}
}

// sleep blocks for d and reports whether the link is still open.
func (l *link) sleep(d time.Duration) bool {
	if d <= 0 {
		return !l.isClosed()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-l.ended:
		return false
	}
}
