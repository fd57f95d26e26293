package respapi

import (
	"context"
	"io"
	"net"
	"time"
)

const (
	readSize  = 16 << 10 // bytes that are read of a connection at a time
	firstSize = 4 << 10  // bytes of a connection's first buffer, where it has one of its own

	lingerTime = time.Second            // what a client has to take the last reply in
	restTime   = time.Second / 2        // behind a request: when a connection is at rest
	drainTime  = 100 * time.Millisecond // what requests on their way have to arrive in when a server stops
)

// stream is a connection that a goroutine serves.
type stream struct {
	server *Server
	conn   net.Conn
	w      *worker
	s      *session
	buf    []byte // its length is what there is room for
	have   int    // bytes in buf
	more   bool   // the last read filled it
	begun  time.Time
	until  time.Time // once the server stops: when no other request is read
	gone   bool      // the client takes nothing more
}

// serveStream serves a connection until it ends.
func (s *Server) serveStream(conn net.Conn) {
	c := &stream{server: s, conn: conn, s: s.handler.openFor(conn), begun: time.Now()}
	c.lighten()
	defer s.part()
	defer func() {
		s.mu.Lock()
		delete(s.streams, conn)
		s.mu.Unlock()
		c.close()
	}()
	c.gone = !c.shake()
	for !c.gone && c.turn() {
	}
	if !c.gone {
		c.finish()
	}
}

// shake is the handshake of TLS. It may take as long as a request: what is kept of a half of one is more than of a connection at rest.
func (c *stream) shake() bool {
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

// turn reads once and answers what is there. It reports whether to go on.
func (c *stream) turn() bool {
	if !c.setDeadline() {
		return false
	}
	before := c.have
	n, err := c.conn.Read(c.buf[before:])
	c.have += n
	c.more = c.have == len(c.buf)
	if n > 0 {
		c.answer()
		if before == 0 || c.have < before+n {
			c.begun = time.Now()
		}
	}
	if c.gone || c.s.closing {
		return false
	}
	return err == nil || timedOut(err) && (c.server.isStopping() || c.rest())
}

// heavy reports whether the connection holds much more memory than when it was new.
func (c *stream) heavy() bool {
	return len(c.buf) > firstSize || cap(c.w.out) > firstSize || len(c.w.idle) > 8
}

// rest lets go of the memory that a busy connection takes. It reports whether there was any, and no request has begun.
func (c *stream) rest() bool {
	if c.have > 0 || !c.heavy() {
		return false
	}
	c.lighten()
	return true
}

func (c *stream) lighten() {
	c.w, c.buf = &worker{h: c.server.handler, ctx: c.server.ctx}, make([]byte, firstSize)
}

// setDeadline says until when to wait for input. It reports whether there is to be more.
func (c *stream) setDeadline() bool {
	if c.server.isStopping() {
		now := time.Now()
		if c.until.IsZero() {
			c.until = now.Add(drainTime)
		}
		until := c.until
		if c.more || c.have > 0 {
			until = until.Add(drainTime) // the rest has arrived, or is about to
		}
		_ = c.conn.SetReadDeadline(until)
		return now.Before(until)
	}
	wait := c.server.opts.IdleTimeout
	switch {
	case c.have > 0:
		wait = c.server.opts.RequestTimeout
	case c.heavy():
		wait = min(wait, restTime)
	}
	_ = c.conn.SetReadDeadline(c.begun.Add(wait))
	if c.server.isStopping() { // its own deadline may just have been overwritten
		_ = c.conn.SetReadDeadline(time.Now())
	}
	return true
}

// answer runs what is in the buffer and sends the replies.
func (c *stream) answer() {
	from := 0
	for used := -1; used != 0 && from < c.have && !c.gone && !c.s.closing; {
		used = c.w.serve(c.s, c.buf[from:c.have])
		from += used
		if len(c.w.out) > 0 {
			c.send()
		}
	}
	c.keep(from)
}

// keep moves what is left of the input to the front, and makes room behind it.
func (c *stream) keep(from int) {
	c.have = copy(c.buf, c.buf[from:c.have])
	if most := c.server.handler.known.request + readSize; c.have == len(c.buf) && len(c.buf) < most {
		c.buf = append(c.buf, make([]byte, min(len(c.buf), most-len(c.buf)))...)
	}
}

// send writes the replies.
func (c *stream) send() {
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.server.opts.WriteTimeout))
	_, err := c.conn.Write(c.w.out)
	if c.w.out = c.w.out[:0]; cap(c.w.out) > 2*enough {
		c.w.out = nil
	}
	c.gone = err != nil
}

// close closes the connection. One of TLS that is gone takes no farewell, either, and would be waited for.
func (c *stream) close() {
	conn := c.conn
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok && c.gone {
		conn = secure.NetConn()
	}
	_ = conn.Close() // all that mattered was sent
}

// finish ends the connection in a way that lets the last reply arrive: whoever is closed with input unread may lose what was sent.
func (c *stream) finish() {
	half, ok := c.conn.(interface{ CloseWrite() error })
	if !ok || half.CloseWrite() != nil {
		return
	}
	_ = c.conn.SetReadDeadline(time.Now().Add(lingerTime))
	_, _ = io.Copy(io.Discard, c.conn)
}
