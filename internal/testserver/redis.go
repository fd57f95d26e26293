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
)

// options are what a server is asked to be.
type options struct {
	valkey   bool
	password string
	tls      bool
	trust    *Authority // with tls
	tlsDir   string     // of its certificate
	config   []string   // whole lines
}

// Option asks something of a Redis server. Those of a cluster or behind sentinels all get it.
type Option func(*options)

// WithConfig adds directives to the configuration: names and values by turns, as in WithConfig("maxmemory", "10mb"). A value may
// have several words; those that hold spaces of their own must come in quotes.
func WithConfig(pairs ...string) Option {
	return func(o *options) {
		for i := 0; i+1 < len(pairs); i += 2 {
			o.config = append(o.config, pairs[i]+" "+pairs[i+1])
		}
	}
}

// AppendFsyncAlways makes the server sync every write to its disk before it answers, and read them again when it starts.
func AppendFsyncAlways() Option { return WithConfig("appendonly", "yes", "appendfsync", "always") }

// Password makes the server ask for a password of the default user.
func Password(password string) Option {
	return func(o *options) { o.password = password }
}

// ACL adds a user with a password and rules such as "~hg:*", "+evalsha". The default user stays as it is.
func ACL(user, password string, rules ...string) Option {
	return WithConfig("user", strings.Join(append([]string{user, "on", ">" + password}, rules...), " "))
}

// TLS makes the server's port speak TLS, with a certificate for 127.0.0.1 and localhost from an authority made for it. Clients
// need no certificate. The socket stays plain. Nodes and sentinels speak TLS to each other as well, with one certificate.
func TLS() Option {
	return func(o *options) { o.tls = true }
}

// Valkey asks for valkey-server instead of redis-server.
func Valkey() Option {
	return func(o *options) { o.valkey = true }
}

// ValkeyPresent reports whether there is a valkey-server: no Debian package that every machine can have brings one, so tests that
// want it as well ask first.
func ValkeyPresent() bool {
	_, err := exec.LookPath("valkey-server")
	return err == nil
}

// RedisServer is a server of Redis or Valkey, or a sentinel, listening on a port of the loopback interface and on a Unix socket.
// It keeps nothing on its disk unless an [Option] says so. All methods may be called concurrently.
type RedisServer struct {
	t        testing.TB
	process  *process
	port     int
	password string
	trust    *Authority // nil without TLS
	tlsDir   string     // of its certificate
	begin    func()     // what is done after each start; nil for nothing
}

// Redis starts a server and waits until it answers. It ends with the test.
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
	s := place(t, name, debian)
	s.password = o.password
	lines := []string{"bind 127.0.0.1", "dir " + s.process.dir, "unixsocket " + s.Socket(), `save ""`, "repl-diskless-sync-delay 0"}
	if o.password != "" {
		lines = append(lines, fmt.Sprintf("requirepass %q", o.password), fmt.Sprintf("masterauth %q", o.password))
	}
	lines = append(append(append(lines, s.listen(o)...), o.config...), more...)
	s.configure(t, lines)
	return s
}

// place is a server with a port and a folder of its own. The port comes first, so that it is given back last.
func place(t testing.TB, name, debian string) *RedisServer {
	t.Helper()
	port := freePort(t)
	return &RedisServer{t: t, port: port, process: newProcess(t, name, debian)}
}

// listen are the directives for the port.
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

// configure writes the configuration, a line for each directive.
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
	if err == nil && s.begin != nil {
		s.begin()
	}
	return err
}

// ready objects until the server answers, be it with an error; one that still loads is not ready.
func (s *RedisServer) ready() error {
	_, err := s.Try("PING")
	var answer ServerError
	if errors.As(err, &answer) && !strings.HasPrefix(string(answer), "LOADING") {
		return nil
	}
	return err
}

// Addr is where the server listens for TCP, or TLS if it was asked to: 127.0.0.1 and the port.
func (s *RedisServer) Addr() string { return loopback(s.port) }

// Port is the port of Addr in decimal.
func (s *RedisServer) Port() string { return strconv.Itoa(s.port) }

// Socket is the path of the Unix socket on which the server listens as well, without TLS.
func (s *RedisServer) Socket() string { return s.process.path("socket") }

// Dir is the folder where the server keeps its files. It goes with the server.
func (s *RedisServer) Dir() string { return s.process.dir }

// Pid is the number of the server's process, another one after each Start.
func (s *RedisServer) Pid() int { return s.process.pid() }

// TLSConfig is for clients of a server with [TLS]: it trusts the server's certificate alone. Nil without TLS.
func (s *RedisServer) TLSConfig() *tls.Config {
	if s.trust == nil {
		return nil
	}
	return &tls.Config{RootCAs: s.trust.Pool, MinVersion: tls.VersionTLS12}
}

// CAFile is the path of the certificate, in PEM, that clients of a server with [TLS] have to trust. Empty without TLS.
func (s *RedisServer) CAFile() string {
	if s.trust == nil {
		return ""
	}
	return s.tlsDir + "/ca.crt"
}

// Kill ends the server at once, as kill -9 does, and waits until it is gone. A server that is gone stays so.
func (s *RedisServer) Kill() { s.process.kill() }

// Start starts the server again after a Kill, with the same port, folder and configuration, and waits until it answers and has
// loaded its data. A server that runs is left alone.
func (s *RedisServer) Start() {
	if err := s.run(); err != nil {
		s.t.Errorf("start: %v", err)
	}
}

// StartLoading is Start without the wait: for a while the server answers LOADING, or nothing.
func (s *RedisServer) StartLoading() {
	if err := s.process.start(); err != nil {
		s.t.Errorf("start: %v", err)
	}
}

// Stop stops the server, as SIGSTOP does: connections are accepted, by the system, and nothing is answered.
func (s *RedisServer) Stop() {
	if err := s.process.stop(); err != nil {
		s.t.Errorf("stop: %v", err)
	}
}

// Continue lets a stopped server go on. It then answers what it was asked meanwhile.
func (s *RedisServer) Continue() {
	if err := s.process.signal(sigContinue); err != nil {
		s.t.Errorf("continue: %v", err)
	}
}

// Do runs a command on a connection of its own, as the default user, and ends the test if that fails or the server answers an
// error.
func (s *RedisServer) Do(t testing.TB, command ...string) Reply {
	t.Helper()
	reply, err := s.Try(command...)
	if err != nil {
		t.Fatalf("redis %q: %v", command, err)
	}
	return reply
}

// Try is Do that returns the error: a [ServerError] if the server answered one.
func (s *RedisServer) Try(command ...string) (Reply, error) {
	if s.password != "" {
		return ask("unix", s.Socket(), []string{"AUTH", s.password}, command)
	}
	return ask("unix", s.Socket(), command)
}
