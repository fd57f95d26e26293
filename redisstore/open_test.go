package redisstore_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/leaktest"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// decideOnce makes one decision and returns the store error.
func decideOnce(ctx context.Context, s headgate.Store) *headgate.StoreError {
	l, err := headgate.New(s, headgate.MustPolicy("1000000/1h"), nil)
	if err != nil {
		return &headgate.StoreError{Err: err}
	}
	_, err = l.Allow(ctx, "key")
	var storeErr *headgate.StoreError
	if err != nil && !errors.As(err, &storeErr) {
		return &headgate.StoreError{Advice: "not typed", Err: err}
	}
	return storeErr
}

// mustDecide fails the test unless the store of a URL decides.
func mustDecide(t *testing.T, url string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := decideOnce(ctx, open(t, url, nil)); err != nil {
		t.Errorf("%s: %v", url, err)
	}
}

// mustFail fails the test unless the store of a URL returns an error with this reason
// and advice.
func mustFail(t *testing.T, url string, reason headgate.StoreErrorReason, advice string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := decideOnce(ctx, open(t, url, nil))
	if err == nil || err.Reason != reason || !strings.Contains(err.Advice, advice) {
		t.Errorf("%s: got %v want %v with advice %q", url, err, reason, advice)
	}
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		t.Errorf("%s: the error %q shows the password", url, err)
	}
}

func TestOpenSchemes(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.Password("s3/c:r@et"), testserver.ACL("gate", "pass", "~hg:*", "+@all"))
	stopped := testserver.Redis(t)
	stopped.Stop()
	defer stopped.Continue()
	for _, url := range []string{
		"redis://:s3%2Fc%3Ar%40et@" + server.Addr(),
		"redis://:s3/c:r@et@" + server.Addr(),
		"redis://default:s3%2Fc%3Ar%40et@" + server.Addr(),
		"redis://gate:pass@" + server.Addr() + "/5",
		"redis+unix://gate:pass@" + server.Socket() + "?db=6",
		"redis://gate:pass@127.0.0.1:1," + server.Addr(),
		"redis://gate:pass@" + stopped.Addr() + "," + server.Addr() + "?timeout=5s",
	} {
		mustDecide(t, url)
	}
}

func TestOpenDatabase(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	for _, url := range []string{"redis://" + server.Addr() + "/5", "redis+unix://" + server.Socket() + "?db=6"} {
		if _, err := limiter(t, open(t, url, nil), "api", headgate.FixedWindow, "1/366d").Allow(t.Context(), "key"); err != nil {
			t.Errorf("%s: %v", url, err)
		}
	}
	if space := server.Do(t, "INFO", "keyspace").Text; !strings.Contains(space, "db5:keys=1,") || !strings.Contains(space, "db6:keys=1,") || strings.Contains(space, "db0") {
		t.Errorf("got keys in %q want one in db5 and one in db6", space)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	server, other := testserver.Redis(t, testserver.TLS()), testserver.Redis(t, testserver.TLS())
	plain := testserver.Redis(t)
	_, port, _ := net.SplitHostPort(server.Addr())
	const timeout = "?timeout=9s" // a handshake on a busy machine
	ca := timeout + "&ca=" + server.CAFile()
	mustDecide(t, "rediss://"+server.Addr()+ca)
	mustDecide(t, "rediss://"+server.Addr()+timeout+"&insecure=true")
	mustDecide(t, "rediss://"+server.Addr()+timeout+"&server_name=other.example&verify_name=false&ca="+server.CAFile())
	mustDecide(t, "rediss://"+server.Addr()+ca+"&server_name=localhost")
	mustDecide(t, "rediss://127.0.0.1:1,"+server.Addr()+ca)
	mustDecide(t, "rediss://localhost:"+port+ca)
	const untrusted = "certificate is not trusted"
	mustFail(t, "rediss://"+server.Addr()+timeout, headgate.ReasonUnreachable, untrusted)
	mustFail(t, "rediss://"+server.Addr()+timeout+"&ca="+other.CAFile(), headgate.ReasonUnreachable, untrusted)
	mustFail(t, "rediss://"+server.Addr()+timeout+"&verify_name=false&ca="+other.CAFile(), headgate.ReasonUnreachable, untrusted)
	mustFail(t, "rediss://"+server.Addr()+ca+"&server_name=example.org", headgate.ReasonUnreachable, untrusted)
	mustFail(t, "rediss://"+plain.Addr()+"?ca="+server.CAFile(), headgate.ReasonUnreachable, "use redis:// in place of rediss://")
	mustFail(t, "redis://"+server.Addr(), headgate.ReasonUnreachable, "or require TLS (rediss://)")
}

func TestClientCertificate(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.TLS(), testserver.WithConfig("tls-auth-clients", "yes"))
	url := "rediss://" + server.Addr() + "?timeout=9s&ca=" + server.CAFile()
	mustFail(t, url, headgate.ReasonUnreachable, "a client certificate (cert, key)")
	cert, key := clientPair(t, server)
	mustDecide(t, url+"&cert="+cert+"&key="+key)
}

// clientPair returns the files of the server's certificate, which is also valid for a
// client.
func clientPair(t *testing.T, server *testserver.RedisServer) (cert, key string) {
	t.Helper()
	for _, name := range []string{"tls-cert-file", "tls-key-file"} {
		answer := server.Do(t, "CONFIG", "GET", name).Items
		if len(answer) != 2 {
			t.Fatalf("CONFIG GET %s: got %v want a name and a path", name, answer)
		}
		path := answer[1].Text
		if !filepath.IsAbs(path) {
			path = filepath.Join(server.Dir(), path)
		}
		if _, err := os.Stat(path); err != nil {
			t.Fatal(err)
		}
		cert, key = key, path
	}
	return cert, key
}

// The first call connects, and each later call tries again while there is no server.
func TestConnectRetries(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	server.Kill()
	s := open(t, "redis://"+server.Addr(), nil)
	if err := decideOnce(t.Context(), s); err == nil || err.Reason != headgate.ReasonUnreachable || !strings.Contains(err.Advice, "check that the server is running") {
		t.Errorf("without a server: got %v want unreachable", err)
	}
	for range 2 {
		server.Start()
		eventually(t, func() bool { return decideOnce(t.Context(), s) == nil }, "a decision once the server runs")
		server.Kill()
		if err := decideOnce(t.Context(), s); err == nil {
			t.Error("once it is killed: got a decision want an error")
		}
	}
}

// eventually fails the test unless a condition becomes true.
func eventually(t *testing.T, true func() bool, want string) {
	t.Helper()
	for deadline := time.Now().Add(longTimeout); !true(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("after %v: want %s", longTimeout, want)
		}
	}
}

// A caller that cancels gets the error of its context, not one of the connection.
func TestCancelDuringConnect(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	proxy.Blackhole(true)
	s := open(t, "redis://"+proxy.Addr(), nil)
	for i := range 3 {
		ctx, cancel := context.WithCancel(t.Context())
		answer := make(chan *headgate.StoreError)
		go func() { answer <- decideOnce(ctx, s) }()
		eventually(t, func() bool { return proxy.Counts().Connections > 0 }, "a connection")
		cancel()
		if err := <-answer; err == nil || !errors.Is(err.Err, context.Canceled) {
			t.Errorf("call %d of a server that does not answer: got %v want context.Canceled", i, err)
		}
	}
}

// A handshake completes even if it takes longer than the deadline of any caller. If
// delays of the machine may have been too long for the deadlines, the test repeats with
// longer ones.
func TestReconnectWithShortDeadlines(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.TLS())
	proxy := testserver.Proxy(t, server.Addr())
	s := open(t, "rediss://"+proxy.Addr()+"?ca="+server.CAFile(), nil)
	var last *headgate.StoreError
	for latency := 120 * time.Millisecond; latency < time.Second; latency *= 2 {
		proxy.Restore()
		eventually(t, func() bool { return decideOnce(t.Context(), s) == nil }, "a decision without latency")
		proxy.SetLatency(latency)
		proxy.Reset()
		for range 6 { // TLS, HELLO and the script call take one round trip each
			ctx, cancel := context.WithTimeout(t.Context(), latency*8/3)
			last = decideOnce(ctx, s)
			cancel()
			if last == nil {
				return
			}
		}
	}
	t.Errorf("after 6 tries with each latency: got %v want a decision", last)
}

func TestCloseDuringConnect(t *testing.T) {
	for name, url := range map[string]func(silent string) string{
		"single":   func(silent string) string { return "redis://" + silent },
		"tls":      func(silent string) string { return "rediss://" + silent + "?insecure=true" },
		"cluster":  func(silent string) string { return "redis+cluster://" + silent },
		"sentinel": func(silent string) string { return "redis+sentinel://" + silent + "/main" },
	} {
		t.Run(name, func(t *testing.T) {
			server := testserver.Redis(t)
			proxy := testserver.Proxy(t, server.Addr())
			proxy.Blackhole(true)
			mustEnd := leaktest.Since(t)
			s, err := redisstore.Open(url(proxy.Addr()), &redisstore.Options{Timeout: longTimeout})
			if err != nil {
				t.Fatal(err)
			}
			answer := make(chan *headgate.StoreError)
			go func() { answer <- decideOnce(context.Background(), s) }()
			eventually(t, func() bool { return proxy.Counts().Connections > 0 }, "a connection")
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			if err := <-answer; err == nil || !errors.Is(err.Err, headgate.ErrClosed) {
				t.Errorf("the caller for whom it connected: got %v want ErrClosed", err)
			}
			if err := decideOnce(t.Context(), s); err == nil || !errors.Is(err.Err, headgate.ErrClosed) {
				t.Errorf("after Close: got %v want ErrClosed", err)
			}
			proxy.Cut()
			mustEnd()
		})
	}
}

// Close leaves no connection and no goroutine, for any kind of server.
func TestCloseReleasesResources(t *testing.T) {
	server := testserver.Redis(t)
	urls := []string{"redis://" + server.Addr(), "redis+unix://" + server.Socket()}
	if !testing.Short() {
		cluster, sentinel := testserver.Cluster(t, 3, 0), testserver.Sentinel(t)
		urls = append(urls, "redis+cluster://"+cluster.Addrs()[0],
			"redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+sentinel.MasterName())
	}
	mustEnd := leaktest.Since(t)
	for _, url := range urls {
		s, err := redisstore.Open(url, &redisstore.Options{Timeout: 5 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if err := decideOnce(t.Context(), s); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: %v", url, err)
		}
		mustEnd()
	}
}
