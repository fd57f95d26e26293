package testserver

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MemcachedServer is a memcached server on a port of the loopback interface, or on a
// Unix socket. It loses its data when it is killed. All methods may be called
// concurrently.
type MemcachedServer struct {
	t       testing.TB
	process *process
	network string
	addr    string
}

// Memcached starts a server with additional arguments such as "-m", "1" and waits until
// it replies. It ends with the test.
func Memcached(t testing.TB, args ...string) *MemcachedServer {
	t.Helper()
	port := freePort(t)
	s := &MemcachedServer{t: t, process: newProcess(t, "memcached", "memcached"), network: "tcp", addr: loopback(port)}
	return s.run(t, []string{"-l", "127.0.0.1", "-p", strconv.Itoa(port), "-U", "0"}, args)
}

// MemcachedUnix is like [Memcached], but the server listens on a Unix socket instead of
// a port.
func MemcachedUnix(t testing.TB, args ...string) *MemcachedServer {
	t.Helper()
	s := &MemcachedServer{t: t, process: newProcess(t, "memcached", "memcached"), network: "unix"}
	s.addr = s.process.path("socket")
	return s.run(t, []string{"-s", s.addr}, args)
}

func (s *MemcachedServer) run(t testing.TB, listen, args []string) *MemcachedServer {
	t.Helper()
	if os.Geteuid() == 0 {
		listen = append(listen, "-u", "root") // memcached refuses to run as root without it
	}
	s.process.args = append(listen, args...)
	if err := s.process.run(s.ready); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *MemcachedServer) ready() error {
	_, err := s.Try("version")
	return err
}

// Network returns "tcp", or "unix" for [MemcachedUnix].
func (s *MemcachedServer) Network() string { return s.network }

// Addr returns the address: 127.0.0.1 and the port, or the path of the socket.
func (s *MemcachedServer) Addr() string { return s.addr }

// Pid returns the process ID, which changes with each Start.
func (s *MemcachedServer) Pid() int { return s.process.pid() }

// Kill kills the server with SIGKILL and waits until it has ended. It does nothing if
// the server has ended already.
func (s *MemcachedServer) Kill() { s.process.kill() }

// Start starts the server again after a Kill, empty and at the same address, and waits
// until it replies. It does nothing if the server runs.
func (s *MemcachedServer) Start() {
	if err := s.process.run(s.ready); err != nil {
		s.t.Errorf("start: %v", err)
	}
}

// Stop pauses the server with SIGSTOP: the kernel accepts connections, and the server
// does not reply.
func (s *MemcachedServer) Stop() {
	if err := s.process.stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

// Continue resumes a stopped server, which then replies to pending requests.
func (s *MemcachedServer) Continue() {
	if err := s.process.signal(sigContinue); err != nil {
		s.t.Errorf("continue: %v", err)
	}
}

// Do executes a command of the text protocol, such as "get k" or "set k 0 0 1\r\nv", on
// a new connection. It returns the lines of the reply, including the data of values. It
// ends the test if that fails or if the reply is an error.
func (s *MemcachedServer) Do(t testing.TB, command string) []string {
	t.Helper()
	lines, err := s.Try(command)
	if err != nil {
		t.Fatalf("memcached %q: %v", command, err)
	}
	return lines
}

// Try is like Do, but returns the error: a [ServerError] if the reply is an error.
func (s *MemcachedServer) Try(command string) ([]string, error) {
	const timeout = 10 * time.Second
	conn, err := net.DialTimeout(s.network, s.addr, timeout)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(timeout)); err != nil {
		return nil, err
	}
	if _, err := io.WriteString(conn, command+"\r\n"); err != nil {
		return nil, err
	}
	return readMemcached(bufio.NewReader(conn))
}

// readMemcached reads lines up to the first one that is neither a value nor a
// statistic.
func readMemcached(r *bufio.Reader) ([]string, error) {
	var lines []string
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return lines, err
		}
		line = strings.TrimRight(line, "\r\n")
		lines = append(lines, line)
		first, _, _ := strings.Cut(line, " ")
		switch first {
		case "STAT":
		case "VALUE":
			var key string
			var flags, length int
			if _, err := fmt.Sscanf(line, "VALUE %s %d %d", &key, &flags, &length); err != nil {
				return lines, errMalformed
			}
			value, err := decodeMemcachedValue(r, length)
			if err != nil {
				return lines, err
			}
			lines = append(lines, value)
		case "ERROR", "CLIENT_ERROR", "SERVER_ERROR":
			return lines, ServerError(line)
		default:
			return lines, nil
		}
	}
}

// decodeMemcachedValue reads the data of a value, which ends like a bulk string of
// RESP.
func decodeMemcachedValue(r *bufio.Reader, length int) (string, error) {
	reply, err := decodeText(r, length)
	return reply.Text, err
}

// AwaitDisconnected waits until the server has no clients other than the test. It has
// then executed all their commands.
func (s *MemcachedServer) AwaitDisconnected(t testing.TB) {
	t.Helper()
	awaitDisconnected(t, func() (clients int) {
		for _, line := range s.Do(t, "stats conns") {
			if strings.Contains(line, ":state ") && !strings.Contains(line, "conn_listening") {
				clients++
			}
		}
		return clients
	})
}

// Time returns the time of the clock of the machine. Each process that uses a memcached
// server decides with it.
func (s *MemcachedServer) Time(testing.TB) time.Time { return time.Now() }
