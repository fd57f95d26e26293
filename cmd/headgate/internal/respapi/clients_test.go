package respapi

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"os/exec"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
)

// command runs a program that scripts/setup installed and returns its output.
func mustRun(t *testing.T, input, name string, args ...string) string {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Fatalf("%v; scripts/setup installs it", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = strings.NewReader(input)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %q: %v: %s", name, args, err, &out)
	}
	return out.String()
}

func (s *served) port() string { return strconv.Itoa(s.ln.Addr().(*net.TCPAddr).Port) }

func TestRedisCLI(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[0], nil, Options{}, nil)
	for _, tt := range []struct {
		args, want string
	}{
		{"CL.THROTTLE k 15 30 60", "0\n16\n15\n-1\n2\n"},
		{"-3 CL.THROTTLE k 15 30 60", "0\n16\n14\n-1\n4\n"},
		{"THROTTLE k 10 10 10", "1\n10\n9\n1\n0\n"},
		{"-3 --json HG.CHECK api k", `{"allowed":true,"limit":200,"remaining":199,"retry_after_ms":0,"reset_after_ms":10,"delay_ms":0,"never":false,` +
			`"policy":"api","denied_by":[],"degraded":false}` + "\n"},
		{"CL.THROTTLE k 15 0 60", "Cell error: Store error: Zero rates are not supported\n\n"},
		{"CL.THROTTLE k", "Cell error: Store error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]\n\n"},
		{"-n 0 PING", "PONG\n"},
		{"-r 2 PING", "PONG\nPONG\n"},
	} {
		if got := mustRun(t, "", "redis-cli", append([]string{"-p", s.port()}, strings.Fields(tt.args)...)...); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.args, got, tt.want)
		}
	}
	if got := mustRun(t, "", "redis-cli", "-p", s.port(), "help", "cl.throttle"); !strings.Contains(got, "key max_burst count_per_period period [quantity]") {
		t.Errorf("help: got %q", got)
	}
	if got, want := mustRun(t, "PING\nCL.THROTTLE k2 0 1 60\n", "redis-cli", "-p", s.port()), "PONG\n0\n1\n0\n-1\n60\n"; got != want {
		t.Errorf("commands from a pipe: got %q, want %q", got, want)
	}
	pipe := strings.Repeat(request("CL.THROTTLE", "k3", "999", "1", "1"), 1000)
	if got := mustRun(t, pipe, "redis-cli", "-p", s.port(), "--pipe"); !strings.Contains(got, "errors: 0, replies: 1000") {
		t.Errorf("--pipe: got %q", got)
	}
	if got, want := s.peek("k3"), numbersReply(0, 1000, 0, -1, 1000); got != want {
		t.Errorf("behind --pipe: got %q, want %q", got, want)
	}
}

// peek returns the reply of CL.THROTTLE for a key with a limit of 1000, one a second.
func (s *served) peek(key string) string {
	conn := s.dial()
	want := numbersReply(0, 1000, 0, -1, 1000)
	s.write(conn, request("CL.THROTTLE", key, "999", "1", "1", "0"))
	got := make([]byte, len(want))
	_, _ = conn.Read(got)
	return string(got)
}

func TestRedisCLIWithSecrets(t *testing.T) {
	t.Parallel()
	app := Options{User: "app", Password: "secret"}
	tcp, unix, secure := serve(t, transports[0], nil, app, nil), serve(t, transports[2], nil, app, nil), serve(t, transports[3], nil, app, nil)
	for name, args := range map[string][]string{
		"TCP":  {"-p", tcp.port()},
		"unix": {"-s", unix.ln.Addr().String()},
		"TLS":  {"-p", secure.port(), "--tls", "--insecure"},
	} {
		if got := mustRun(t, "", "redis-cli", append(args, "--user", "app", "--pass", "secret", "--no-auth-warning", "PING")...); got != "PONG\n" {
			t.Errorf("%s: got %q", name, got)
		}
		if got := mustRun(t, "", "redis-cli", append(args, "PING")...); !strings.HasPrefix(got, "NOAUTH") {
			t.Errorf("%s, without a password: got %q", name, got)
		}
	}
}

func TestRedisBenchmark(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		if d.name == "tls" {
			return // the same requests as over TCP
		}
		opts, pipelines, where := Options{}, []string{"1", "16", "64"}, []string{"-p"}
		if d.name == "unix" {
			opts, pipelines, where = Options{Password: "secret"}, []string{"16"}, []string{"-3", "-a", "secret", "-s"}
		}
		s := serve(t, d, nil, opts, nil)
		for _, pipeline := range pipelines {
			args := append(where[:len(where):len(where)], s.where(), "-c", "50", "-n", "2000", "-P", pipeline, "-r", "100", "-q",
				"CL.THROTTLE", "key:__rand_int__", "15", "30", "60")
			got := mustRun(t, "", "redis-benchmark", args...)
			if !strings.Contains(got, "requests per second") || strings.Contains(got, "WARNING") || strings.Contains(got, "Error") {
				t.Errorf("-P %s: got %q", pipeline, got)
			}
		}
	})
}

func TestGoRedis(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		if d.name == "tls" {
			return
		}
		s := serve(t, d, nil, Options{User: "app", Password: "secret"}, nil)
		for protocol := 2; protocol <= 3; protocol++ {
			c := s.goRedis(protocol)
			defer c.Close()
			key := strconv.Itoa(protocol)
			got, err := c.Do(t.Context(), "CL.THROTTLE", key, 15, 30, 60).Int64Slice()
			if want := []int64{0, 16, 15, -1, 2}; err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("protocol %d: got %v, %v, want %v", protocol, got, err, want)
			}
			pipeline := c.Pipeline()
			for range 100 {
				pipeline.Do(t.Context(), "CL.THROTTLE", key, 15, 30, 60)
			}
			replies, err := pipeline.Exec(t.Context())
			if err != nil || len(replies) != 100 {
				t.Fatalf("protocol %d: a pipeline: %d replies, %v", protocol, len(replies), err)
			}
			last, err := replies[99].(*goredis.Cmd).Int64Slice()
			if want := []int64{1, 16, 0, 2, 32}; err != nil || !reflect.DeepEqual(last, want) {
				t.Errorf("protocol %d: the last of a pipeline: got %v, %v, want %v", protocol, last, err, want)
			}
			if _, err := c.Do(t.Context(), "CL.THROTTLE", key, 15, 0, 60).Result(); err == nil ||
				err.Error() != "Cell error: Store error: Zero rates are not supported" {
				t.Errorf("protocol %d: an error: got %v", protocol, err)
			}
			both, err := c.TxPipelined(t.Context(), func(p goredis.Pipeliner) error {
				p.Do(t.Context(), "CL.THROTTLE", key, 15, 30, 60, 0)
				return p.Ping(t.Context()).Err()
			})
			if err != nil || len(both) != 2 || both[1].(*goredis.StatusCmd).Val() != "PONG" {
				t.Errorf("protocol %d: a transaction: got %v, %v", protocol, both, err)
			}
			if all, err := c.Command(t.Context()).Result(); err != nil || all["cl.throttle"].FirstKeyPos != 1 {
				t.Errorf("protocol %d: COMMAND: %v, %v", protocol, all["cl.throttle"], err)
			}
			if name, err := c.ClientGetName(t.Context()).Result(); err != nil || name != "test" {
				t.Errorf("protocol %d: CLIENT GETNAME: %q, %v", protocol, name, err)
			}
			if err := c.Info(t.Context()).Err(); err != nil {
				t.Errorf("protocol %d: INFO: %v", protocol, err)
			}
			_ = c.Do(t.Context(), "QUIT").Err() // the server ends the connection
			if err := c.Ping(t.Context()).Err(); err != nil {
				t.Errorf("protocol %d: a new connection: %v", protocol, err)
			}
		}
		c := s.goRedis(3)
		defer c.Close()
		answer, err := c.Do(t.Context(), "HG.CHECK", "api", "k", 2).Result()
		fields, ok := answer.(map[any]any)
		if err != nil || !ok || fields["allowed"] != true || fields["remaining"] != int64(198) || fields["policy"] != "api" {
			t.Errorf("HG.CHECK: got %v, %v", answer, err)
		}
	})
}

// goRedis returns a client with default options except for its credentials.
func (s *served) goRedis(protocol int) *goredis.Client {
	addr := s.ln.Addr()
	return goredis.NewClient(&goredis.Options{
		Network: addr.Network(), Addr: addr.String(), Protocol: protocol, Username: "app", Password: "secret", ClientName: "test",
	})
}

func TestRueidis(t *testing.T) {
	t.Parallel()
	forEachTransport(t, func(t *testing.T, d transport) {
		if d.name == "tls" {
			return
		}
		s := serve(t, d, nil, Options{Password: "secret"}, nil)
		for _, version2 := range []bool{false, true} {
			c, err := rueidis.NewClient(rueidis.ClientOption{
				InitAddress: []string{s.ln.Addr().String()}, Password: "secret", DisableCache: true, AlwaysRESP2: version2, ClientName: "test",
				DialCtxFn: func(ctx context.Context, _ string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return dialer.DialContext(ctx, s.ln.Addr().Network(), s.ln.Addr().String())
				},
			})
			if err != nil {
				t.Fatalf("version 2 %v: %v", version2, err)
			}
			defer c.Close()
			key := strconv.FormatBool(version2)
			var all []rueidis.Completed
			for range 50 {
				all = append(all, c.B().Arbitrary("CL.THROTTLE").Keys(key).Args("15", "30", "60").Build())
			}
			for i, reply := range c.DoMulti(t.Context(), all...) {
				want := []int64{0, 16, 15 - int64(i), -1, 2 + 2*int64(i)}
				if i >= 16 {
					want = []int64{1, 16, 0, 2, 32}
				}
				if got, err := reply.AsIntSlice(); err != nil || !reflect.DeepEqual(got, want) {
					t.Errorf("version 2 %v, %d: got %v, %v, want %v", version2, i, got, err, want)
				}
			}
			fields, err := c.Do(t.Context(), c.B().Arbitrary("HG.PEEK").Args("api").Keys("k").Build()).AsMap()
			if err != nil {
				t.Fatalf("version 2 %v: HG.PEEK: %v", version2, err)
			}
			remaining := fields["remaining"]
			if n, err := remaining.AsInt64(); err != nil || n != 200 {
				t.Errorf("version 2 %v: HG.PEEK: remaining %d, %v", version2, n, err)
			}
			if err := c.Dedicated(rueidisTransaction(t.Context(), "in one "+key)); err != nil {
				t.Errorf("version 2 %v: a transaction: %v", version2, err)
			}
			_ = c.Do(t.Context(), c.B().Quit().Build()).Error() // the server ends the connection
			_ = c.Do(t.Context(), c.B().Ping().Build()).Error() // which this may find out
			if err := c.Do(t.Context(), c.B().Ping().Build()).Error(); err != nil {
				t.Errorf("version 2 %v: a new connection: %v", version2, err)
			}
		}
	})
}

func rueidisTransaction(ctx context.Context, key string) func(rueidis.DedicatedClient) error {
	return func(c rueidis.DedicatedClient) error {
		asked := c.B().Arbitrary("CL.THROTTLE").Keys(key).Args("15", "30", "60").Build()
		all, err := c.DoMulti(ctx, c.B().Multi().Build(), asked, c.B().Exec().Build())[2].ToArray()
		if err != nil || len(all) != 1 {
			return fmt.Errorf("got %v, error %v", all, err)
		}
		got, err := all[0].AsIntSlice()
		if want := []int64{0, 16, 15, -1, 2}; err != nil || !reflect.DeepEqual(got, want) {
			return fmt.Errorf("got %v, error %v, want %v", got, err, want)
		}
		return nil
	}
}

// TestRueidisWithCacheFails: the client-side cache of rueidis needs CLIENT TRACKING, so
// the client returns an error, as with any server that does not support it.
func TestRueidisWithCacheFails(t *testing.T) {
	t.Parallel()
	s := serve(t, transports[0], nil, Options{}, nil)
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{s.ln.Addr().String()}})
	if err == nil {
		c.Close()
		t.Error("a client with a cache connected, which it is never told about")
	}
}

// TestHandshakesOfOtherClients sends what newer versions of redis-py and Predis, and
// ioredis, Lettuce and StackExchange.Redis send when they connect. Unsupported commands
// get the errors of Redis, which each of these clients ignores.
func TestHandshakesOfOtherClients(t *testing.T) {
	t.Parallel()
	for name, requests := range map[string][]string{
		"redis-py":   {"CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO LIB-VER 5.2.1", "SELECT 0", "PING"},
		"redis-py 3": {"HELLO 3", "CLIENT SETNAME n", "CLIENT SETINFO LIB-NAME redis-py", "CLIENT SETINFO LIB-VER 6.0.0", "SELECT 0"},
		"ioredis":    {"INFO", "CLIENT SETNAME n", "SELECT 0"},
		"Lettuce":    {"HELLO 3", "CLIENT SETINFO lib-name Lettuce", "CLIENT SETINFO lib-ver 6.5.0", "PING"},
		"Predis 3":   {"SELECT 0", "CLIENT SETNAME n", "CLIENT SETINFO LIB-NAME predis"},
		"redis-rs":   {"CLIENT SETINFO LIB-NAME redis-rs", "CLIENT SETINFO LIB-VER 0.27", "SELECT 0"},
		"StackExchange.Redis": {
			"HELLO 3 SETNAME host", "CLIENT SETINFO lib-name SE.Redis", "CLIENT SETINFO lib-ver 2.8", "CLIENT ID", "CONFIG GET timeout",
			"CONFIG GET databases", "INFO replication", "INFO server", "ECHO tracer", "PING",
		},
		"node-redis": {"HELLO 3", "CLIENT SETINFO LIB-NAME node-redis", "CLIENT SETINFO LIB-VER 5.0.0"},
		"Jedis":      {"HELLO 3", "CLIENT SETINFO LIB-NAME jedis", "CLIENT SETINFO LIB-VER 5.2.0"},
	} {
		c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
		for _, r := range requests {
			if got := c.do(strings.Fields(r)...); strings.HasPrefix(got, "-") {
				t.Errorf("%s: %s: got %q", name, r, got)
			}
		}
	}
	c := New(mustEngine(t, newFrozen(t), nil), nil).newClient(t)
	for _, r := range []string{"CLUSTER NODES", "GET __Booksleeve_TieBreak", "SUBSCRIBE x", "SENTINEL MASTERS", "CLIENT MAINT_NOTIFICATIONS ON"} {
		if got := c.do(strings.Fields(r)...); !strings.HasPrefix(got, "-ERR unknown ") {
			t.Errorf("%s: got %q, want an error", r, got)
		}
	}
}
