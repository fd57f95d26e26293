package respapi

import (
	"context"
	"io"
	"net"
	"time"
)

const (
	readSize          = 16 << 10 // maximum bytes of one read
	initialBufferSize = 4 << 10  // bytes of the initial buffer

	lingerTimeout      = time.Second            // for the client to read the last reply and close
	memoryReleaseDelay = time.Second / 2        // after a request, before buffers are released
	drainTimeout       = 100 * time.Millisecond // for requests in transit during shutdown
)

// stream is a connection that is served by its own goroutine.
type stream struct {
	server        *Server
	conn          net.Conn
	w             *worker
	s             *session
	buf           []byte // its length is its capacity
	buffered      int    // bytes in buf
	bufferFull    bool   // the last read filled buf
	lastRequest   time.Time
	drainDeadline time.Time // during shutdown: when reading stops
	writeFailed   bool      // replies can no longer be sent
}

// serveStream serves a connection until it is closed.
func (s *Server) serveStream(conn net.Conn) {
	c := &stream{server: s, conn: conn, s: s.handler.newSessionFor(conn), lastRequest: time.Now()}
	c.resetBuffers()
	defer s.connectionClosed()
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

// handshake performs the TLS handshake. It has the timeout of a request, because a
// connection in a handshake uses more memory than an idle one. It reports success.
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

// readAndServe reads once and serves the buffered requests. It reports whether to
// continue.
func (c *stream) readAndServe() bool {
	if !c.setDeadline() {
		return false
	}
	before := c.buffered
	n, err := c.conn.Read(c.buf[before:])
	c.buffered += n
	c.bufferFull = c.buffered == len(c.buf)
	if n > 0 {
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

// holdsMemory reports whether the connection uses much more memory than a new one.
func (c *stream) holdsMemory() bool {
	return len(c.buf) > initialBufferSize || cap(c.w.out) > initialBufferSize || len(c.w.idle) > 8
}

// releaseMemory frees the buffers of a connection that was busy. It returns false if
// there is nothing to free or a request is incomplete.
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

// setDeadline sets the deadline of the next read. It returns false if no more is read.
func (c *stream) setDeadline() bool {
	if c.server.isStopping() {
		now := time.Now()
		if c.drainDeadline.IsZero() {
			c.drainDeadline = now.Add(drainTimeout)
		}
		until := c.drainDeadline
		if c.bufferFull || c.buffered > 0 {
			until = until.Add(drainTimeout) // the rest has arrived or is in transit
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
	if c.server.isStopping() { // startShutdown may have set a deadline just before
		_ = c.conn.SetReadDeadline(time.Now())
	}
	return true
}

// serveBuffered runs the buffered requests and sends the replies.
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

// keepUnread moves the unused input to the front of the buffer and makes room for more.
func (c *stream) keepUnread(from int) {
	c.buffered = copy(c.buf, c.buf[from:c.buffered])
	if most := c.server.handler.bounds.request + readSize; c.buffered == len(c.buf) && len(c.buf) < most {
		c.buf = append(c.buf, make([]byte, min(len(c.buf), most-len(c.buf)))...)
	}
}

// send writes the replies to the connection.
func (c *stream) send() {
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.opts.WriteTimeout))
	_, err := c.conn.Write(c.w.out)
	if c.w.out = c.w.out[:0]; cap(c.w.out) > 2*maxReplyBatch {
		c.w.out = nil
	}
	c.writeFailed = err != nil
}

// close closes the connection. After a failed write it skips the close_notify of TLS,
// which would block.
func (c *stream) close() {
	conn := c.conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok && c.writeFailed {
		conn = secure.NetConn()
	}
	_ = conn.Close() // all replies were sent
}

// finish closes the connection so that the last reply arrives: closing a socket with
// unread input can discard data that was sent.
func (c *stream) finish() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lingerTimeout))
	_, _ = io.Copy(io.Discard, c.conn)
}
