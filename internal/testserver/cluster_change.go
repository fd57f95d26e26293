package testserver

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MigrateSlot moves a slot with all its keys to a master and waits until every node
// knows the new owner. It does nothing if the master already serves the slot.
func (c *RedisCluster) MigrateSlot(t testing.TB, slot int, to *RedisServer) {
	t.Helper()
	if m := c.StartMigration(t, slot, to); m != nil {
		m.Finish(t)
	}
}

// Migration is a slot that is being moved from one master to another. Until it is
// finished, the old master serves the keys that it still has and redirects clients with
// ASK for other keys. For a command with several keys of which it has only some, it
// replies TRYAGAIN.
type Migration struct {
	From, To *RedisServer
	Slot     int
	cluster  *RedisCluster
}

// StartMigration starts to move a slot to a master. Keys are not moved yet. It returns
// nil if the master already serves the slot.
func (c *RedisCluster) StartMigration(t testing.TB, slot int, to *RedisServer) *Migration {
	t.Helper()
	m := &Migration{From: c.MasterOf(t, slot), To: to, Slot: slot, cluster: c}
	if m.From == to {
		return nil
	}
	to.Do(t, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "IMPORTING", m.From.id(t))
	m.From.Do(t, "CLUSTER", "SETSLOT", strconv.Itoa(slot), "MIGRATING", to.id(t))
	return m
}

// MoveKeys moves at most the given number of keys and returns how many it moved.
func (m *Migration) MoveKeys(t testing.TB, most int) int {
	t.Helper()
	keys := m.From.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.Slot), strconv.Itoa(most)).Strings()
	for _, key := range keys {
		m.MoveKey(t, key)
	}
	return len(keys)
}

// MoveKey moves one key. It does nothing if the key does not exist.
func (m *Migration) MoveKey(t testing.TB, key string) {
	t.Helper()
	command := []string{"MIGRATE", "127.0.0.1", m.To.Port(), key, "0", "5000"}
	if m.To.password != "" {
		command = append(command, "AUTH", m.To.password)
	}
	m.From.Do(t, command...)
}

// Finish moves the remaining keys, assigns the slot to its new master, and waits until
// every node knows the new owner.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	const batch = 100
	for m.MoveKeys(t, batch) > 0 {
	}
	id, slot := m.To.id(t), strconv.Itoa(m.Slot)
	// The new master first, so that the slot is served at all times.
	m.To.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	m.From.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	m.cluster.Wait(t)
}

// Failover makes a replica take over from the node that serves a slot, in agreement
// with it so that no write is lost, and waits until every node knows. It returns the
// new master.
func (c *RedisCluster) Failover(t testing.TB, slot int) *RedisServer {
	t.Helper()
	replicas := c.ReplicasOf(t, slot)
	if len(replicas) == 0 {
		t.Fatalf("failover of slot %d: its master has no replica", slot)
	}
	replica := replicas[0]
	// A request expires after five seconds, which is short on a busy machine.
	ask := every(6*time.Second, func() error {
		_, err := replica.Try("CLUSTER", "FAILOVER")
		return err
	})
	await(t, "a replica to take over", func() error {
		info, err := replica.Try("INFO", "replication")
		if err != nil || strings.Contains(info.Text, "role:master") {
			return err
		}
		return errors.Join(errors.New("it has not taken over"), ask())
	})
	c.AwaitMaster(t, slot, replica)
	return replica
}

// KillMaster kills the node that serves a slot and waits until a replica serves it and
// every running node knows. Writes that the replica did not receive are lost. It
// returns the dead node. After Start it is a replica.
func (c *RedisCluster) KillMaster(t testing.TB, slot int) *RedisServer {
	t.Helper()
	dead, replicas := c.ownersOf(t, slot)
	if len(replicas) == 0 {
		t.Fatalf("kill the master of slot %d: it has no replica", slot)
	}
	dead.Kill()
	c.AwaitMaster(t, slot, replicas...)
	return dead
}

// AwaitMaster waits until one of the nodes serves the slot in the view of every running
// node, and the cluster is complete.
func (c *RedisCluster) AwaitMaster(t testing.TB, slot int, nodes ...*RedisServer) {
	t.Helper()
	await(t, "a replica to take over", func() error {
		for _, n := range running(c.nodes) {
			view, err := n.peers()
			if err != nil {
				return err
			}
			if master, _ := c.owners(view, slot); !slices.Contains(nodes, master) {
				return errors.New("no replica is the master in the view of " + n.Addr())
			}
		}
		return nil
	})
	c.Wait(t)
}
