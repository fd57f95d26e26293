package redisstore_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// A key's node is the primary of its slot, also after the slot has moved and after a
// failover, with every client.
func TestNodeOfKey(t *testing.T) {
	t.Parallel()
	cluster := testserver.Cluster(t, 3, 1)
	existing, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: cluster.Addrs()[:1], DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	byClient, err := redisstore.New(redisstore.Rueidis(existing), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = byClient.Close()
		existing.Close()
	})
	byURL := openURL(t, "redis+cluster://"+cluster.Addrs()[0])
	for name, s := range map[string]*redisstore.Store{"URL": byURL, "client": byClient} {
		b, err := s.Bind(headgate.Rule{Scope: "p", Limit: headgate.MustParseLimit("1000/1000h")})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 30 {
			requireNode(t, name, s, b, cluster, fmt.Sprint("key", i))
		}
	}
	b, err := byURL.Bind(headgate.Rule{Scope: "p", Limit: headgate.MustParseLimit("1000/1000h")})
	if err != nil {
		t.Fatal(err)
	}
	const key = "key1"
	slot := slotOfKey(t, cluster, key)
	old := cluster.MasterOf(t, slot)
	for _, n := range cluster.Nodes()[:3] {
		if n != old {
			cluster.MigrateSlot(t, slot, n)
			break
		}
	}
	redisstore.ReadTopology(byURL)
	requireNode(t, "after a migration", byURL, b, cluster, key)
	if got := headgate.NodeOf(b, key); got == old.Addr() {
		t.Errorf("after a migration: the node is still %s", got)
	}
	promoted := cluster.Failover(t, slot)
	redisstore.ReadTopology(byURL)
	requireNode(t, "after a failover", byURL, b, cluster, key)
	if got := headgate.NodeOf(b, key); got != promoted.Addr() {
		t.Errorf("after a failover: got the node %s want %s", got, promoted.Addr())
	}
}

func openURL(t *testing.T, url string) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// requireNode takes a unit of a key, which recovers in an hour, and requires that its
// node is the primary that has the key then.
func requireNode(t *testing.T, name string, s *redisstore.Store, b headgate.Bound, cluster *testserver.RedisCluster, key string) {
	t.Helper()
	if _, err := b.Apply(t.Context(), headgate.StoreClock, key, headgate.Take, 1); err != nil {
		t.Fatal(err)
	}
	redisstore.AwaitTopology(s)
	if got, want := headgate.NodeOf(b, key), cluster.MasterOf(t, slotOfKey(t, cluster, key)).Addr(); got != want {
		t.Errorf("%s: the node of %s is %q want %s", name, key, got, want)
	}
}

// slotOfKey returns the slot of the Redis key that ends with a key.
func slotOfKey(t *testing.T, cluster *testserver.RedisCluster, key string) int {
	t.Helper()
	for _, n := range cluster.Nodes() {
		for _, name := range n.Do(t, "KEYS", "*:"+key).Strings() {
			return testserver.Slot(name)
		}
	}
	t.Fatalf("no node has the key %s", key)
	return 0
}

// A store without a cluster does not name its node.
func TestNodeOfKeyWithoutCluster(t *testing.T) {
	t.Parallel()
	b, err := openURL(t, "redis://"+testserver.Redis(t).Addr()).Bind(headgate.Rule{Limit: headgate.MustParseLimit("1/1s")})
	if err != nil {
		t.Fatal(err)
	}
	if got := headgate.NodeOf(b, "key"); got != "" {
		t.Errorf("got the node %q want none", got)
	}
}

// A call returns at its deadline even while the client waits for a connection that
// another caller opens. The server accepts connections and does not answer.
func TestDeadlineWhileClientBlocks(t *testing.T) {
	t.Parallel()
	proxy := testserver.Proxy(t, testserver.Redis(t).Addr())
	s, err := redisstore.Open("redis://"+proxy.Addr(), &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	b, err := s.Bind(headgate.Rule{Limit: headgate.MustParseLimit("1000000/1s")})
	if err != nil {
		t.Fatal(err)
	}
	take := func(ctx context.Context, key string) error {
		_, err := b.Apply(ctx, headgate.StoreClock, key, headgate.Take, 1)
		return err
	}
	// The client uses one of two connections at random. A busy machine may delay the
	// second caller until the first one has returned.
	const rounds, maxWaits = 10, 2
	waits := 0
	for range rounds {
		for take(t.Context(), "key") != nil { // until the connection works again
		}
		proxy.Blackhole(true)
		proxy.Reset()
		opened := proxy.Counts().Connections
		first := make(chan struct{})
		go func() {
			defer close(first)
			for proxy.Counts().Connections == opened { // the first call may only detect the reset
				take(t.Context(), "first")
			}
		}()
		for proxy.Counts().Connections == opened {
			time.Sleep(time.Millisecond)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		err := take(ctx, "second")
		cancel()
		select {
		case <-first:
			waits++
		case <-time.After(200 * time.Millisecond): // the first caller still waits
		}
		proxy.Blackhole(false)
		<-first
		if err == nil {
			t.Fatal("a server that does not answer decided")
		}
	}
	if waits > maxWaits {
		t.Errorf("a caller with a deadline of 50 ms waited for another caller %d times of %d want %d at most", waits, rounds, maxWaits)
	}
}
