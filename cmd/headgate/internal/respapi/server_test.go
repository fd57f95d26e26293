package respapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

func textLog(w io.Writer) *slog.Logger { return slog.New(slog.NewTextHandler(w, nil)) }

// transport is a kind of connection to a server.
type transport struct {
	name      string
	networked bool
	listen    func(t *testing.T) net.Listener
	dial      func(ln net.Listener) (net.Conn, error)
}

func listenTCP(t *testing.T) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ln
}

func dialPlain(ln net.Listener) (net.Conn, error) {
	return net.Dial(ln.Addr().Network(), ln.Addr().String())
}

var transports = []transport{
	{"loop", false, listenTCP, dialPlain},
	{"goroutines", true, listenTCP, dialPlain},
	{"unix", false, func(t *testing.T) net.Listener {
		ln, err := ListenUnix(filepath.Join(t.TempDir(), "s"), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		return ln
	}, dialPlain},
	{"tls", false, func(t *testing.T) net.Listener {
		return tls.NewListener(listenTCP(t), &tls.Config{Certificates: []tls.Certificate{testserver.NewAuthority(t).Pair(2, "localhost")}})
	}, func(ln net.Listener) (net.Conn, error) {
		return tls.Dial("tcp", ln.Addr().String(), &tls.Config{InsecureSkipVerify: true})
	}},
}

// served is a server under test.
type served struct {
	*Server
	t         *testing.T
	ln        net.Listener
	transport transport
	log       *testserver.Log
}

// serve starts a server that stops at the end of the test. store may be nil.
func serve(t *testing.T, d transport, store headgate.Store, opts Options, bounds *ServerOptions) *served {
	t.Helper()
	if store == nil {
		store = newFrozen(t)
	}
	s := &served{t: t, ln: d.listen(t), transport: d, log: new(testserver.Log)}
	opts.Networked, opts.Log = d.networked, textLog(s.log)
	s.Server = NewServer(New(mustEngine(t, store, policies), &opts), bounds)
	done := make(chan error, 1)
	go func() { done <- s.Serve(s.ln) }()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if err := s.Shutdown(ctx); err != nil && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Shutdown: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("Serve: %v", err)
		}
		if n := s.handler.clients.open.Open(); n != 0 {
			t.Errorf("%d clients are counted when all are gone", n)
		}
	})
	return s
}

func (s *served) dial() net.Conn {
	s.t.Helper()
	conn, err := s.transport.dial(s.ln)
	if err != nil {
		s.t.Fatal(err)
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	s.t.Cleanup(func() { conn.Close() })
	return conn
}

func (s *served) write(conn net.Conn, text string) {
	s.t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		s.t.Fatal(err)
	}
}

// expect reads exactly want.
func (s *served) expect(conn net.Conn, want string) {
	s.t.Helper()
	got := make([]byte, len(want))
	n, err := io.ReadFull(conn, got)
	if err != nil || string(got) != want {
		s.t.Fatalf("got %.300q, %v; want %.300q", got[:n], err, want)
	}
}

// expectEnd reads to the end of the connection, which must be EOF and not a reset.
func (s *served) expectEnd(conn net.Conn, want string) {
	s.t.Helper()
	got, err := io.ReadAll(conn)
	if err != nil || string(got) != want {
		s.t.Fatalf("got %.300q, %v; want %.300q and the end", got, err, want)
	}
}

func forEachTransport(t *testing.T, test func(t *testing.T, d transport)) {
	for _, d := range transports {
		t.Run(d.name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// TestSameRepliesOnEveryTransport: the bytes of the replies do not depend on the
// transport.
func TestSameRepliesOnEveryTransport(t *testing.T) {
	t.Parallel()
	want := New(mustEngine(t, newFrozen(t), policies), nil).replies(t, session1)
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		conn := s.dial()
		s.write(conn, session1+request("QUIT"))
		s.expectEnd(conn, want+"+OK\r\n")
	})
}

func TestServedByteByByte(t *testing.T) {
	t.Parallel()
	want := New(mustEngine(t, newFrozen(t), policies), nil).replies(t, session1)
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		conn := s.dial()
		for i := range len(session1) {
			s.write(conn, session1[i:i+1])
		}
		s.expect(conn, want)
	})
}

// TestProtocolErrorClosesOrderly: a client that violates the protocol gets one error
// line and EOF. A reset could discard the line.
func TestProtocolErrorClosesOrderly(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{}, nil)
		for _, tt := range []struct{ input, want string }{
			{"*1\r\n:1\r\n", "-ERR Protocol error: expected '$', got ':'\r\n"},
			{"*1025\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
			{"*-1000000000000\r\n", "-ERR Protocol error: invalid multibulk length\r\n"},
			{"*1\r\n$16385\r\n", "-ERR Protocol error: invalid bulk length\r\n"},
			{"*2\r\n$16000\r\n" + strings.Repeat("x", 16000) + "\r\n$1000\r\n", "-ERR Protocol error: too big request\r\n"},
			{strings.Repeat("x", 16<<10), "-ERR Protocol error: too big inline request\r\n"},
			{request("PING") + "*1\r\n$4\r\nPINGPING\r\n", "+PONG\r\n-ERR Protocol error: expected CRLF after a bulk string\r\n"},
		} {
			conn := s.dial()
			go func() { _, _ = io.WriteString(conn, tt.input+strings.Repeat("junk", 10_000)) }()
			s.expectEnd(conn, tt.want)
		}
	})
}

func TestUnauthenticatedBounds(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[0], nil, Options{Password: "p"}, nil)
	conn := s.dial()
	s.write(conn, "*11\r\n")
	s.expectEnd(conn, "-ERR Protocol error: invalid multibulk length\r\n")
	conn = s.dial()
	s.write(conn, "*1\r\n$5000\r\n")
	s.expectEnd(conn, "-ERR Protocol error: too big request\r\n")
	conn = s.dial()
	s.write(conn, request("AUTH", "p")+request("ECHO", strings.Repeat("x", 5000)))
	s.expect(conn, "+OK\r\n$5000\r\n"+strings.Repeat("x", 5000)+"\r\n")
}

// At the maximum, an idle client makes room for a new one. If all have sent a part of a
// request, the new one gets an error.
func TestTooManyClients(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		for !exceedsClients(t, d) {
		}
	})
}

// exceedsClients connects too many clients to a new server and checks which of them it
// serves. It returns false if this took so long that an unfinished request was not
// protected anymore.
func exceedsClients(t *testing.T, d transport) bool {
	t.Helper()
	s := serve(t, d, nil, Options{MaxClients: 2}, nil)
	ping := func() net.Conn {
		conn := s.dial()
		s.write(conn, request("PING"))
		s.expect(conn, "+PONG\r\n")
		s.awaitBusy(0) // the client may get the reply before the connection is idle
		return conn
	}
	first, second, third := ping(), ping(), ping()
	s.expectEnd(first, "") // it was idle for the longest time
	began := time.Now()
	for _, conn := range []net.Conn{second, third} {
		s.write(conn, "*1\r\n")
	}
	s.awaitBusy(2) // until the server has read both
	conn, err := d.dial(s.ln)
	if err == nil {
		defer conn.Close()
	}
	clients := &s.handler.clients
	for clients.refused.Load() == 0 && clients.open.Closed() == 1 { // until the server has accepted it
		runtime.Gosched()
	}
	if clients.open.Closed() > 1 && time.Since(began) >= time.Second {
		return false
	}
	if n := clients.refused.Load(); n != 1 {
		t.Fatalf("%d clients were refused, want 1", n)
	}
	if err == nil {
		got, _ := io.ReadAll(conn)
		if d.name != "tls" && string(got) != errTooManyClients {
			t.Errorf("the fourth client got %q", got)
		}
	}
	for _, conn := range []net.Conn{second, third} {
		s.write(conn, "$4\r\nPING\r\n")
		s.expect(conn, "+PONG\r\n")
	}
	return true
}

// awaitBusy waits until n clients have not sent a request yet or have one in flight.
func (s *served) awaitBusy(n int64) {
	for s.handler.clients.open.Busy() != n {
		runtime.Gosched()
	}
}

func TestClosedConnectionsAreNotCounted(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		s := serve(t, d, nil, Options{MaxClients: 1}, nil)
		for range 5 {
			conn := s.dial()
			s.write(conn, request("PING")+request("QUIT"))
			s.expectEnd(conn, "+PONG\r\n+OK\r\n")
			conn.Close()
			for s.handler.clients.open.Open() > 0 {
				runtime.Gosched()
			}
		}
	})
}

// moment is enough for a handshake, or the rest of a request, on a busy machine.
const moment = 2 * time.Second

// deadline is the maximum time for a step that a busy machine may delay.
const deadline = 30 * time.Second

func TestTimeouts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		bounds ServerOptions
		input  string
		want   string
	}{
		{"idle from the start", ServerOptions{IdleTimeout: moment, RequestTimeout: time.Hour}, "", ""},
		{"idle behind a request", ServerOptions{IdleTimeout: moment, RequestTimeout: time.Hour}, request("PING"), "+PONG\r\n"},
		{"in a request", ServerOptions{IdleTimeout: time.Hour, RequestTimeout: moment}, request("PING") + "*1\r\n$4\r\nPI", "+PONG\r\n"},
		{"in an inline request", ServerOptions{IdleTimeout: time.Hour, RequestTimeout: moment}, "PI", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			onAllTransports(t, &tt.bounds, func(s *served, conn net.Conn) {
				s.write(conn, tt.input)
			}, func(s *served, conn net.Conn) {
				s.expectEnd(conn, tt.want)
			})
		})
	}
}

// onAllTransports runs the steps on a connection of every transport. All connections
// finish a step before the next one, so that they wait concurrently.
func onAllTransports(t *testing.T, bounds *ServerOptions, steps ...func(s *served, conn net.Conn)) {
	servers, conns := make([]*served, len(transports)), make([]net.Conn, len(transports))
	for i, d := range transports {
		servers[i] = serve(t, d, nil, Options{}, bounds)
		conns[i] = servers[i].dial()
	}
	for n, step := range steps {
		for i, s := range servers {
			t.Run(fmt.Sprintf("%d %s", n, s.transport.name), func(t *testing.T) {
				s.t = t
				step(s, conns[i])
			})
		}
	}
}

// TestRequestTimeoutIsForWholeRequest: sending single bytes does not extend the timeout.
func TestRequestTimeoutIsForWholeRequest(t *testing.T) {
	t.Parallel()
	onAllTransports(t, &ServerOptions{RequestTimeout: moment}, func(_ *served, conn net.Conn) {
		go func() {
			for {
				if _, err := io.WriteString(conn, "x"); err != nil {
					return
				}
				time.Sleep(2 * time.Millisecond)
			}
		}()
	}, func(_ *served, conn net.Conn) {
		_ = conn.SetReadDeadline(time.Now().Add(deadline))
		if _, err := io.ReadAll(conn); isTimeout(err) {
			t.Errorf("the connection was kept for %v, want about %v", deadline, moment)
		}
	})
}

func TestUnixSocketPermissions(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "socket")
	for range 2 { // the second time in the place of one that was left behind
		ln, err := ListenUnix(path, 0)
		if err != nil {
			t.Fatal(err)
		}
		if info := mustStat(t, path); info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v, want 0600", info.Mode())
		}
		if _, err := ListenUnix(path, 0); err == nil {
			t.Error("a socket that is in use was taken over")
		}
		ln.(*unixListener).UnixListener.Close() // as if the process had been killed
		for conn, err := net.Dial("unix", path); err == nil; conn, err = net.Dial("unix", path) {
			conn.Close() // a program that another test is just starting still holds it
		}
	}
	ln, err := ListenUnix(path, 0o666)
	if err != nil {
		t.Fatal(err)
	}
	if info := mustStat(t, path); info.Mode().Perm() != 0o666 {
		t.Errorf("mode %v, want 0666", info.Mode())
	}
	if err := ln.Close(); err != nil {
		t.Error(err)
	}
	if _, err := net.Dial("unix", path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestUnixSocketAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[2], nil, Options{}, nil)
	conn := s.dial()
	s.write(conn, request("CLIENT", "INFO"))
	s.expect(conn, "$108\r\nid=1 addr=unix laddr=unix name=")
}

func mustStat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestSeveralLoops(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[0], nil, Options{}, &ServerOptions{Loops: 3})
	var conns []net.Conn
	for range 10 {
		conns = append(conns, s.dial())
	}
	for i := range 200 {
		s.write(conns[i%10], request("CL.THROTTLE", "k", "999", "1", "1"))
		s.expect(conns[i%10], numbersReply(0, 1000, 999-int64(i), -1, 1+int64(i)))
	}
}

// unlucky is a listener whose Accept first fails for lack of file descriptors, then
// fails for good.
type unlucky struct {
	net.Listener
	failures []error
}

func (u *unlucky) Accept() (net.Conn, error) {
	if len(u.failures) == 0 {
		return u.Listener.Accept()
	}
	err := u.failures[0]
	u.failures = u.failures[1:]
	return nil, err
}

func TestAcceptErrors(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	full := &net.OpError{Op: "accept", Err: os.NewSyscallError("accept4", syscall.EMFILE)}
	log := new(testserver.Log)
	s := NewServer(New(mustEngine(t, newFrozen(t), nil), &Options{Log: textLog(log)}), nil)
	if err := s.Serve(&unlucky{listenTCP(t), []error{full, full, broken}}); !errors.Is(err, broken) {
		t.Errorf("Serve: %v, want %v", err, broken)
	}
	if got := strings.Count(log.String(), "too many open files"); got != 1 {
		t.Errorf("the log has %d lines about too many open files, want 1: %s", got, log)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Errorf("Shutdown: %v", err)
	}
}
