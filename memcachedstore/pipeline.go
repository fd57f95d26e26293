package memcachedstore

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// maxConnIdle is the maximum time for which a connection may be idle and still be
// reused. Servers that close idle connections wait longer than this.
const maxConnIdle = 10 * time.Second

// writePipeline sends writes to one server in batches. gomemcache uses one connection
// per request, so it gets a pseudo connection for each request: see [pipelinedConn].
type writePipeline struct {
	batcher[writeRequest]
	dial    func(context.Context) (net.Conn, error)
	timeout time.Duration

	connMu sync.Mutex
	idle   []*pipelineConn
	epoch  int // incremented when a connection has broken; older connections are not reused
}

type pipelineConn struct {
	net.Conn
	replies *bufio.Reader
	used    time.Time
	epoch   int
}

// writeRequest is the text of a cas or an add, and the reply line or the error.
type writeRequest struct {
	text  []byte
	reply []byte
	err   error
}

// do sends a write in a batch with other writes and returns its reply.
func (w *writePipeline) do(text []byte) (reply []byte, err error) {
	own := &batchItem[writeRequest]{request: writeRequest{text: text}}
	batch := w.join(own)
	if batch != nil {
		w.send(batch)
		w.finish(batch)
	}
	return own.request.reply, own.request.err
}

// send sends a batch once. If an error occurs, every request that has no reply yet
// fails with this error.
func (w *writePipeline) send(batch []*batchItem[writeRequest]) {
	conn, err := w.conn()
	answered := 0
	if err == nil {
		answered, err = conn.exchange(batch, w.timeout)
		w.putConn(conn, err)
	}
	for _, m := range batch[answered:] {
		m.request.err = err
	}
}

// exchange sends a batch and reads the replies. It returns the number of requests that
// were answered, and the error because of which the remaining requests have no reply.
func (c *pipelineConn) exchange(batch []*batchItem[writeRequest], timeout time.Duration) (answered int, err error) {
	texts := batch[0].request.text
	if len(batch) > 1 {
		texts = nil
		for _, m := range batch {
			texts = append(texts, m.request.text...)
		}
	}
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return 0, err
	}
	// After a partial write, the server may have executed some of the requests. The
	// error must differ from the error of a write of which nothing was sent.
	if n, err := c.Write(texts); n > 0 && err != nil {
		return 0, fmt.Errorf("%w: %v", io.ErrUnexpectedEOF, err)
	} else if err != nil {
		return 0, err
	}
	for i, m := range batch {
		line, err := c.replies.ReadSlice('\n')
		if err != nil {
			return i, err
		}
		m.request.reply = bytes.Clone(line)
		if !keepsFraming(line) && i+1 < len(batch) {
			return i + 1, io.ErrUnexpectedEOF
		}
	}
	return len(batch), nil
}

// keepsFraming reports whether the line after this reply is the reply to the next
// request. This is so if the server has parsed the request, or has skipped the value
// that it rejected.
func keepsFraming(line []byte) bool {
	for _, known := range []string{"STORED\r\n", "EXISTS\r\n", "NOT_FOUND\r\n", "NOT_STORED\r\n", "SERVER_ERROR "} {
		if bytes.HasPrefix(line, []byte(known)) {
			return true
		}
	}
	return false
}

// conn returns an idle connection, or opens a new one.
func (w *writePipeline) conn() (*pipelineConn, error) {
	w.connMu.Lock()
	epoch := w.epoch
	for n := len(w.idle); n > 0; n = len(w.idle) {
		last := w.idle[n-1]
		w.idle = w.idle[:n-1]
		if time.Since(last.used) < maxConnIdle {
			w.connMu.Unlock()
			return last, nil
		}
		_ = last.Close()
	}
	w.connMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), w.timeout)
	defer cancel()
	conn, err := w.dial(ctx)
	if err != nil {
		return nil, err
	}
	return &pipelineConn{Conn: conn, replies: bufio.NewReader(conn), epoch: epoch}, nil
}

// putConn makes a connection idle after use. It closes the connection instead if err is
// not nil, if the connection has unread data, or if closeIdle was called since the
// connection was opened.
func (w *writePipeline) putConn(c *pipelineConn, err error) {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	if err != nil || c.epoch != w.epoch || c.replies.Buffered() > 0 {
		_ = c.Close()
		return
	}
	c.used = time.Now()
	w.idle = append(w.idle, c)
}

// closeIdle closes idle connections. Connections in use are closed after use.
func (w *writePipeline) closeIdle() {
	w.connMu.Lock()
	defer w.connMu.Unlock()
	for _, c := range w.idle {
		_ = c.Close()
	}
	w.idle = nil
	w.epoch++
}

// pipelinedConn is a pseudo connection for gomemcache. Each request is one call of
// Write, which returns when the reply has arrived. Read then returns the reply.
type pipelinedConn struct {
	pipeline *writePipeline
	reply    []byte
}

func (s *pipelinedConn) Write(b []byte) (int, error) {
	var err error
	if s.reply, err = s.pipeline.do(b); err != nil {
		return 0, err
	}
	return len(b), nil
}

func (s *pipelinedConn) Read(b []byte) (int, error) {
	if len(s.reply) == 0 {
		return 0, io.EOF
	}
	n := copy(b, s.reply)
	s.reply = s.reply[n:]
	return n, nil
}

func (s *pipelinedConn) Close() error                     { return nil }
func (s *pipelinedConn) LocalAddr() net.Addr              { return nil }
func (s *pipelinedConn) RemoteAddr() net.Addr             { return nil }
func (s *pipelinedConn) SetDeadline(time.Time) error      { return nil }
func (s *pipelinedConn) SetReadDeadline(time.Time) error  { return nil }
func (s *pipelinedConn) SetWriteDeadline(time.Time) error { return nil }

// newWriter returns a client that sends its writes through pipelines, and one pipeline
// for each server. The pipelines open connections in the same way as client.
func newWriter(client *memcache.Client, list servers) (*memcache.Client, []*writePipeline) {
	all := make([]*writePipeline, len(list))
	byAddress := make(map[string]*writePipeline, len(list))
	for i, server := range list {
		all[i] = &writePipeline{timeout: client.Timeout, dial: func(ctx context.Context) (net.Conn, error) {
			if client.DialContext != nil {
				return client.DialContext(ctx, server.Network(), server.String())
			}
			return new(net.Dialer).DialContext(ctx, server.Network(), server.String())
		}}
		byAddress[server.String()] = all[i]
	}
	writer := memcache.NewFromSelector(list)
	writer.MaxIdleConns, writer.Timeout = client.MaxIdleConns, client.Timeout
	writer.DialContext = func(_ context.Context, _, address string) (net.Conn, error) {
		return &pipelinedConn{pipeline: byAddress[address]}, nil
	}
	return writer, all
}
