package redisstore_test

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// clusterKeys is a limit of 10 units on a cluster, with a key on each of its three nodes.
type clusterKeys struct {
	t       *testing.T
	cluster *testserver.RedisCluster
	store   *redisstore.Store
	limiter *headgate.Limiter
	bound   headgate.Bound
	keys    [3]string
}

func newClusterKeys(t *testing.T, a headgate.Algorithm) *clusterKeys {
	t.Helper()
	c := &clusterKeys{t: t, cluster: testserver.Cluster(t, 3, 0)}
	c.store = openURL(t, "redis+cluster://"+c.cluster.Addrs()[0])
	c.limiter = limiterOf(t, c.store, "p", a, "10/24h")
	var err error
	if c.bound, err = c.store.Bind(headgate.Rule{Scope: "policy:0:p", Name: "p", Limit: headgate.MustParseLimit("10/24h"), Algorithm: a}); err != nil {
		t.Fatal(err)
	}
	c.apply("a", headgate.Peek, 0)
	redisstore.ReadTopology(c.store)
	for key := 'a'; key < 'z'; key++ {
		for i, node := range c.cluster.Nodes() {
			if headgate.NodeOf(c.bound, string(key)) == node.Addr() {
				c.keys[i] = string(key)
			}
		}
	}
	return c
}

// ops returns an operation on each of the keys.
func (c *clusterKeys) ops(id byte, cost int64) (ops []headgate.HoldOp, results []headgate.HoldResult) {
	for _, key := range c.keys {
		ops = append(ops, headgate.HoldOp{Op: headgate.Op{Bound: c.bound, Key: key, Cost: cost}, ID: headgate.HoldID{id}})
	}
	return ops, make([]headgate.HoldResult, len(ops))
}

func (c *clusterKeys) apply(key string, v headgate.Verb, cost int64) {
	c.t.Helper()
	if _, err := c.bound.Apply(c.t.Context(), testInstant, key, v, cost); err != nil {
		c.t.Fatal(err)
	}
}

func (c *clusterKeys) mustRemain(want ...int64) {
	c.t.Helper()
	for i, n := range want {
		if d, err := c.bound.Apply(c.t.Context(), testInstant, c.keys[i], headgate.Peek, 0); err != nil || d.Remaining != n {
			c.t.Errorf("key %d: got %d remaining, error %v want %d", i+1, d.Remaining, err, n)
		}
	}
}

// limitMemory makes a node reject every script call until the function that it returns is
// called.
func (c *clusterKeys) limitMemory(node int) (restore func()) {
	c.cluster.Nodes()[node].Do(c.t, "CONFIG", "SET", "maxmemory", "1")
	return func() { c.cluster.Nodes()[node].Do(c.t, "CONFIG", "SET", "maxmemory", "0") }
}

// If a later node fails, TakeUpTo cancels what it has taken on the nodes before.
func TestTakeUpToFailsOnOneNode(t *testing.T) {
	t.Parallel()
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingLog} {
		c := newClusterKeys(t, a)
		c.apply(c.keys[1], headgate.Take, 1)
		restore := c.limitMemory(2)
		ops, results := c.ops(1, 4)
		if _, err := c.store.ApplyHolds(t.Context(), testInstant, headgate.TakeUpTo, 0, ops, results); err == nil {
			t.Errorf("%s: got %+v want an error", a, results)
		}
		restore()
		c.mustRemain(10, 9, 10)
	}
}

// A hold was opened on all keys, and two of them were reset. Its request is repeated and
// denied by one key. No other key is charged by that.
func TestRepeatedHoldIsDenied(t *testing.T) {
	t.Parallel()
	c := newClusterKeys(t, headgate.TokenBucket)
	open := func() ([]headgate.HoldResult, error) {
		ops, results := c.ops(1, 3)
		_, err := c.store.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Minute, ops, results)
		return results, err
	}
	if _, err := open(); err != nil {
		t.Fatal(err)
	}
	for _, key := range c.keys[1:] {
		c.apply(key, headgate.Reset, 0)
	}
	c.apply(c.keys[2], headgate.Take, 9)
	if results, err := open(); err != nil || results[2].Allowed {
		t.Errorf("got %+v, error %v want a denial", results, err)
	}
	c.mustRemain(7, 10, 1)
	restore := c.limitMemory(2)
	if results, err := open(); err == nil {
		t.Errorf("got %+v want an error", results)
	}
	restore()
	c.mustRemain(7, 10, 1)
}

// client returns a client of the cluster that uses the proxy for the last node.
func (c *clusterKeys) client(proxy *testserver.FaultProxy) redisstore.Client {
	c.t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: c.cluster.Addrs(), DisableCache: true,
		DialCtxFn: func(ctx context.Context, addr string, d *net.Dialer, _ *tls.Config) (net.Conn, error) {
			if proxy != nil && addr == c.cluster.Nodes()[2].Addr() {
				addr = proxy.Addr()
			}
			return d.DialContext(ctx, "tcp", addr)
		},
	})
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(client.Close)
	return redisstore.Rueidis(client)
}

// The reply of one node is lost, and another node denies. The first node has opened the
// hold, so it is cancelled there, too.
func TestHoldWithLostReplyIsCancelled(t *testing.T) {
	t.Parallel()
	c := newClusterKeys(t, headgate.TokenBucket)
	proxy := testserver.Proxy(t, c.cluster.Nodes()[2].Addr())
	s, err := redisstore.New(c.client(proxy), nil)
	if err != nil {
		t.Fatal(err)
	}
	l := limiterOf(t, s, "p", headgate.TokenBucket, "10/24h")
	var checks []headgate.Check
	for _, key := range c.keys {
		if _, err := l.PeekAt(t.Context(), testInstant.Time(), key, 1); err != nil {
			t.Fatal(err)
		}
		checks = append(checks, headgate.Check{Limiter: l, Key: key, Cost: 3})
	}
	c.apply(c.keys[0], headgate.Take, 10)
	proxy.DropRepliesTo(1, "EVALSHA")
	if h, err := headgate.HoldAllAt(t.Context(), testInstant.Time(), &headgate.HoldOptions{TTL: time.Minute}, checks...); err == nil {
		t.Errorf("got %+v want an error", h)
	}
	c.mustRemain(0, 10, 10)
}

// With the maximum number of open holds, a repeated hold is replayed or a conflict, and
// only another hold is one too many: on a cluster, on one server and in memory.
func TestRepeatedHoldOfFullKeys(t *testing.T) {
	t.Parallel()
	for name, store := range map[string]headgate.HoldStore{
		"cluster": openURL(t, "redis+cluster://"+testserver.Cluster(t, 3, 0).Addrs()[0]),
		"redis":   openURL(t, "redis://"+testserver.Redis(t).Addr()),
		"memory":  memstore.New(nil),
	} {
		bound, err := store.Bind(headgate.Rule{
			Scope: "s", Name: "s", Limit: headgate.MustParseLimit("10/24h"), Algorithm: headgate.FixedWindow, Holds: headgate.HoldSettings{MaxOpen: 1},
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			what     string
			id       byte
			keys     []string
			cost     int64
			replayed bool
			want     error
		}{
			{"first hold", 1, []string{"a", "b"}, 2, false, nil},
			{"another hold of a third key", 2, []string{"c"}, 2, false, nil},
			{"the same hold again", 1, []string{"a", "b"}, 2, true, nil},
			{"another cost", 1, []string{"a", "b"}, 3, false, headgate.ErrHoldConflict},
			{"a key more, which is full", 1, []string{"c", "a", "b"}, 2, false, headgate.ErrHoldConflict},
			{"another id", 3, []string{"a", "b", "c"}, 2, false, headgate.ErrTooManyHolds},
			{"another id, and one free key", 3, []string{"d", "a"}, 2, false, headgate.ErrTooManyHolds},
		} {
			ops, results := make([]headgate.HoldOp, len(tt.keys)), make([]headgate.HoldResult, len(tt.keys))
			for i, key := range tt.keys {
				ops[i] = headgate.HoldOp{Op: headgate.Op{Bound: bound, Key: key, Cost: tt.cost}, ID: headgate.HoldID{tt.id}}
			}
			_, err := store.ApplyHolds(t.Context(), testInstant, headgate.OpenHold, time.Minute, ops, results)
			if !errors.Is(err, tt.want) || err == nil && results[0].Replayed != tt.replayed {
				t.Errorf("%s, %s: got error %v, replayed %v want %v, %v", name, tt.what, err, results[0].Replayed, tt.want, tt.replayed)
			}
		}
		for key, want := range map[string]int64{"a": 8, "b": 8, "c": 8, "d": 10} {
			if d, err := bound.Apply(t.Context(), testInstant, key, headgate.Peek, 0); err != nil || d.Remaining != want {
				t.Errorf("%s, key %s: got %d remaining, error %v want %d", name, key, d.Remaining, err, want)
			}
		}
	}
}
