package rlsapi

import (
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

// The memory that gRPC uses, in bytes. The estimates are measured with
// bench/cmd/connections.
const (
	connBytes    = 32 << 10 // a connection without requests
	tlsConnBytes = 64 << 10 // the same with TLS
	streamBytes  = 12 << 10 // a request without its header and message: mostly a goroutine
	headerFactor = 32       // memory for each byte of an encoded header
	decodeFactor = 3        // additional memory for each byte of a complete message, which is copied and decoded
	frameBytes   = 256      // a frame of a message, in addition to its buffer

	// headerListFactor is the memory for each byte of MaxHeaderBytes, which counts 32
	// bytes for each field in addition to its text. A longer header is not stored.
	headerListFactor = 5
)

// connection observes the frames of an HTTP/2 connection. It closes the connection if
// the client leaves a request or a frame unfinished for too long, or does not read a
// response. It reports to the set of connections whether the connection is idle, and the
// memory of its requests.
//
// Package grpc has no such limits: it waits without end for the rest of a message, and
// its limits on messages and streams apply to each stream and each connection.
type connection struct {
	net.Conn
	handle *bounded.Conn
	raw    net.Conn // the connection below TLS
	limits *connLimits

	mu        sync.Mutex
	in, out   frames
	streams   map[uint32]*stream
	free      []*stream // streams for reuse
	current   *stream   // stream of the current frame from the client
	sending   *stream   // stream of the current frame to the client
	waiting   int       // number of streams that wait for the client
	quiet     int       // number of streams that have had a response and wait for nothing
	memory    int64     // memory of all streams
	reported  int64     // memory that the set knows
	since     time.Time // start of the current period in which the connection waits for the client
	partial   time.Time // start of the incomplete frame, if there is one
	lastRead  time.Time // last time at which bytes arrived from the client
	blocked   bool      // whether Read waits for memory, so that nothing is expected from the client
	writing   time.Time // start of the current write, or zero
	exactAt   time.Time // time at which since was last calculated from all streams
	timer     *time.Timer
	checkAt   time.Time // time at which timer runs check, or zero
	closed    bool
	requested bool // whether the client has sent a request
}

// connLimits are the limits of a connection.
type connLimits struct {
	read, write time.Duration // maximum times for which the connection waits for its client
	header      int64         // maximum memory of the header of a request, in bytes
}

// watchedCredentials adds a connection to the result of each handshake.
type watchedCredentials struct {
	credentials.TransportCredentials
	limits *connLimits
}

// watch returns credentials whose connections keep to limits. nil credentials mean
// plain text.
func watch(creds credentials.TransportCredentials, l *connLimits) credentials.TransportCredentials {
	if creds == nil {
		creds = insecure.NewCredentials()
	}
	return watchedCredentials{creds, l}
}

// ServerHandshake performs the handshake.
func (w watchedCredentials) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := w.TransportCredentials.ServerHandshake(raw)
	if err != nil {
		return nil, nil, err
	}
	handle := raw.(*bounded.NetConn)
	return newConnection(conn, handle, w.limits), authInfo{info, handle.Handle}, nil
}

// Clone returns a copy of the credentials.
func (w watchedCredentials) Clone() credentials.TransportCredentials {
	return watchedCredentials{w.TransportCredentials.Clone(), w.limits}
}

func newConnection(conn net.Conn, raw *bounded.NetConn, l *connLimits) *connection {
	c := &connection{Conn: conn, handle: raw.Handle, raw: raw, limits: l, streams: make(map[uint32]*stream)}
	c.in.preface = prefaceLength
	c.timer = time.AfterFunc(time.Hour, c.check)
	c.timer.Stop()
	return c
}

// Read reads from the connection and observes the frames. While there is no memory for
// what was read, it waits: the client is slowed down, and requests in progress end. A
// client of a proxy can therefore not make the proxy's connection end with long
// requests.
func (c *connection) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 && !c.observe(&c.in, p[:n], c.received) && !c.awaitRoom() {
		_ = c.raw.Close() // makes the next call fail, too
		return 0, net.ErrClosed
	}
	return n, err
}

// awaitRoom waits for memory. Meanwhile the connection does not count as one that waits
// for its client: the client cannot complete its requests, because they are not read.
func (c *connection) awaitRoom() bool {
	begin := time.Now()
	c.mu.Lock()
	c.blocked = true
	c.report(begin)
	c.mu.Unlock()
	ok := c.handle.AwaitRoom(c.isProcessing)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.blocked = false
	now := time.Now()
	c.postpone(now.Sub(begin))
	c.report(now)
	return ok
}

// isProcessing reports whether the server processes a request of the connection.
func (c *connection) isProcessing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.streams) > c.waiting+c.quiet
}

// postpone moves the starts of incomplete frames and messages by d.
func (c *connection) postpone(d time.Duration) {
	if !c.partial.IsZero() {
		c.partial = c.partial.Add(d)
	}
	for _, s := range c.streams {
		if s.reading() {
			s.readSince = s.readSince.Add(d)
		}
	}
	c.since = time.Time{}
}

// Write observes the frames and writes to the connection.
func (c *connection) Write(p []byte) (int, error) {
	c.observe(&c.out, p, c.responded) // a response does not need more memory
	n, err := c.Conn.Write(p)
	c.mu.Lock()
	c.writing = time.Time{}
	c.mu.Unlock()
	return n, err
}

// Close closes the connection.
func (c *connection) Close() error {
	c.mu.Lock()
	c.closed = true
	c.timer.Stop()
	c.mu.Unlock()
	return c.Conn.Close()
}

// observe finds the frames in p, calls handle for each part of a frame, and reports the
// state of the connection. It returns false if there is no memory.
func (c *connection) observe(f *frames, p []byte, handle func(now time.Time, message []byte, begins, ends bool)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for len(p) > 0 {
		rest, message, begins, ends := f.next(p)
		if begins || ends || len(message) > 0 {
			handle(now, message, begins, ends)
		}
		p = rest
	}
	if f == &c.out {
		c.writing = now
	} else {
		c.lastRead = now
		c.markPartial(now)
	}
	return c.report(now)
}

// markPartial records the time since which a frame of the client is incomplete. A frame
// that began after an earlier one was completed has a new time.
func (c *connection) markPartial(now time.Time) {
	switch {
	case !c.in.partial():
		c.partial = time.Time{}
	case c.partial.IsZero():
		c.partial = now
	}
}

// received handles a part of a frame from the client.
func (c *connection) received(now time.Time, message []byte, begins, ends bool) {
	if begins {
		c.beginFrame(now)
	}
	s := c.current
	if s != nil && len(message) > 0 {
		before := s.received
		if s.received.add(message); s.received.complete > before.complete {
			s.readSince = now
			if n := s.received.bytes - before.bytes; n <= shortBytes { // serveRequest reserves memory for others
				c.holdData(s, decodeFactor*n)
			}
			c.endMessage(s)
		}
	}
	if ends {
		if !c.in.block {
			c.partial = time.Time{}
		}
		c.endFrame()
	} else if s != nil {
		c.update(s)
	}
}

// beginFrame finds or creates the stream of a frame from the client.
func (c *connection) beginFrame(now time.Time) {
	switch c.in.kind {
	case frameContinuation:
		if c.current = c.streams[c.in.id]; c.current != nil {
			c.holdHeader(c.current)
		}
	case frameHeaders:
		if c.current = c.streams[c.in.id]; c.current == nil {
			c.current = c.newStream(now)
			c.streams[c.in.id] = c.current
			c.requested = true
			c.hold(c.current, streamBytes)
		}
		c.holdHeader(c.current)
	case frameData:
		if c.current = c.streams[c.in.id]; c.current != nil {
			c.holdData(c.current, frameBytes+bufferBytes(c.in.left))
		}
	default:
		c.current = nil
	}
}

// endFrame handles the end of a frame from the client.
func (c *connection) endFrame() {
	s := c.current
	switch {
	case c.in.kind == frameReset:
		if s := c.streams[c.in.id]; s != nil {
			c.remove(c.in.id, s)
		}
	case s != nil:
		s.ended = s.ended || c.in.ends()
		c.update(s)
	}
	c.current = nil
}

// responded handles a part of a frame to the client.
func (c *connection) responded(now time.Time, message []byte, begins, ends bool) {
	if begins {
		if c.sending = c.streams[c.out.id]; c.sending != nil && !c.sending.responding && c.out.kind <= frameHeaders {
			c.sending.responding, c.sending.writeSince = true, now
		}
	}
	s := c.sending
	if s == nil {
		return
	}
	if len(message) > 0 {
		before := s.sent.complete
		if s.sent.add(message); s.sent.complete > before {
			s.writeSince = now
		}
	}
	if ends && c.out.ends() {
		c.remove(c.out.id, s)
		c.sending = nil
		return
	}
	c.update(s)
}

// report reports the state and the memory of the connection to its set. It returns
// false if there is no memory.
func (c *connection) report(now time.Time) bool {
	switch {
	case c.blocked:
		c.handle.Busy()
	case c.waiting > 0 || !c.partial.IsZero():
		c.handle.Waiting(c.slowSince(now))
		c.arm(now.Add(min(c.limits.read, c.limits.write)))
	case len(c.streams) > c.quiet:
		c.since = time.Time{}
		c.handle.Busy()
	default:
		c.since = time.Time{}
		if c.requested {
			c.handle.Idle(now)
		}
	}
	if !c.writing.IsZero() {
		c.arm(now.Add(c.limits.write))
	}
	n := c.memory - c.reported
	c.reported = c.memory
	return n == 0 || c.handle.Hold(n)
}
