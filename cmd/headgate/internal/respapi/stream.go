package respapi

import (
	"context"
	"io"
	"net"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/bounded"
)

const (
	readSize          = 16 << 10 // maximum number of bytes in one read
	initialBufferSize = 4 << 10  // size of a new connection's buffer, in bytes

	jobBytes = 1 << 10 // estimated memory of a job that is kept for reuse

	lingerTimeout      = time.Second            // for the client to read the last reply and close the connection
	memoryReleaseDelay = time.Second / 2        // from the last request until buffers are released
	drainTimeout       = 100 * time.Millisecond // for receiving requests in transit during shutdown
)

// stream is a connection that its own goroutine serves.
type stream struct {
	server        *Server
	conn          net.Conn
	handle        *bounded.Conn
	held          int64 // memory of the buffers that the handle includes
	w             *worker
	s             *session
	buf           []byte // always used with its full capacity as length
	buffered      int    // number of bytes of input in buf
	bufferFull    bool   // whether the last read filled buf completely
	lastRequest   time.Time
	drainDeadline time.Time // time at which reading stops; set during shutdown
	served        bool      // whether the client has sent anything
	writeFailed   bool      // whether a write failed, so that no more replies can be sent
}

// serveStream serves a connection until the client or the server ends it, and closes
// it.
func (s *Server) serveStream(conn net.Conn, handle *bounded.Conn) {
	c := &stream{server: s, conn: conn, handle: handle, s: s.handler.newSessionFor(conn), lastRequest: time.Now()}
	c.resetBuffers()
	defer handle.End()
	defer func() {
		s.mu.Lock()
		delete(s.streams, conn)
		s.mu.Unlock()
		c.close()
	}()
	c.writeFailed = !c.handshake()
	for !c.writeFailed && c.readAndServe() {
	}
	if !c.writeFailed {
		c.finish()
	}
}

// handshake performs the TLS handshake, if the connection uses TLS. It reports success.
// It uses the timeout of a request, which is shorter than the idle timeout, because a
// connection in a handshake uses more memory than an idle connection.
func (c *stream) handshake() bool {
	secure, ok := c.conn.(interface {
		HandshakeContext(ctx context.Context) error
	})
	if !ok {
		return true
	}
	ctx, cancel := context.WithTimeout(c.server.ctx, c.server.opts.RequestTimeout)
	defer cancel()
	return secure.HandshakeContext(ctx) == nil
}

// readAndServe reads once and serves the buffered requests. It returns false if the
// connection is to be closed.
func (c *stream) readAndServe() bool {
	if !c.setDeadline() {
		return false
	}
	before := c.buffered
	if !c.report() {
		return false
	}
	n, err := c.conn.Read(c.buf[before:])
	c.handle.Busy()
	c.buffered += n
	c.bufferFull = c.buffered == len(c.buf)
	if n > 0 {
		c.served = true
		c.serveBuffered()
		if before == 0 || c.buffered < before+n {
			c.lastRequest = time.Now()
		}
	}
	if c.writeFailed || c.s.closing {
		return false
	}
	return err == nil || isTimeout(err) && (c.server.isStopping() || c.releaseMemory())
}

// report reports, before a read, the state of the connection and the memory of its
// buffers. It returns false if the connection is to be closed.
func (c *stream) report() bool {
	switch {
	case c.buffered > 0:
		c.handle.Waiting(c.lastRequest)
	case c.served:
		c.handle.Idle(c.lastRequest)
	}
	held := int64(cap(c.buf)+cap(c.w.out)-initialBufferSize) + int64(len(c.w.idle))*jobBytes + c.s.memory()
	n := held - c.held
	c.held = held
	return n == 0 || c.handle.Grow(n)
}

// holdsMemory reports whether the connection uses much more memory than a new
// connection.
func (c *stream) holdsMemory() bool {
	return len(c.buf) > initialBufferSize || cap(c.w.out) > initialBufferSize || len(c.w.idle) > 8
}

// releaseMemory frees the buffers of a connection that was busy. It returns false if
// there is nothing to free or if a request is incomplete.
func (c *stream) releaseMemory() bool {
	if c.buffered > 0 || !c.holdsMemory() {
		return false
	}
	c.resetBuffers()
	return true
}

func (c *stream) resetBuffers() {
	c.w, c.buf = &worker{h: c.server.handler, ctx: c.server.ctx}, make([]byte, initialBufferSize)
}

// setDeadline sets the deadline for the next read. It returns false if nothing more is
// to be read.
func (c *stream) setDeadline() bool {
	if c.server.isStopping() {
		now := time.Now()
		if c.drainDeadline.IsZero() {
			c.drainDeadline = now.Add(drainTimeout)
		}
		until := c.drainDeadline
		if c.bufferFull || c.buffered > 0 {
			until = until.Add(drainTimeout) // the rest of a request has arrived or is in transit
		}
		_ = c.conn.SetReadDeadline(until)
		return now.Before(until)
	}
	wait := c.server.opts.IdleTimeout
	switch {
	case c.buffered > 0:
		wait = c.server.opts.RequestTimeout
	case c.holdsMemory():
		wait = min(wait, memoryReleaseDelay)
	}
	_ = c.conn.SetReadDeadline(c.lastRequest.Add(wait))
	if c.server.isStopping() { // startShutdown may have set a deadline before the previous line
		_ = c.conn.SetReadDeadline(time.Now())
	}
	return true
}

// serveBuffered runs the buffered requests and sends their replies.
func (c *stream) serveBuffered() {
	from := 0
	for used := -1; used != 0 && from < c.buffered && !c.writeFailed && !c.s.closing; {
		used = c.w.serve(c.s, c.buf[from:c.buffered])
		from += used
		if len(c.w.out) > 0 {
			c.send()
		}
	}
	c.keepUnread(from)
}

// keepUnread moves the input from the index from on to the front of the buffer, and
// enlarges a full buffer.
func (c *stream) keepUnread(from int) {
	c.buffered = copy(c.buf, c.buf[from:c.buffered])
	if most := c.server.handler.bounds.request + readSize; c.buffered == len(c.buf) && len(c.buf) < most {
		c.buf = append(c.buf, make([]byte, min(len(c.buf), most-len(c.buf)))...)
	}
}

// send writes the replies to the connection, and sets writeFailed if this fails.
func (c *stream) send() {
	now := time.Now()
	c.handle.Waiting(now) // for the client to read
	_ = c.conn.SetWriteDeadline(now.Add(c.server.opts.WriteTimeout))
	_, err := c.conn.Write(c.w.out)
	c.handle.Busy()
	if c.w.out = c.w.out[:0]; cap(c.w.out) > 2*maxReplyBatch {
		c.w.out = nil
	}
	c.writeFailed = err != nil
}

// close closes the connection. After a failed write, it does not send the close_notify
// of TLS, because that would block.
func (c *stream) close() {
	conn := c.conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok && c.writeFailed {
		conn = secure.NetConn()
	}
	_ = conn.Close() // the error is irrelevant: all replies were sent
}

// finish shuts down writing and waits until the client closes the connection, at most
// lingerTimeout. Reason: closing a socket with unread input can discard replies that
// the client has not received.
func (c *stream) finish() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.conn)
}
