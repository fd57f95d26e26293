package testserver

import (
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// options are the settings of a server.
type options struct {
	valkey   bool
	password string
	tls      bool
	trust    *Authority // set if tls is
	tlsDir   string     // folder of the certificate
	config   []string   // whole lines
	steady   bool       // whether the sentinels replace no primary
}

// Option is a setting of a Redis server, or of all servers of a cluster or of a
// sentinel setup.
type Option func(*options)

// WithConfig adds directives to the configuration: alternating names and values, as in
// WithConfig("maxmemory", "10mb"). A value may have several words. A word with spaces
// must be quoted.
func WithConfig(pairs ...string) Option {
	return func(o *options) {
		for i := 0; i+1 < len(pairs); i += 2 {
			o.config = append(o.config, pairs[i]+" "+pairs[i+1])
		}
	}
}

// AppendFsyncAlways makes the server sync every write to disk before it replies, and
// load the writes when it starts.
func AppendFsyncAlways() Option { return WithConfig("appendonly", "yes", "appendfsync", "always") }

// Steady makes sentinels wait for an hour before they replace the primary. Without it, a
// machine on which the primary cannot run for a second causes a failover.
func Steady() Option { return func(o *options) { o.steady = true } }

// Password sets a password for the default user.
func Password(password string) Option {
	return func(o *options) { o.password = password }
}

// ACL adds a user with a password and rules such as "~hg:*", "+evalsha". It does not
// change the default user.
func ACL(user, password string, rules ...string) Option {
	return WithConfig("user", strings.Join(append([]string{user, "on", ">" + password}, rules...), " "))
}

// TLS enables TLS on the server's port, with a certificate for 127.0.0.1 and localhost
// from a new authority. Clients need no certificate. The Unix socket has no TLS. Nodes
// and sentinels use TLS between each other too, with the same certificate.
func TLS() Option {
	return func(o *options) { o.tls = true }
}

// Valkey starts valkey-server instead of redis-server.
func Valkey() Option {
	return func(o *options) { o.valkey = true }
}

// ValkeyPresent reports whether valkey-server is installed. Not every supported Debian
// release has a package of it, so tests of Valkey call this first.
func ValkeyPresent() bool {
	_, err := exec.LookPath("valkey-server")
	return err == nil
}

// RedisServer is a Redis or Valkey server, or a sentinel. It listens on a port of the
// loopback interface and on a Unix socket. It writes nothing to disk unless an [Option]
// makes it. All methods may be called concurrently.
type RedisServer struct {
	t          testing.TB
	process    *process
	port       int
	password   string
	trust      *Authority // nil without TLS
	tlsDir     string     // folder of the certificate
	afterStart func()     // called after each start; may be nil
}

// Redis starts a server and waits until it replies. The server ends with the test.
func Redis(t testing.TB, opts ...Option) *RedisServer {
	t.Helper()
	s := newRedis(t, collect(t, opts))
	s.mustRun(t)
	return s
}

func collect(t testing.TB, opts []Option) options {
	t.Helper()
	var o options
	for _, opt := range opts {
		opt(&o)
	}
	if o.tls {
		o.trust, o.tlsDir = NewAuthority(t), t.TempDir()
		o.trust.Write(o.tlsDir, 2, "localhost", "127.0.0.1")
	}
	return o
}

// newRedis prepares a server: a port, a folder and its configuration.
func newRedis(t testing.TB, o options, more ...string) *RedisServer {
	t.Helper()
	name, debian := "redis-server", "redis-server"
	if o.valkey {
		name, debian = "valkey-server", "valkey-server"
	}
	s := newServer(t, name, debian)
	s.password = o.password
	lines := []string{"bind 127.0.0.1", "dir " + s.process.dir, "unixsocket " + s.Socket(), `save ""`, "repl-diskless-sync-delay 0"}
	if o.password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", o.password), fmt.Sprintf("masterauth %q", o.password))
	}
	lines = append(append(append(lines, s.listen(o)...), o.config...), more...)
	s.configure(t, lines)
	return s
}

// newServer returns a server with its own port and folder. The port is claimed first, so
// that it is released last.
func newServer(t testing.TB, name, debian string) *RedisServer {
	t.Helper()
	port := freePort(t)
	return &RedisServer{t: t, port: port, process: newProcess(t, name, debian)}
}

// listen returns the directives for the port.
func (s *RedisServer) listen(o options) []string {
	s.trust, s.tlsDir = o.trust, o.tlsDir
	if s.trust == nil {
		return []string{"port " + s.Port()}
	}
	return []string{
		"port 0", "tls-port " + s.Port(), "tls-auth-clients no", "tls-replication yes", "tls-cluster yes",
		"tls-cert-file " + s.tlsDir + "/tls.crt", "tls-key-file " + s.tlsDir + "/tls.key", "tls-ca-cert-file " + s.tlsDir + "/ca.crt",
	}
}

// configure writes the configuration, one directive per line.
func (s *RedisServer) configure(t testing.TB, lines []string) {
	t.Helper()
	file := s.process.path("redis.conf")
	if err := os.WriteFile(file, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.process.args = append([]string{file}, s.process.args...)
}

func (s *RedisServer) mustRun(t testing.TB) {
	t.Helper()
	if err := s.run(); err != nil {
		t.Fatal(err)
	}
}

func (s *RedisServer) run() error {
	err := s.process.run(s.ready)
	if err == nil && s.afterStart != nil {
		s.afterStart()
	}
	return err
}

// ready returns nil as soon as the server replies, even with an error, unless the
// server is still loading its data.
func (s *RedisServer) ready() error {
	_, err := s.Try("PING")
	var answer ServerError
	if errors.As(err, &answer) && !strings.HasPrefix(string(answer), "LOADING") {
		return nil
	}
	return err
}

// Addr returns the TCP (or TLS) address: 127.0.0.1 and the port.
func (s *RedisServer) Addr() string { return loopback(s.port) }

// Port returns the port of Addr in decimal.
func (s *RedisServer) Port() string { return strconv.Itoa(s.port) }

// Socket returns the path of the server's Unix socket, which has no TLS.
func (s *RedisServer) Socket() string { return s.process.path("socket") }

// Dir returns the folder of the server's files. It is removed with the server.
func (s *RedisServer) Dir() string { return s.process.dir }

// Pid returns the process ID, which changes with each Start.
func (s *RedisServer) Pid() int { return s.process.pid() }

// TLSConfig returns a configuration for clients of a server with [TLS]. It trusts only
// the server's certificate. It returns nil without TLS.
func (s *RedisServer) TLSConfig() *tls.Config {
	if s.trust == nil {
		return nil
	}
	return &tls.Config{RootCAs: s.trust.Pool, MinVersion: tls.VersionTLS12}
}

// CAFile returns the path of the CA certificate (PEM) for clients of a server with
// [TLS]. It is empty without TLS.
func (s *RedisServer) CAFile() string {
	if s.trust == nil {
		return ""
	}
	return s.tlsDir + "/ca.crt"
}

// Kill kills the server with SIGKILL and waits until it has ended. It does nothing if
// the server has ended already.
func (s *RedisServer) Kill() { s.process.kill() }

// Start starts the server again after a Kill, with the same port, folder and
// configuration. It waits until the server replies and has loaded its data. It does
// nothing if the server runs.
func (s *RedisServer) Start() {
	if err := s.run(); err != nil {
		s.t.Errorf("start: %v", err)
	}
}

// StartLoading is like Start, but does not wait until the server is ready. At first the
// server does not reply, or replies LOADING.
func (s *RedisServer) StartLoading() {
	if err := s.process.start(); err != nil {
		s.t.Errorf("start: %v", err)
	}
}

// Stop pauses the server with SIGSTOP: the kernel accepts connections, and the server
// does not reply.
func (s *RedisServer) Stop() {
	if err := s.process.stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

// Continue resumes a stopped server, which then replies to pending requests.
func (s *RedisServer) Continue() {
	if err := s.process.signal(sigContinue); err != nil {
		s.t.Errorf("continue: %v", err)
	}
}

// Do executes a command on a new connection as the default user. It ends the test if
// that fails or if the reply is an error.
func (s *RedisServer) Do(t testing.TB, command ...string) Reply {
	t.Helper()
	reply, err := s.Try(command...)
	if err != nil {
		t.Fatalf("redis %q: %v", command, err)
	}
	return reply
}

// Try is like Do, but returns the error: a [ServerError] if the reply is an error.
func (s *RedisServer) Try(command ...string) (Reply, error) {
	if s.password != "" {
		return ask("unix", s.Socket(), []string{"AUTH", s.password}, command)
	}
	return ask("unix", s.Socket(), command)
}

// AwaitDisconnected waits until the server has no clients other than the test. It has
// then executed all their commands.
func (s *RedisServer) AwaitDisconnected(t testing.TB) {
	t.Helper()
	awaitDisconnected(t, func() int { return strings.Count(s.Do(t, "CLIENT", "LIST").Text, "\n") })
}

// Time returns the time of the server's clock.
func (s *RedisServer) Time(t testing.TB) time.Time {
	t.Helper()
	var us int64
	for _, item := range s.Do(t, "TIME").Items {
		n, err := strconv.ParseInt(item.Text, 10, 64)
		if err != nil {
			t.Fatalf("TIME: %v", err)
		}
		us = us*1_000_000 + n
	}
	return time.UnixMicro(us)
}

// awaitDisconnected waits until only the test is connected. It fails after a minute.
func awaitDisconnected(t testing.TB, clients func() int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		n := clients()
		if n <= 1 {
			return
		}
		if time.Since(begun) > time.Minute {
			t.Fatalf("%d clients are connected a minute after their processes were killed, want 1", n)
		}
	}
}
