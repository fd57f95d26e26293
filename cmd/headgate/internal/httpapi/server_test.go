package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
)

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := net.Dial("tcp", s.addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

const longRequest = "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 28\r\n\r\n{\"policy\":\"login\","

// begin sends a request without its end, and knows that the server has read the
// beginning.
func (s *served) begin() net.Conn {
	s.t.Helper()
	conn := s.dial()
	first := strings.Replace(longRequest, "\r\n\r\n", "\r\nExpect: 100-continue\r\n\r\n", 1)
	head, body, _ := strings.Cut(first, "\r\n\r\n")
	mustWrite(s.t, conn, head+"\r\n\r\n")
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil || !strings.Contains(line, "100 Continue") {
		s.t.Fatalf("%q, %v, want 100 Continue", line, err)
	}
	mustWrite(s.t, conn, body)
	return conn
}

func mustWrite(t *testing.T, w io.Writer, text string) {
	t.Helper()
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
}

// response reads what is left on conn; the interim answer's blank line may still be
// there.
func response(t *testing.T, conn net.Conn) *http.Response {
	t.Helper()
	r := bufio.NewReader(conn)
	if b, err := r.Peek(2); err == nil && string(b) == "\r\n" {
		_, _ = r.Discard(2)
	}
	resp, err := http.ReadResponse(r, nil)
	if err != nil {
		t.Fatalf("no response: %v", err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

func TestShutdownServesRequestsInFlight(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	conn := s.begin()
	done := make(chan error, 1)
	go func() { done <- s.server.Shutdown(t.Context()) }()
	for refused := false; !refused; { // until the listener is closed
		other, err := net.Dial("tcp", s.addr)
		if refused = err != nil; !refused {
			other.Close()
		}
	}
	select {
	case err := <-done:
		t.Fatalf("Shutdown did not wait for the request in flight: %v", err)
	default:
	}
	mustWrite(t, conn, `"key":"k"}`)
	resp := response(t, conn)
	if resp.StatusCode != 200 || !resp.Close {
		t.Errorf("the request in flight: status %d, close %v, want 200, true", resp.StatusCode, resp.Close)
	}
	if err := <-done; err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}

func TestDrainClosesConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	conn := s.begin()
	s.server.Drain()
	mustWrite(t, conn, `"key":"k"}`)
	if resp := response(t, conn); resp.StatusCode != 200 || !resp.Close {
		t.Errorf("a request that was in flight: status %d, close %v, want 200, true", resp.StatusCode, resp.Close)
	}
}

func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, &httpapi.ServerOptions{ReadTimeout: time.Hour})
	conn := s.begin()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.server.Shutdown(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Shutdown: %v, want canceled", err)
	}
	if n := mustBeClosed(t, conn); n > 2 { // the interim answer's blank line
		t.Errorf("%d bytes came on a connection that was cut", n)
	}
}

// A body whose Content-Length is too large is refused before it is sent.
func TestLongBodyRefusedUnread(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, nil)
	conn := s.dial()
	mustWrite(t, conn, "POST /v1/check HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 65537\r\n\r\n")
	if resp := response(t, conn); resp.StatusCode != 413 {
		t.Errorf("status %d, want 413 and no invitation to send", resp.StatusCode)
	}
}

// mustBeClosed reads conn to its end, which must come soon, and counts the bytes.
func mustBeClosed(t *testing.T, conn net.Conn) int64 {
	t.Helper()
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	n, err := io.Copy(io.Discard, conn)
	if timeout := net.Error(nil); errors.As(err, &timeout) && timeout.Timeout() {
		t.Error("the connection is still open")
	}
	return n
}

// A client that sends slowly, or too much, is disconnected.
func TestServerLimits(t *testing.T) {
	t.Parallel()
	const soon, late = 30 * time.Millisecond, time.Hour
	for _, tt := range []struct {
		name   string
		opts   httpapi.ServerOptions
		sends  string
		status int // 0: the connection is closed without an answer
	}{
		{"a header that does not end", httpapi.ServerOptions{HeaderTimeout: soon, ReadTimeout: late}, "POST /v1/check HTTP/1.1\r\nHo", 0},
		{"a body that does not come", httpapi.ServerOptions{ReadTimeout: soon}, longRequest, 408},
		{"a body that does not come, as long as an answer may take", httpapi.ServerOptions{ReadTimeout: soon, WriteTimeout: soon}, longRequest, 408},
		{"no second request", httpapi.ServerOptions{IdleTimeout: soon, ReadTimeout: late, HeaderTimeout: late}, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", 200},
		{"a header of 100 kB", httpapi.ServerOptions{}, "GET /livez HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 100_000) + "\r\n\r\n", 431},
		{"a header of 30 kB", httpapi.ServerOptions{MaxHeaderBytes: 40_000}, "GET /livez HTTP/1.1\r\nHost: h\r\nConnection: close\r\nX: " + strings.Repeat("x", 30_000) + "\r\n\r\n", 200},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, &tt.opts)
			conn := s.dial()
			go func() { _, _ = io.WriteString(conn, tt.sends) }()
			if tt.status > 0 {
				if resp := response(t, conn); resp.StatusCode != tt.status {
					t.Errorf("status %d, want %d", resp.StatusCode, tt.status)
				}
			}
			mustBeClosed(t, conn)
		})
	}
}
