package bounded

import (
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"
)

// The memory that HTTP uses, in bytes. The estimates are measured with
// bench/cmd/connections.
const (
	httpConnBytes   = 14 << 10  // an idle connection: a goroutine and its buffers
	httpsConnBytes  = 40 << 10  // the same with TLS
	http2ConnBytes  = 160 << 10 // additional memory of a connection with HTTP/2
	headerFactor    = 24        // memory for each byte of a header that is not complete yet
	requestBytes    = 6 << 10   // a request without its header fields and body
	fieldBytes      = 192       // a header field
	bodyFactor      = 3         // memory for each byte of a body, which is read and decoded
	http2FrameBytes = 16 << 10  // maximum size of a frame
	http2Window     = 64 << 10  // maximum size of unread bodies on one connection
	http2Streams    = 100       // maximum number of concurrent requests on one connection
)

// HTTP limits the connections of an HTTP server and their memory to those of a set.
type HTTP struct {
	Connections *Connections
	Full        http.Handler // handles a request for which there is no memory; the connection is closed afterwards
	Log         *slog.Logger // logger for errors of Accept; nil means no log
}

// Apply changes a server before it is used, so that it reports the state and the memory
// of its connections. The server must serve a listener that [HTTP.Listener] returned.
func (h *HTTP) Apply(server *http.Server) {
	handler := server.Handler
	server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.serve(handler, w, r) })
	server.ConnState = connState
	server.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		return context.WithValue(ctx, connKey{}, httpConnOf(conn))
	}
	server.HTTP2 = &http.HTTP2Config{
		MaxConcurrentStreams: http2Streams, MaxReadFrameSize: http2FrameBytes,
		MaxReceiveBufferPerConnection: http2Window, MaxReceiveBufferPerStream: http2Window,
		WriteByteTimeout: server.WriteTimeout,
	}
}

// Listener returns a listener whose connections are in the set of h.
func (h *HTTP) Listener(ln net.Listener) net.Listener {
	return Wrap(ln, func(inner net.Listener) net.Listener {
		base := int64(httpConnBytes)
		if inner != ln {
			base = httpsConnBytes
		}
		return &httpListener{listener{Retry(inner, h.Log), h.Connections, base}}
	})
}

type httpListener struct{ listener }

// Accept returns the next connection for which there is room.
func (l *httpListener) Accept() (net.Conn, error) {
	conn, err := l.listener.Accept()
	if err != nil {
		return nil, err
	}
	return &httpConn{NetConn: conn.(*NetConn)}, nil
}

// httpConn is a connection of an HTTP server. Its state and memory are those of its
// requests.
type httpConn struct {
	*NetConn
	header   atomic.Int64 // memory of a header that is not complete yet
	handling atomic.Int64 // number of requests that the handler processes
	http2    atomic.Bool  // whether a request has used HTTP/2
	request  http.Request // the request, if the connection uses HTTP/1 and the request has a body
	body     httpBody     // body of this request
}

type connKey struct{}

// httpConnOf returns the connection below a connection of an HTTP server, or nil if the
// server serves another listener.
func httpConnOf(conn net.Conn) *httpConn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*httpConn)
	return c
}

// connState reports the state of a connection to its set. An HTTP server calls it after
// it has read a header, and after each response.
func connState(conn net.Conn, state http.ConnState) {
	c := httpConnOf(conn)
	switch {
	case c == nil:
	case state == http.StateActive:
		c.Handle.Busy()
	case state == http.StateIdle:
		c.Handle.Idle(time.Now())
	case state == http.StateClosed:
		c.Handle.End()
	}
}

// Read reads from the connection. Between two requests, the bytes belong to a header,
// whose memory is a multiple of its size. If there is no memory, Read closes the
// connection.
func (c *httpConn) Read(p []byte) (int, error) {
	n, err := c.NetConn.Read(p)
	if n == 0 || c.handling.Load() > 0 {
		return n, err
	}
	c.header.Add(headerFactor * int64(n))
	if !c.Handle.Grow(headerFactor * int64(n)) {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return n, err
}

// serve calls the handler for a request if there is memory for it.
func (h *HTTP) serve(handler http.Handler, w http.ResponseWriter, r *http.Request) {
	c, _ := r.Context().Value(connKey{}).(*httpConn)
	if c == nil {
		handler.ServeHTTP(w, r)
		return
	}
	c.handling.Add(1)
	defer c.handling.Add(-1)
	size := c.size(r)
	if !c.Handle.Grow(size - c.header.Swap(0)) {
		w.Header().Set("Connection", "close")
		handler = h.Full
	}
	if r.Body == http.NoBody {
		defer c.Handle.Grow(-size)
		handler.ServeHTTP(w, r)
		return
	}
	r, body := c.awaitBody(r)
	defer func() { c.Handle.Grow(-size - body.held) }()
	handler.ServeHTTP(w, r)
}

// size returns the memory that a request uses without its body.
func (c *httpConn) size(r *http.Request) int64 {
	if r.ProtoMajor == 2 && !c.http2.Swap(true) {
		c.Handle.Grow(http2ConnBytes) // until the connection ends
	}
	return requestBytes + fieldBytes*int64(len(r.Header))
}

// awaitBody reports that the server waits for the body of r until it has been read. It
// returns a copy of r for the handler, because the server checks the type of r.Body
// after the response.
func (c *httpConn) awaitBody(r *http.Request) (*http.Request, *httpBody) {
	request, body := &c.request, &c.body
	if r.ProtoMajor == 2 { // the connection may have other requests
		request, body = new(http.Request), new(httpBody)
	}
	*body = httpBody{r.Body, c, 0}
	*request = *r
	request.Body = body
	c.Handle.Waiting(time.Now())
	return request, body
}

// httpBody is the body of a request. After it has been read, the connection is busy.
type httpBody struct {
	io.ReadCloser
	conn *httpConn
	held int64 // memory of the part that has been read
}

// Read reads from the body. If there is no memory for what was read, it closes the
// connection.
func (b *httpBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.conn.Handle.Busy()
	}
	b.held += bodyFactor * int64(n)
	if n > 0 && !b.conn.Handle.Grow(bodyFactor*int64(n)) {
		_ = b.conn.Close()
		return 0, net.ErrClosed
	}
	return n, err
}
