package redisstore_test

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

func TestWrongPasswords(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.Password("right"), testserver.ACL("gate", "pass", "~hg:*", "+@all"))
	mustFail(t, "redis://"+server.Addr(), headgate.ReasonRefused, "the server requires a password")
	mustFail(t, "redis://:s3cret@"+server.Addr(), headgate.ReasonRefused, "wrong username or password")
	mustFail(t, "redis://gate:s3cret@"+server.Addr(), headgate.ReasonRefused, "wrong username or password")
	mustFail(t, "redis://nobody:s3cret@"+server.Addr(), headgate.ReasonRefused, "wrong username or password")
}

func TestWrongDatabase(t *testing.T) {
	t.Parallel()
	mustFail(t, "redis://"+testserver.Redis(t).Addr()+"/99", headgate.ReasonRefused, "the server has no database of this number")
}

func TestWrongProtocol(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.NotFoundHandler())
	defer web.Close()
	const advice = "does not use the Redis protocol"
	mustFail(t, "redis://"+web.Listener.Addr().String(), headgate.ReasonRefused, advice)
	mustFail(t, "redis+cluster://"+web.Listener.Addr().String(), headgate.ReasonRefused, advice)
	mustFail(t, "redis+sentinel://"+web.Listener.Addr().String()+"/main", headgate.ReasonRefused, advice)
	mustFail(t, "redis://"+testserver.Memcached(t).Addr(), headgate.ReasonRefused, advice)
}

func TestUnresponsiveServer(t *testing.T) {
	t.Parallel()
	closing := listen(t, func(conn net.Conn) { _ = conn.Close() })
	mustFail(t, "redis://"+closing, headgate.ReasonUnreachable, "accepts connections but does not answer")
	silent := listen(t, func(net.Conn) {})
	mustFail(t, "redis://"+silent+"?timeout=5s", headgate.ReasonUnreachable, "accepts connections but does not answer")
	mustFail(t, "redis+sentinel://"+silent+"/main?timeout=5s", headgate.ReasonUnreachable, "check that the sentinels are running")
	mustFail(t, "redis://nosuchhost.invalid", headgate.ReasonUnreachable, "the address is correct")
	mustFail(t, "redis+unix:///no/such/socket", headgate.ReasonUnreachable, "check that the server is running")
}

// listen calls serve for every connection to a new port.
func listen(t *testing.T, serve func(net.Conn)) (addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			defer conn.Close()
			serve(conn)
		}
	}()
	return ln.Addr().String()
}

func TestWrongScheme(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	mustFail(t, "redis+cluster://"+server.Addr(), headgate.ReasonRefused, "the server is not a cluster; use redis://")
	mustFail(t, "redis+cluster://"+server.Addr()+","+server.Addr(), headgate.ReasonRefused, "the server is not a cluster; use redis://")
	mustFail(t, "redis+sentinel://"+server.Addr()+"/main", headgate.ReasonRefused, "the server is not a sentinel")
	cluster := testserver.Cluster(t, 3, 0)
	for _, addr := range cluster.Addrs() {
		mustFail(t, "redis://"+addr, headgate.ReasonRefused, "use redis+cluster://")
	}
	sentinel := testserver.Sentinel(t)
	addrs := strings.Join(sentinel.Addrs(), ",")
	mustFail(t, "redis://"+sentinel.Addrs()[0], headgate.ReasonRefused, "use redis+sentinel://")
	mustFail(t, "redis+sentinel://"+addrs+"/nobody", headgate.ReasonRefused, "the sentinels monitor no primary of this name")
	mustDecide(t, "redis+sentinel://"+addrs+"/"+sentinel.MasterName())
}

// Some versions of rueidis return a nil pointer in a non-nil interface.
func TestSentinelUnreachable(t *testing.T) {
	mustFail(t, "redis+sentinel://127.0.0.1:1/primary", headgate.ReasonUnreachable, "check that the server is running")
}

func TestReadOnlyReplica(t *testing.T) {
	t.Parallel()
	primary := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := testserver.Redis(t, testserver.WithConfig("replicaof", host+" "+port))
	mustFail(t, "redis://"+replica.Addr(), headgate.ReasonRefused, "the server is a read-only replica")

	lonely := testserver.Redis(t, testserver.WithConfig("replica-serve-stale-data", "no"))
	lonely.Do(t, "REPLICAOF", "127.0.0.1", "1")
	mustFail(t, "redis://"+lonely.Addr(), headgate.ReasonRefused, "a replica")
}

func TestTooFewReplicas(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.WithConfig("min-replicas-to-write", "1"))
	mustFail(t, "redis://"+server.Addr(), headgate.ReasonRefused, "fewer replicas than min-replicas-to-write")
}

func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.WithConfig("maxmemory", "1kb", "maxmemory-policy", "noeviction"))
	mustFail(t, "redis://"+server.Addr(), headgate.ReasonRefused, "the server is out of memory; raise maxmemory")
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.WithConfig("save", "3600 1", "enable-protected-configs", "yes"))
	if _, err := server.Try("CONFIG", "SET", "dir", "/proc/self"); err != nil {
		t.Fatalf("a folder that cannot be written to: %v", err)
	}
	server.Do(t, "SET", "other", "value")
	_, _ = server.Try("BGSAVE")
	eventually(t, func() bool {
		return strings.Contains(server.Do(t, "INFO", "persistence").Text, "rdb_last_bgsave_status:err")
	}, "that the server cannot save to /proc")
	mustFail(t, "redis://"+server.Addr(), headgate.ReasonRefused, "the server cannot save to disk")
}

func TestServerLoading(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.WithConfig("enable-debug-command", "local", "loading-process-events-interval-bytes", "1024"))
	server.Do(t, "DEBUG", "POPULATE", "6000")
	server.Do(t, "SAVE")
	server.Do(t, "CONFIG", "SET", "key-load-delay", "3000") // µs for each key: longer than this test
	server.Do(t, "CONFIG", "REWRITE")
	server.Kill()
	server.StartLoading()
	var err *headgate.StoreError
	s := open(t, "redis://"+server.Addr(), nil)
	eventually(t, func() bool {
		err = decideOnce(t.Context(), s)
		return err == nil || err.Reason == headgate.ReasonRefused
	}, "a refusal while it loads")
	if err == nil || !strings.Contains(err.Advice, "the server is loading its data from disk") {
		t.Errorf("while it loads: got %v want refused, with why", err)
	}
	server.Do(t, "CONFIG", "SET", "key-load-delay", "0")
	eventually(t, func() bool { return decideOnce(t.Context(), s) == nil }, "a decision once it has loaded")
}

func TestServerBusy(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.WithConfig("busy-reply-threshold", "50"))
	s := open(t, "redis://"+server.Addr(), nil)
	if err := decideOnce(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	go func() { _, _ = server.Try("EVAL", "while true do end", "0") }()
	defer func() { _, _ = server.Try("SCRIPT", "KILL") }()
	var err *headgate.StoreError
	eventually(t, func() bool {
		err = decideOnce(t.Context(), s)
		return err != nil && err.Reason == headgate.ReasonRefused
	}, "a refusal")
	if err == nil || !strings.Contains(err.Advice, "the server is busy with another script") {
		t.Errorf("got %v want refused, with why", err)
	}
}

// A foreign value under the key of any algorithm is not changed.
func TestForeignValue(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	s := open(t, "redis://"+server.Addr(), nil)
	for _, algorithm := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		server.Do(t, "FLUSHALL")
		l, err := headgate.New(s, headgate.Policy{Limits: []headgate.Limit{headgate.MustParseLimit("5/1h")}, Algorithm: algorithm}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Allow(t.Context(), "key"); err != nil {
			t.Fatal(err)
		}
		key := server.Do(t, "KEYS", "*").Items[0].Text
		for _, foreign := range [][]string{{"LPUSH", key, "x"}, {"HSET", key, "tokens", "1"}, {"SET", key, "\xff no state"}} {
			server.Do(t, "DEL", key)
			server.Do(t, foreign...)
			before := server.Do(t, "DUMP", key).Text
			_, err := l.Allow(t.Context(), "key")
			mustBeWrongType(t, foreign[0]+" under "+string(algorithm), err)
			if server.Do(t, "DUMP", key).Text != before || server.Do(t, "PTTL", key).Int() != -1 {
				t.Errorf("%s: what was under the key has changed", foreign[0])
			}
		}
	}
}

func mustBeWrongType(t *testing.T, what string, err error) {
	t.Helper()
	var storeErr *headgate.StoreError
	if !errors.As(err, &storeErr) || storeErr.Reason != headgate.ReasonWrongType || !strings.Contains(storeErr.Advice, "separate namespace") {
		t.Errorf("%s: got error %v want wrong type, with what to do", what, err)
	}
}

// A store that is not wrapped does not ignore the lease of a rule.
func TestBindOfLeasedRule(t *testing.T) {
	t.Parallel()
	s := open(t, "redis://127.0.0.1:1", nil)
	_, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("100/1s"), Lease: headgate.LeaseSettings{Share: 10}})
	if !errors.Is(err, headgate.ErrUnsupported) || !strings.Contains(err.Error(), "lease.New") {
		t.Errorf("got error %v want ErrUnsupported that names lease.New", err)
	}
}
