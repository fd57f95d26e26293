package testserver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/internal/testserver"
)

// Slot returns the same slots as a server.
func TestSlotMatchesServer(t *testing.T) {
	t.Parallel()
	s := testserver.Redis(t, testserver.WithConfig("cluster-enabled", "yes"))
	for _, key := range []string{
		"", "k", "123456789", "{user}:a", "a{user}b", "{}k", "{k", "k}", "}{k}", "{{k}}", "{a}{b}", "é\x00",
	} {
		if got, want := testserver.Slot(key), s.Do(t, "CLUSTER", "KEYSLOT", key).Int(); int64(got) != want {
			t.Errorf("slot of %q: got %d want %d", key, got, want)
		}
	}
}

func code(err error) string {
	if err == nil {
		return "no error"
	}
	first, _, _ := strings.Cut(err.Error(), " ")
	return first
}

func TestClusterMigratesSlot(t *testing.T) {
	t.Parallel()
	c := testserver.Cluster(t, 3, 0, testserver.Password("secret"))
	slot := testserver.Slot("{k}")
	from := c.MasterOf(t, slot)
	others := slices.DeleteFunc(c.Nodes(), func(n *testserver.RedisServer) bool { return n == from })
	to, bystander := others[0], others[1]
	expect := func(s *testserver.RedisServer, want string, command ...string) {
		t.Helper()
		if _, err := s.Try(command...); code(err) != want {
			t.Errorf("%q: got %s want %s", command, code(err), want)
		}
	}
	for _, key := range []string{"{k}1", "{k}2", "{k}3"} {
		from.Do(t, "SET", key, "v")
	}
	expect(to, "MOVED", "GET", "{k}1")

	m := c.StartMigration(t, slot, to)
	if got := m.MoveKeys(t, 1); got != 1 {
		t.Errorf("keys moved: got %d want 1", got)
	}
	m.MoveKey(t, "{k}2")
	m.MoveKey(t, "{k}2")
	expect(from, "ASK", "GET", "{k}new")
	expect(to, "MOVED", "GET", "{k}2")
	expect(from, "TRYAGAIN", "MGET", "{k}1", "{k}2", "{k}3")

	m.Finish(t)
	expect(from, "MOVED", "GET", "{k}1")
	if got := to.Do(t, "MGET", "{k}1", "{k}2", "{k}3").String(); got != "v\nv\nv" {
		t.Errorf("keys at the new master: got %q want three", got)
	}
	if got := c.MasterOf(t, slot); got != to {
		t.Errorf("master of the slot: got %s want %s", got.Addr(), to.Addr())
	}
	c.MigrateSlot(t, slot, to)
	want := fmt.Sprintf("MOVED %d %s", slot, to.Addr())
	if _, err := bystander.Try("GET", "{k}1"); err == nil || err.Error() != want {
		t.Errorf("GET of a node that had nothing to do with it: got %v want %s", err, want)
	}
	c.MigrateSlot(t, slot, from)
	expect(to, "MOVED", "GET", "{k}1")
}

func TestClusterFailsOver(t *testing.T) {
	t.Parallel()
	c := testserver.Cluster(t, 3, 1)
	slot := testserver.Slot("k")
	first := c.MasterOf(t, slot)
	first.Do(t, "SET", "k", "v")
	second := c.Failover(t, slot)
	if got := c.MasterOf(t, slot); got != second || second == first {
		t.Errorf("master after a failover: got %s want %s, not %s", got.Addr(), second.Addr(), first.Addr())
	}
	if got := second.Do(t, "GET", "k").String(); got != "v" {
		t.Errorf("GET k of the new master: got %q want v", got)
	}
	if dead := c.KillMaster(t, slot); dead != second {
		t.Errorf("dead: got %s want %s", dead.Addr(), second.Addr())
	}
	if got := c.MasterOf(t, slot); got != first {
		t.Errorf("master after a death: got %s want %s", got.Addr(), first.Addr())
	}
	second.Start()
	c.Wait(t)
	if got := c.ReplicasOf(t, slot); len(got) != 1 || got[0] != second {
		t.Errorf("replicas after the dead is back: got %d want it", len(got))
	}
	if len(c.Addrs()) != 6 {
		t.Errorf("nodes: got %d want 6", len(c.Addrs()))
	}
}
