package testserver

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// MigrateSlot moves a slot with all its keys to a master and waits until every node knows. Nothing happens if it is there.
func (c *RedisCluster) MigrateSlot(t testing.TB, slot int, to *RedisServer) {
	t.Helper()
	if m := c.StartMigration(t, slot, to); m != nil {
		m.Finish(t)
	}
}

// Migration is a slot on its way from one master to another. Until it is finished, the old master answers for keys that are there
// and sends clients on, with ASK, for those that are not; for several keys at once, of which some are there, it answers TRYAGAIN.
type Migration struct {
	From, To *RedisServer
	Slot     int
	cluster  *RedisCluster
}

// StartMigration marks a slot as on its way to a master; keys stay where they are until they are moved. It returns nil if the
// slot is there already.
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

// MoveKeys moves up to most keys and returns how many there were to move.
func (m *Migration) MoveKeys(t testing.TB, most int) int {
	t.Helper()
	keys := m.From.Do(t, "CLUSTER", "GETKEYSINSLOT", strconv.Itoa(m.Slot), strconv.Itoa(most)).Strings()
	for _, key := range keys {
		m.MoveKey(t, key)
	}
	return len(keys)
}

// MoveKey moves one key. It does nothing if the key is not there, or no longer.
func (m *Migration) MoveKey(t testing.TB, key string) {
	t.Helper()
	command := []string{"MIGRATE", "127.0.0.1", m.To.Port(), key, "0", "5000"}
	if m.To.password != "" {
		command = append(command, "AUTH", m.To.password)
	}
	m.From.Do(t, command...)
}

// Finish moves the keys that are left and gives the slot to its new master, and waits until every node knows.
func (m *Migration) Finish(t testing.TB) {
	t.Helper()
	const batch = 100
	for m.MoveKeys(t, batch) > 0 {
	}
	id, slot := m.To.id(t), strconv.Itoa(m.Slot)
	m.To.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id) // the new one first: somebody must always answer for the slot
	m.From.Do(t, "CLUSTER", "SETSLOT", slot, "NODE", id)
	m.cluster.Wait(t)
}

// Failover makes a replica of the node that serves a slot take its place, in agreement with it so that no write is lost, and
// waits until every node knows. It returns the new master.
func (c *RedisCluster) Failover(t testing.TB, slot int) *RedisServer {
	t.Helper()
	replicas := c.ReplicasOf(t, slot)
	if len(replicas) == 0 {
		t.Fatalf("failover of slot %d: its master has no replica", slot)
	}
	heir := replicas[0]
	ask := every(6*time.Second, func() error { // a request is good for five seconds, which a busy machine may miss
		_, err := heir.Try("CLUSTER", "FAILOVER")
		return err
	})
	await(t, "a replica to take over", func() error {
		info, err := heir.Try("INFO", "replication")
		if err != nil || strings.Contains(info.Text, "role:master") {
			return err
		}
		return errors.Join(errors.New("it has not"), ask())
	})
	c.awaitMaster(t, slot, heir)
	return heir
}

// KillMaster kills the node that serves a slot and waits until a replica serves it and every node that runs knows. Writes that
// the replica had not got are lost. It returns the dead node, which may be started again and then is a replica.
func (c *RedisCluster) KillMaster(t testing.TB, slot int) *RedisServer {
	t.Helper()
	dead, replicas := c.ownersOf(t, slot)
	if len(replicas) == 0 {
		t.Fatalf("kill the master of slot %d: it has no replica", slot)
	}
	dead.Kill()
	c.awaitMaster(t, slot, replicas...)
	return dead
}

// awaitMaster waits until one of the nodes serves the slot by the view of every node.
func (c *RedisCluster) awaitMaster(t testing.TB, slot int, nodes ...*RedisServer) {
	t.Helper()
	await(t, "a replica to take over", func() error {
		for _, n := range running(c.nodes) {
			view, err := n.peers()
			if err != nil {
				return err
			}
			if master, _ := c.owners(view, slot); !slices.Contains(nodes, master) {
				return errors.New("it is none by the view of " + n.Addr())
			}
		}
		return nil
	})
	c.Wait(t)
}
