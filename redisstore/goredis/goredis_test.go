package goredis_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/redisstore/goredis"
	"github.com/headgate/headgate/storetest"
)

func TestStore(t *testing.T) {
	server := testserver.Redis(t)
	runConformance(t, func() redis.UniversalClient {
		return redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: 10 * time.Second})
	})
}

func TestCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests run the suite on a cluster")
	}
	cluster := testserver.Cluster(t, 3, 0)
	o := conformance()
	o.NonAtomic = true
	runConformanceWith(t, o, func() redis.UniversalClient {
		return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: 10 * time.Second})
	})
}

// A Ring stores the keys of a call on one shard, and other keys on other shards.
func TestRing(t *testing.T) {
	t.Parallel()
	a, b := testserver.Redis(t), testserver.Redis(t)
	client := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": a.Addr(), "b": b.Addr()}})
	s := open(t, client, &redisstore.Options{Ephemeral: true})
	l, err := headgate.New(s, headgate.MustPolicy("3/1h", "100/24h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Split("abcdefghij", "") {
		for i := range 4 {
			d, err := l.Allow(t.Context(), key)
			if err != nil || d.Allowed != (i < 3) {
				t.Fatalf("request %d: got %+v, error %v", i+1, d, err)
			}
		}
	}
	x, y := a.Do(t, "DBSIZE").Int(), b.Do(t, "DBSIZE").Int()
	if x < 2 || y < 2 || x+y != 20 {
		t.Errorf("got %d and %d keys on the shards want 20, some on each", x, y)
	}
	if err := s.Close(); err != nil || a.Do(t, "DBSIZE").Int()+b.Do(t, "DBSIZE").Int() != 0 {
		t.Errorf("got error %v want all keys removed", err)
	}
}

func conformance() storetest.Options {
	if testing.Short() {
		return storetest.Options{Decisions: 300, Rounds: 1, Parallelism: 32}
	}
	return storetest.Options{Decisions: 800, Rounds: 1, Parallelism: 32}
}

func runConformance(t *testing.T, client func() redis.UniversalClient) {
	runConformanceWith(t, conformance(), client)
}

func runConformanceWith(t *testing.T, o storetest.Options, client func() redis.UniversalClient) {
	o.Run(t, func(t *testing.T) headgate.Store {
		return open(t, client(), &redisstore.Options{Timeout: 10 * time.Second})
	})
}

func open(t *testing.T, client redis.UniversalClient, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.New(goredis.Client(client), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.Close()
		_ = client.Close()
	})
	return s
}

// The client of an application works after the store is closed.
func TestCloseKeepsClient(t *testing.T) {
	t.Parallel()
	client := redis.NewClient(&redis.Options{Addr: testserver.Redis(t).Addr()})
	s := open(t, client, nil)
	if _, err := limiter(t, s).Allow(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(t.Context()).Err(); err != nil {
		t.Errorf("PING after Close of the store: %v", err)
	}
}

func limiter(t *testing.T, s headgate.Store) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(s, headgate.MustPolicy("100/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// A client that retries up to three times sends a call of the store only once, alone
// and pipelined.
func TestNoRetryAfterLostReply(t *testing.T) {
	t.Parallel()
	for name, together := range map[string]int{"alone": 1, "pipelined": 20} {
		server := testserver.Redis(t)
		proxy := testserver.Proxy(t, server.Addr())
		client := redis.NewClient(&redis.Options{Addr: proxy.Addr(), MaxRetries: 3, ReadTimeout: longTimeout})
		l := limiter(t, open(t, client, nil))
		if _, err := l.Allow(t.Context(), "key"); err != nil {
			t.Fatal(err)
		}
		spent := int64(1)
		proxy.DropReplies(1)
		failed := make(chan error, together)
		for range together {
			go func() {
				_, err := l.Allow(t.Context(), "key")
				failed <- err
			}()
		}
		lost := int64(0)
		for range together {
			err := <-failed
			if err == nil {
				spent++
				continue
			}
			var storeErr *headgate.StoreError
			if lost++; !errors.As(err, &storeErr) || storeErr.Reason != headgate.ReasonTimedOut {
				t.Errorf("%s: a lost reply: got %v want timed out", name, err)
			}
		}
		d, err := l.PeekN(t.Context(), "key", 1)
		if err != nil || lost == 0 || d.Remaining != 100-spent-lost {
			t.Errorf("%s: %d answered, %d lost: got %d remaining, error %v want each spent once", name, spent, lost, d.Remaining, err)
		}
	}
}

// longTimeout is a timeout that does not expire on a busy machine.
const longTimeout = 20 * time.Second

// A call to an unresponsive server ends with its context.
func TestCallEndsWithContext(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	l := limiter(t, open(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: time.Hour}), nil))
	if _, err := l.Allow(t.Context(), "key"); err != nil {
		t.Fatal(err)
	}
	server.Stop()
	defer server.Continue()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	answer := make(chan error, 1)
	go func() {
		_, err := l.Allow(ctx, "key")
		answer <- err
	}()
	select {
	case err := <-answer:
		var storeErr *headgate.StoreError
		if !errors.As(err, &storeErr) || storeErr.Reason != headgate.ReasonTimedOut {
			t.Errorf("got %v want timed out", err)
		}
	case <-time.After(longTimeout):
		t.Errorf("a call with 50 ms: got no answer after %v", longTimeout)
	}
}

func TestErrorAdvice(t *testing.T) {
	t.Parallel()
	locked := testserver.Redis(t, testserver.Password("right"))
	full := testserver.Redis(t, testserver.WithConfig("maxmemory", "1kb"))
	cluster := testserver.Cluster(t, 3, 0)
	for name, c := range map[string]struct {
		opts   redis.Options
		reason headgate.StoreErrorReason
		advice string
	}{
		"no password":       {redis.Options{Addr: locked.Addr()}, headgate.ReasonRefused, "the server requires a password"},
		"wrong password":    {redis.Options{Addr: locked.Addr(), Password: "wrong"}, headgate.ReasonRefused, "wrong username or password"},
		"no server":         {redis.Options{Addr: "127.0.0.1:1"}, headgate.ReasonUnreachable, "check that the server is running"},
		"out of memory":     {redis.Options{Addr: full.Addr()}, headgate.ReasonRefused, "the server is out of memory"},
		"wrong database":    {redis.Options{Addr: full.Addr(), DB: 99}, headgate.ReasonRefused, "the server has no database of this number"},
		"node of a cluster": {redis.Options{Addr: cluster.MasterOf(t, 0).Addr()}, headgate.ReasonRefused, "the server is a cluster node"},
	} {
		l := limiter(t, open(t, redis.NewClient(&c.opts), nil))
		var err error
		for _, key := range strings.Split("abcdefghij", "") {
			if _, err = l.Allow(t.Context(), key); err != nil {
				break
			}
		}
		var storeErr *headgate.StoreError
		if !errors.As(err, &storeErr) || storeErr.Reason != c.reason || !strings.Contains(storeErr.Advice, c.advice) {
			t.Errorf("%s: got %v want %v with advice %q", name, err, c.reason, c.advice)
		}
	}
}

// Closing an ephemeral store removes its keys on every node, and no other keys.
func TestRemoveNamespace(t *testing.T) {
	t.Parallel()
	server, cluster := testserver.Redis(t), testserver.Cluster(t, 3, 0)
	for name, client := range map[string]func() redis.UniversalClient{
		"single": func() redis.UniversalClient { return redis.NewClient(&redis.Options{Addr: server.Addr()}) },
		"cluster": func() redis.UniversalClient {
			return redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs()})
		},
	} {
		kept := limiter(t, open(t, client(), &redisstore.Options{Namespace: "kept"}))
		gone := open(t, client(), &redisstore.Options{Namespace: "gone", Ephemeral: true})
		for _, key := range strings.Split("abcdefghij", "") {
			for _, l := range []*headgate.Limiter{kept, limiter(t, gone)} {
				if _, err := l.Allow(t.Context(), key); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := gone.Close(); err != nil {
			t.Error(err)
		}
		again := limiter(t, open(t, client(), &redisstore.Options{Namespace: "gone"}))
		for l, want := range map[*headgate.Limiter]int64{kept: 99, again: 100} {
			if d, err := l.PeekN(t.Context(), "e", 1); err != nil || d.Remaining != want {
				t.Errorf("%s: got %d remaining, error %v want %d", name, d.Remaining, err, want)
			}
		}
	}
}

func Example() {
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", ContextTimeoutEnabled: true})
	store, err := redisstore.New(goredis.Client(client), nil)
	if err != nil {
		panic(err)
	}
	defer client.Close() // closing the store does not close it
	defer store.Close()
	limiter, err := headgate.New(store, headgate.MustPolicy("100/1m"), nil)
	if err != nil {
		panic(err)
	}
	if d, err := limiter.Allow(context.Background(), "user 7"); err == nil && !d.Allowed {
		time.Sleep(d.RetryAfter)
	}
}
