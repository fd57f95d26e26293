package httpapi_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/memstore"
)

// Requests that were sent before the shutdown are served, on connections in use and on
// connections that were not accepted yet, although the server cannot have read all of
// them.
func TestShutdownServesSentRequests(t *testing.T) {
	t.Parallel()
	for range 5 {
		t.Run("", stopAmidRequests)
	}
}

func stopAmidRequests(t *testing.T) {
	t.Parallel()
	const request = "POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 31\r\n\r\n" + `{"limit":"1000000/s","key":"k"}`
	e, err := engine.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	server := httpapi.NewServer(httpapi.New(e, nil), nil)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	var conns []net.Conn
	for range 200 {
		conn, err := net.Dial("tcp", ln.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		conns = append(conns, conn)
		// A connection that is open for 5 s without a request is closed, and a busy
		// machine may need 5 s to open all connections.
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
	}
	stopped := make(chan error, 1)
	go func() { stopped <- server.Shutdown(context.Background()) }()
	for i, conn := range conns {
		_ = conn.SetReadDeadline(time.Now().Add(10 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Fatalf("request %d of 200, sent before the stop: got %v want an answer", i, err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("request %d: got %d want 200", i, resp.StatusCode)
		}
	}
	if err := <-stopped; err != nil {
		t.Errorf("Shutdown: got %v want nil", err)
	}
	if err := <-ended; err != nil {
		t.Errorf("Serve: got %v want nil", err)
	}
}

// The memory of unfinished requests is bounded for all connections together, and a
// client with complete requests is served at any time.
func TestMemoryOfUnfinishedRequests(t *testing.T) {
	t.Parallel()
	const most = 4 << 20
	fields := "POST /v1/check HTTP/1.1\r\nHost: h\r\n"
	for n := range 2000 {
		fields += strconv.FormatInt(int64(n), 36) + ":\r\n"
	}
	for name, part := range map[string]string{
		"header": fields,
		"body":   "POST /v1/check HTTP/1.1\r\nHost: h\r\nContent-Length: 64000\r\n\r\n{" + strings.Repeat(" ", 60_000),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, nil, &httpapi.ServerOptions{MaxMemoryBytes: most, HeaderTimeout: time.Hour, ReadTimeout: time.Hour})
			good := s.dial()
			for range 100 {
				_, _ = io.WriteString(s.dial(), part) // fails if the server closes the connection
				mustWrite(t, good, "GET /livez HTTP/1.1\r\nHost: h\r\n\r\n")
				resp := response(t, good)
				if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.StatusCode != http.StatusOK {
					t.Fatalf("a complete request: status %d, %v", resp.StatusCode, err)
				}
				if n, _ := httpapi.Memory(s.server); n > most+1<<20 { // with the change that is being made
					t.Fatalf("the connections hold %d bytes, want at most %d", n, most)
				}
			}
			if _, closed := httpapi.Memory(s.server); closed == 0 {
				t.Error("no connection was closed")
			}
		})
	}
}

// At the maximum, an idle connection is closed for a new one. If all have requests in
// flight, the new one is closed.
func TestMaxConnections(t *testing.T) {
	t.Parallel()
	s := serve(t, nil, &httpapi.ServerOptions{MaxConnections: 3, ReadTimeout: time.Hour})
	var waiting, asking []net.Conn
	for range 5 {
		waiting = append(waiting, s.stays("GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\n"))
	}
	for range 3 {
		asking = append(asking, s.stays("POST /v1/check HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\nContent-Length: 30\r\n\r\n", "HTTP/1.1 100 Continue\r\n"))
	}
	for _, conn := range waiting {
		mustBeClosed(t, conn)
	}
	mustBeClosed(t, s.dial())
	mustWrite(t, asking[0], `{"limit":"100/s","key":"keys"}`)
	if resp := response(t, asking[0]); resp.StatusCode != http.StatusOK {
		t.Errorf("a connection with a request in flight: status %d, want 200", resp.StatusCode)
	}
	// The connection that got its response is idle now, and makes room.
	s.stays("GET /livez HTTP/1.1\r\nHost: h\r\n\r\n", "HTTP/1.1 200 OK\r\n")
}

// stays returns a connection that got this response. It retries as long as no connection
// is idle: one that just got its response soon is.
func (s *served) stays(request, answer string) net.Conn {
	s.t.Helper()
	for range 1000 {
		conn := s.dial()
		_, _ = io.WriteString(conn, request)
		if line, err := bufio.NewReader(conn).ReadString('\n'); err == nil && line == answer {
			return conn
		}
		time.Sleep(10 * time.Millisecond)
	}
	s.t.Fatalf("no connection was answered %q", answer)
	return nil
}
