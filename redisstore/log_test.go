package redisstore_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// logCalls makes calls on one key of a sliding log, one millisecond after another.
type logCalls struct {
	t     *testing.T
	l     *headgate.Limiter
	now   time.Time
	spent int64
}

// take spends n units one after another, and checks that none is lost.
func (c *logCalls) take(n int) {
	c.t.Helper()
	for range n {
		c.now = c.now.Add(time.Millisecond)
		d, err := c.l.AllowAt(context.Background(), c.now, "a", 1)
		c.spent++
		if err != nil || !d.Allowed || d.Remaining != d.Limit-c.spent {
			c.t.Fatalf("take %d: got %+v, error %v want %d remaining", c.spent, d, err, 100_000-c.spent)
		}
	}
}

// A string cannot become a hash without being deleted, and a node that is moving a slot
// refuses to create a key again. So a log stays a string until the slot has moved.
func TestLogGrowsWhileSlotMoves(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 0)
	s := open(t, "redis+cluster://"+cluster.Addrs()[0], nil)
	c := logCalls{t: t, l: limiterOf(t, s, "x", headgate.SlidingLog, "100000/1h"), now: testInstant.Time()}
	c.take(120)
	from, to, name := ownerOfOnlyKey(t, cluster)
	migration := cluster.StartMigration(t, testserver.Slot(name), to)
	c.take(300)
	if got := from.Do(t, "TYPE", name).String(); got != "string" {
		t.Errorf("while the slot moves: got a %s want a string", got)
	}
	migration.MoveKey(t, name)
	migration.Finish(t)
	c.take(1)
	if got := to.Do(t, "TYPE", name).String(); got != "hash" {
		t.Errorf("after the slot has moved: got a %s want a hash", got)
	}
	c.take(200)
	migration = cluster.StartMigration(t, testserver.Slot(name), from)
	c.take(150)
	c.now, c.spent = c.now.Add(2*time.Hour), 0 // all entries have expired
	c.take(150)
	migration.MoveKey(t, name)
	migration.Finish(t)
	c.take(150)
}

// ownerOfOnlyKey returns the node with the only key of the cluster, another node, and
// the key.
func ownerOfOnlyKey(t *testing.T, cluster *testserver.RedisCluster) (owner, other *testserver.RedisServer, name string) {
	t.Helper()
	for _, node := range cluster.Nodes() {
		if keys := node.Do(t, "KEYS", "*").Strings(); len(keys) == 1 {
			owner, name = node, keys[0]
		} else {
			other = node
		}
	}
	if owner == nil {
		t.Fatal("no node has one key")
	}
	return owner, other, name
}

// A hash that another program wrote is not changed, and a log with a missing chunk is
// an error, not a decision.
func TestLogForeignHash(t *testing.T) {
	server := testserver.Redis(t)
	c := logCalls{t: t, l: limiterOf(t, open(t, "redis://"+server.Addr(), nil), "x", headgate.SlidingLog, "100000/1h"), now: testInstant.Time()}
	c.take(1)
	name := server.Do(t, "KEYS", "*").Strings()[0]
	c.take(600)
	for _, damage := range [][]string{{"HDEL", name, "2"}, {"HSET", name, "h", "x"}, {"DEL", name}} {
		server.Do(t, damage...)
		if damage[0] == "DEL" {
			server.Do(t, "HSET", name, "field", "value")
		}
		var known *headgate.StoreError
		d, err := c.l.PeekAt(t.Context(), c.now, "a", 100_000-300)
		if !errors.As(err, &known) || known.Reason != headgate.ReasonWrongType {
			t.Errorf("after %v: got %+v, error %v want wrong type", damage, d, err)
		}
	}
	if _, err := c.l.AllowAt(t.Context(), c.now, "a", 1); err == nil || server.Do(t, "HLEN", name).Int() != 1 {
		t.Errorf("take: got error %v want an error, and the hash unchanged", err)
	}
}
