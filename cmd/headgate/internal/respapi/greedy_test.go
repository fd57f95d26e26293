package respapi

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestSlowReaders: a client that sends but does not read is disconnected. Until then it
// uses bounded memory, and other clients are served.
func TestSlowReaders(t *testing.T) {
	forEachTransportInOrder(t, func(t *testing.T, d transport) {
		const slow = 20
		pipeline := []byte(strings.Repeat(request("ECHO", strings.Repeat("x", 8000)), 8))
		s := serve(t, d, nil, Options{}, &ServerOptions{WriteTimeout: 200 * time.Millisecond})
		polite := s.dial()
		before := heap()
		var stuck sync.WaitGroup
		for range slow {
			conn := s.dial()
			stuck.Go(func() {
				for err := error(nil); err == nil; {
					_, err = conn.Write(pipeline) // it waits in the end, until it is cut off
				}
			})
		}
		for range 30 {
			s.write(polite, request("PING"))
			s.expect(polite, "+PONG\r\n")
			time.Sleep(4 * time.Millisecond)
		}
		if grown := heap() - before; grown > slow*(128<<10)+(2<<20) {
			t.Errorf("%d clients that read nothing hold %d KiB", slow, grown>>10)
		}
		stuck.Wait()
		s.awaitClients(1) // the polite one
	})
}

// awaitClients waits until the server counts n clients.
func (s *served) awaitClients(want int64) {
	s.t.Helper()
	for deadline := time.Now().Add(deadline); s.handler.clients.open.Open() > want && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if n := s.handler.clients.open.Open(); n != want {
		s.t.Errorf("%d clients are left, want %d", n, want)
	}
}

func forEachTransportInOrder(t *testing.T, test func(t *testing.T, d transport)) {
	for _, d := range transports {
		t.Run(d.name, func(t *testing.T) { test(t, d) })
	}
}

func heap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestIncompleteRequests: a client with an incomplete request uses memory for its input
// only.
func TestIncompleteRequests(t *testing.T) {
	forEachTransportInOrder(t, func(t *testing.T, d transport) {
		const clients = 200
		s := serve(t, d, nil, Options{}, nil)
		before := heap()
		half := "*2\r\n$4\r\nECHO\r\n$16000\r\n" + strings.Repeat("x", 10_000)
		for range clients {
			s.write(s.dial(), half)
		}
		polite := s.dial()
		s.write(polite, request("PING"))
		s.expect(polite, "+PONG\r\n")
		if grown := heap() - before; grown > clients*(128<<10) {
			t.Errorf("%d halves of 10 KB hold %d KiB", clients, grown>>10)
		}
	})
}

// TestGreedyClientDoesNotStarveOthers: while one client sends at full speed, another is
// served.
func TestGreedyClientDoesNotStarveOthers(t *testing.T) {
	forEachTransportInOrder(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		greedy, polite := s.dial(), s.dial()
		var all sync.WaitGroup
		pipeline := strings.Repeat(request("CL.THROTTLE", "greedy", "15", "30", "60"), 2000)
		all.Go(func() { _, _ = io.Copy(io.Discard, greedy) })
		all.Go(func() {
			for {
				if _, err := io.WriteString(greedy, pipeline); err != nil {
					return
				}
			}
		})
		for i := range 100 {
			s.write(polite, request("CL.THROTTLE", fmt.Sprint(i), "15", "30", "60"))
			s.expect(polite, numbersReply(0, 16, 15, -1, 2))
		}
		greedy.Close()
		all.Wait()
	})
}

// TestRequestTimeoutBeginsWithFirstByte: however long the connection was idle before.
func TestRequestTimeoutBeginsWithFirstByte(t *testing.T) {
	t.Parallel()
	whole := request("ECHO", "hi")
	onAllTransports(t, &ServerOptions{RequestTimeout: moment}, func(s *served, conn net.Conn) {
		s.write(conn, request("PING"))
		s.expect(conn, "+PONG\r\n")
	}, func(*served, net.Conn) {
		time.Sleep(moment / 3) // four times: together longer than a request may take
	}, func(s *served, conn net.Conn) {
		s.write(conn, whole[:10])
		time.Sleep(10 * time.Millisecond) // for the server to read that alone
	}, func(s *served, conn net.Conn) {
		s.write(conn, whole[10:])
		s.expect(conn, "$2\r\nhi\r\n")
	})
}

// TestHandshakeTimeout: a TLS handshake has the timeout of a request, because an
// incomplete handshake uses memory like an incomplete request.
func TestHandshakeTimeout(t *testing.T) {
	t.Parallel()
	for _, sent := range []string{"", "\x16\x03\x01\x02\x00\x01"} {
		s := serve(t, transports[3], nil, Options{}, &ServerOptions{RequestTimeout: 50 * time.Millisecond})
		conn, err := dialPlain(s.ln)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(deadline))
		s.write(conn, sent)
		if _, err := io.ReadAll(conn); isTimeout(err) {
			t.Errorf("%q: the connection was kept for %v, want about 50ms", sent, deadline)
		}
	}
}

// TestIdleConnectionsReleaseMemory: an idle connection does not keep the buffers of
// busy times.
func TestIdleConnectionsReleaseMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits, and measures what the race detector multiplies")
	}
	const clients, most = 40, 16 << 10
	s := serve(t, transports[1], nil, Options{}, nil)
	var pipeline strings.Builder
	for i := range 600 {
		pipeline.WriteString(request("CL.THROTTLE", fmt.Sprint(i), "999999", "30", "86400"))
	}
	before := heap()
	for range clients {
		conn := s.dial()
		s.write(conn, pipeline.String()+request("PING"))
		for buf, tail := make([]byte, 64<<10), ""; !strings.HasSuffix(tail, "+PONG\r\n"); {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			tail = string(buf[max(0, n-7):n])
		}
	}
	grown := heap() - before
	for deadline := time.Now().Add(deadline); grown > clients*most && time.Now().Before(deadline); grown = heap() - before {
		time.Sleep(50 * time.Millisecond)
	}
	if grown > clients*most {
		t.Errorf("%d clients at rest hold %d KiB", clients, grown>>10)
	}
}
