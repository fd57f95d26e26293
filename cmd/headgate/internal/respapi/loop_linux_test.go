package respapi

import (
	"bytes"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// newTestLoop returns a loop with one connection whose events the test handles. The
// other end of the connection reads only when the test does.
func newTestLoop(t *testing.T) (l *loop, c *loopConn, client net.Conn) {
	t.Helper()
	s := NewServer(New(mustEngine(t, newFrozen(t), nil), nil), nil)
	l, err := s.newLoop()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	_ = unix.SetsockoptInt(pair[0], unix.SOL_SOCKET, unix.SO_SNDBUF, 1<<20)
	file := os.NewFile(uintptr(pair[1]), "client")
	client, err = net.FileConn(file)
	if err != nil {
		t.Fatal(err)
	}
	_ = file.Close()
	c = &loopConn{fd: pair[0], s: s.handler.newSession("", ""), handle: s.handler.clients.open.Add(0, nil), stateSince: l.now}
	l.register(c)
	t.Cleanup(func() {
		_ = client.Close()
		l.drop(c)
		l.close()
	})
	return l, c, client
}

// TestRepliesOfOneEventAreBounded: a reply can be a hundred times as long as its
// request. The loop serves other connections after maxReplyBatch bytes of replies.
func TestRepliesOfOneEventAreBounded(t *testing.T) {
	t.Parallel()
	const asked = 300
	l, c, client := newTestLoop(t)
	want := strings.Repeat(New(mustEngine(t, newFrozen(t), nil), nil).newClient(t).do("COMMAND"), asked)
	if _, err := io.WriteString(client, strings.Repeat("COMMAND\r\n", asked)); err != nil {
		t.Fatal(err)
	}
	got, buf := new(bytes.Buffer), make([]byte, 1<<20)
	for turns := 0; got.Len() < len(want); turns++ {
		if turns > asked {
			t.Fatalf("%d of %d bytes came in %d turns", got.Len(), len(want), turns)
		}
		l.handleEvents(c, c.interest)
		n, err := client.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if most := maxReplyBatch + len(want)/asked; n > most {
			t.Fatalf("a turn wrote %d bytes, want at most %d", n, most)
		}
		got.Write(buf[:n])
	}
	if got.String() != want {
		t.Error("the replies are not those to the requests")
	}
	if l.handleEvents(c, c.interest); c.interest&unix.EPOLLIN == 0 || c.in != nil || c.out != nil {
		t.Errorf("when all is answered, %d bytes to run and %d to send are kept; want it to wait for more", len(c.in), len(c.out))
	}
}

// TestDrainServesBufferedRequests: requests that were read before the shutdown are
// served, even if they need more than one event.
func TestDrainServesBufferedRequests(t *testing.T) {
	t.Parallel()
	const asked = 300
	l, c, client := newTestLoop(t)
	want := strings.Repeat(New(mustEngine(t, newFrozen(t), nil), nil).newClient(t).do("COMMAND"), asked)
	if _, err := io.WriteString(client, strings.Repeat("COMMAND\r\n", asked)); err != nil {
		t.Fatal(err)
	}
	l.handleEvents(c, c.interest)
	l.drain(c)
	got, err := make(chan string), make(chan error)
	go func() {
		text, failed := io.ReadAll(client)
		got <- string(text)
		err <- failed
	}()
	for !c.lingering {
		for _, e := range l.events[:l.wait()] {
			l.handleEvents(c, e.Events)
		}
	}
	if text, failed := <-got, <-err; text != want || failed != nil {
		t.Errorf("got %d bytes, %v; want %d", len(text), failed, len(want))
	}
	if c.interest&unix.EPOLLOUT != 0 {
		t.Error("an ending connection wakes the loop for nothing")
	}
}

func TestNoLoops(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		s := serve(t, transports[0], nil, Options{}, &ServerOptions{NoLoops: off})
		conn := s.dial()
		s.write(conn, "PING\r\n")
		s.expect(conn, "+PONG\r\n")
		s.mu.Lock()
		loops, goroutines := len(s.loops), len(s.streams)
		s.mu.Unlock()
		if off != (loops == 0) || off != (goroutines == 1) {
			t.Errorf("NoLoops %v: %d loops, %d goroutines for one connection", off, loops, goroutines)
		}
	}
}
