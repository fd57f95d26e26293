package testserver_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// client is a connection for commands of one line.
type client struct {
	net.Conn
	r *bufio.Reader
}

func dial(t *testing.T, p *testserver.FaultProxy) client {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(10 * time.Second))
	return client{conn, bufio.NewReader(conn)}
}

// send sends a command and returns the first line of the reply without its line end.
func (c client) send(command string) (string, error) {
	if _, err := c.Write([]byte(command + "\r\n")); err != nil {
		return "", err
	}
	line, err := c.r.ReadString('\n')
	return line[:max(0, len(line)-2)], err
}

func (c client) expect(t *testing.T, command, want string) {
	t.Helper()
	if got, err := c.send(command); err != nil || got != want {
		t.Errorf("%s: got %q, error %v want %q", command, got, err, want)
	}
}

func TestProxyForwardsAndCountsBytes(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	for name, target := range map[string]string{"tcp": s.Addr(), "unix": s.Socket()} {
		p := testserver.Proxy(t, target)
		c := dial(t, p)
		c.expect(t, "PING", "+PONG")
		c.expect(t, "ECHO hello", "$5")
		want := testserver.ProxyCounts{Connections: 1, Requests: 2, Replies: 2, Sent: 18, Received: 18}
		if got := p.Counts(); got != want {
			t.Errorf("%s: counts: got %+v want %+v", name, got, want)
		}
		if p.Open() != 1 {
			t.Errorf("%s: open connections: got %d want 1", name, p.Open())
		}
		c.Close()
		for p.Open() != 0 {
			time.Sleep(time.Millisecond)
		}
	}
}

// A half-closed connection still receives its replies.
func TestProxyForwardsHalfClose(t *testing.T) {
	t.Parallel()
	p := testserver.Proxy(t, testserver.Redis(t).Addr())
	c := dial(t, p)
	p.SetLatency(20 * time.Millisecond)
	c.Write([]byte("PING\r\nPING\r\n"))
	c.Conn.(*net.TCPConn).CloseWrite()
	if got, err := io.ReadAll(c); err != nil || string(got) != "+PONG\r\n+PONG\r\n" {
		t.Errorf("replies: got %q, error %v want two", got, err)
	}
}

func TestProxyDelaysReplies(t *testing.T) {
	t.Parallel()
	p := testserver.Proxy(t, testserver.Redis(t).Addr())
	c := dial(t, p)
	const latency, many = 300 * time.Millisecond, 8
	took := func() time.Duration {
		begun := time.Now()
		for range many { // one after another, so that the server sends several replies
			c.Write([]byte("PING\r\n"))
			time.Sleep(2 * time.Millisecond)
		}
		for range many {
			if _, err := c.r.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
		}
		return time.Since(begun)
	}
	within := func(most time.Duration) (best time.Duration) { // several attempts: machines may be busy
		best = took()
		for range 4 {
			if best > most {
				best = min(best, took())
			}
		}
		return best
	}
	p.SetLatency(latency)
	if got := within(many / 2 * latency); got < latency || got > many/2*latency {
		t.Errorf("%d requests together: took %v want about %v", many, got, latency)
	}
	p.Restore()
	if got := within(latency); got >= latency {
		t.Errorf("%d requests after Restore: took %v want next to nothing", many, got)
	}
}

func TestProxyCutsUntilItIsRestored(t *testing.T) {
	t.Parallel()
	p := testserver.Proxy(t, testserver.Redis(t).Addr())
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	p.Cut()
	p.Cut()
	if _, err := c.send("PING"); err == nil {
		t.Error("PING on a cut connection: got no error want one")
	}
	if _, err := net.Dial("tcp", p.Addr()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial while cut: got %v want it refused", err)
	}
	p.Restore()
	p.Restore()
	dial(t, p).expect(t, "PING", "+PONG")
}

func TestProxyResets(t *testing.T) {
	t.Parallel()
	p := testserver.Proxy(t, testserver.Redis(t).Addr())
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	p.Reset()
	if _, err := c.r.ReadByte(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read after a reset: got %v want connection reset", err)
	}
	dial(t, p).expect(t, "PING", "+PONG")
}

func TestProxyDropsReplies(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := testserver.Proxy(t, s.Addr())
	lost := func(c client, command string) {
		t.Helper()
		if got, err := c.send(command); err != io.EOF {
			t.Errorf("%s: got %q, error %v want the end", command, got, err)
		}
	}
	bystander := dial(t, p)
	p.DropReplies(2)
	lost(dial(t, p), "INCR k")
	lost(dial(t, p), "INCR k")
	dial(t, p).expect(t, "INCR k", ":3")

	p.DropRepliesTo(1, "INCR")
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	lost(c, "INCR k")
	bystander.expect(t, "GET k", "$1")
	if got := s.Do(t, "GET", "k").Int(); got != 4 {
		t.Errorf("k: got %d want 4: each request was done once", got)
	}

	p.DropReplies(1)
	p.Restore()
	dial(t, p).expect(t, "INCR k", ":5")
}

// The proxy closes the connection of a dropped reply only after the server has executed
// the command.
func TestRepliesAreDroppedAfterExecution(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := testserver.Proxy(t, s.Addr())
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	p.DropRepliesTo(1, "SET")
	s.Stop()
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := c.send("SET k v"); !isTimeout(err) {
		t.Errorf("SET on a paused server: got %q, error %v want none in time", got, err)
	}
	s.Continue()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := c.r.ReadByte(); err != io.EOF {
		t.Errorf("the dropped reply: got error %v want the end", err)
	}
	if got := s.Do(t, "GET", "k").String(); got != "v" {
		t.Errorf("k: got %q want v", got)
	}
}

func TestProxyBlocksBytes(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := testserver.Proxy(t, s.Addr())
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	p.Blackhole(true)
	p.Blackhole(true)
	fresh := dial(t, p) // the system accepts it
	for _, held := range []client{c, fresh} {
		held.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
		if got, err := held.send("INCR k"); !isTimeout(err) {
			t.Errorf("INCR into a black hole: got %q, error %v want none in time", got, err)
		}
		held.SetReadDeadline(time.Now().Add(10 * time.Second))
	}
	if got := s.Do(t, "GET", "k").String(); got != "(nil)" {
		t.Errorf("k while nothing passes: got %q want nothing", got)
	}
	p.Restore()
	for _, held := range []client{c, fresh} {
		if _, err := held.r.ReadString('\n'); err != nil {
			t.Errorf("the late reply: got %v want no error", err)
		}
	}
	if got := s.Do(t, "GET", "k").Int(); got != 2 {
		t.Errorf("k after the late requests: got %d want 2", got)
	}
	p.Blackhole(true) // a test may end in this state
	dial(t, p).Write([]byte("PING\r\n"))
}

func isTimeout(err error) bool {
	var e net.Error
	return errors.As(err, &e) && e.Timeout()
}

func TestProxyOfStoppedServerClosesConnections(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t)
	p := testserver.Proxy(t, s.Addr())
	c := dial(t, p)
	c.expect(t, "PING", "+PONG")
	s.Kill()
	if _, err := c.r.ReadByte(); err == nil || isTimeout(err) {
		t.Errorf("read when the server died: got %v want the end or a reset", err)
	}
	if _, err := dial(t, p).send("PING"); err == nil || isTimeout(err) {
		t.Errorf("PING of a dead server: got %v want the end or a reset", err)
	}
	s.Start()
	dial(t, p).expect(t, "PING", "+PONG")
}

// Freeze makes the open connections silent, and new ones work.
func TestProxyFreezesOpenConnections(t *testing.T) {
	t.Parallel()
	p := testserver.Proxy(t, testserver.Redis(t).Addr())
	old := dial(t, p)
	if got, err := old.send("PING"); got != "+PONG" {
		t.Fatalf("before: got %q, %v want +PONG", got, err)
	}
	p.Freeze()
	old.SetDeadline(time.Now().Add(50 * time.Millisecond))
	if got, err := old.send("PING"); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a frozen connection: got %q, %v want a timeout", got, err)
	}
	if got, err := dial(t, p).send("PING"); got != "+PONG" {
		t.Errorf("a new connection: got %q, %v want +PONG", got, err)
	}
}
