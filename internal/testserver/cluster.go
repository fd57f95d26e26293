package testserver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// RedisCluster is a Redis cluster on the loopback interface. A master that is
// unavailable for two seconds is replaced by its replica one or two seconds later. All
// methods may be called concurrently; methods that change the owner of a slot must not
// overlap.
type RedisCluster struct {
	nodes    []*RedisServer
	ids      map[string]*RedisServer
	replicas int // of all masters together
}

// Cluster starts masters with replicasEach replicas each, distributes the slots evenly
// in the order of the nodes, and waits until every node serves the whole cluster. It
// takes about three seconds, because a new cluster waits for two. The cluster ends with
// the test.
func Cluster(t testing.TB, masters, replicasEach int, opts ...Option) *RedisCluster {
	t.Helper()
	o := collect(t, opts)
	c := &RedisCluster{ids: make(map[string]*RedisServer), replicas: masters * replicasEach}
	for range masters * (1 + replicasEach) {
		c.nodes = append(c.nodes, newRedis(t, o, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000",
			"cluster-replica-validity-factor 0", // any replica may take over, however stale
			"cluster-allow-replica-migration no"))
	}
	for _, n := range c.nodes {
		n.mustRun(t)
		c.ids[n.id(t)] = n
	}
	c.join(t, masters)
	c.Wait(t)
	return c
}

// join makes single nodes a cluster. The first nodes are the masters; the replicas
// follow in the order of their masters.
func (c *RedisCluster) join(t testing.TB, masters int) {
	t.Helper()
	for i, n := range c.nodes {
		n.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // avoids epoch conflicts
		for _, other := range c.nodes[:i] {
			n.Do(t, "CLUSTER", "MEET", "127.0.0.1", other.Port()) // all nodes, because gossip is slow
		}
		if i < masters {
			n.addSlots(t, i*slots/masters, (i+1)*slots/masters)
		}
	}
	for i, n := range c.nodes[masters:] {
		master := c.nodes[i%masters]
		await(t, "a replica to know its master", func() error {
			_, err := n.Try("CLUSTER", "REPLICATE", master.id(t))
			return err
		})
	}
}

// id returns the node's ID in its cluster.
func (s *RedisServer) id(t testing.TB) string {
	t.Helper()
	return s.Do(t, "CLUSTER", "MYID").Text
}

// addSlots assigns the slots from first to before end to the node. Redis before 7 does
// not support ranges.
func (s *RedisServer) addSlots(t testing.TB, first, end int) {
	t.Helper()
	command := []string{"CLUSTER", "ADDSLOTS"}
	for slot := first; slot < end; slot++ {
		command = append(command, strconv.Itoa(slot))
	}
	s.Do(t, command...)
}

// Nodes returns all servers, including dead ones: first the initial masters, then the
// replicas in the order of their masters.
func (c *RedisCluster) Nodes() []*RedisServer { return slices.Clone(c.nodes) }

// Addrs returns the addresses of Nodes.
func (c *RedisCluster) Addrs() []string { return addrs(c.nodes) }

func addrs(servers []*RedisServer) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

// running returns the servers whose processes run.
func running(servers []*RedisServer) []*RedisServer {
	return slices.DeleteFunc(slices.Clone(servers), func(s *RedisServer) bool { return !s.alive() })
}

func (s *RedisServer) alive() bool {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	return s.process.running()
}

// Wait waits until all running nodes serve all slots, agree on their owners and know
// each other, and every replica is in sync with its master. Dead nodes are ignored. A
// stopped node must be continued first.
func (c *RedisCluster) Wait(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be complete", func() error {
		nodes := running(c.nodes)
		var agreed string
		for _, n := range nodes {
			served, err := n.completeView(len(nodes))
			if err != nil {
				return fmt.Errorf("node %s: %w", n.Addr(), err)
			}
			if agreed != "" && served != agreed {
				return fmt.Errorf("node %s reports the slot owners\n%s\nbut the previous node reports\n%s", n.Addr(), served, agreed)
			}
			agreed = served
		}
		return nil
	})
}

// completeView returns the owners of the slots as seen by this node, or an error if
// this node does not yet see the whole cluster.
func (s *RedisServer) completeView(nodes int) (served string, err error) {
	info, err := s.Try("CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	if !strings.Contains(info.Text, "cluster_state:ok") {
		return "", errors.New("cluster_state is not ok")
	}
	peers, err := s.peers()
	if err != nil {
		return "", err
	}
	var lines []string
	present := 0
	for _, p := range peers {
		if p.is("handshake") || p.is("fail?") {
			return "", fmt.Errorf("%s is %s", p.id, p.flags)
		}
		if !p.is("fail") {
			present++
			lines = append(lines, p.id+" of "+p.master+" "+strings.Join(p.slots, " "))
		}
	}
	if present != nodes {
		return "", fmt.Errorf("knows %d of %d nodes", present, nodes)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), s.checkSync()
}

// checkSync returns an error while a replica does not follow its master.
func (s *RedisServer) checkSync() error {
	info, err := s.Try("INFO", "replication")
	if err != nil {
		return err
	}
	if strings.Contains(info.Text, "role:slave") && !strings.Contains(info.Text, "master_link_status:up") {
		return errors.New("replica is not in sync with its master")
	}
	return nil
}

// peer is a line of CLUSTER NODES.
type peer struct {
	id, flags, master string
	slots             []string // ranges; slots that are being moved are in brackets
}

func (p peer) is(flag string) bool { return slices.Contains(strings.Split(p.flags, ","), flag) }

// serves reports whether the slot is in one of the ranges.
func (p peer) serves(slot int) bool {
	return slices.ContainsFunc(p.slots, func(text string) bool {
		first, last, found := strings.Cut(text, "-")
		if !found {
			last = first
		}
		from, err1 := strconv.Atoi(first)
		to, err2 := strconv.Atoi(last)
		return err1 == nil && err2 == nil && from <= slot && slot <= to
	})
}

// peers returns all nodes of the cluster as seen by this node, including itself.
func (s *RedisServer) peers() ([]peer, error) {
	reply, err := s.Try("CLUSTER", "NODES")
	if err != nil {
		return nil, err
	}
	var all []peer
	for line := range strings.Lines(reply.Text) {
		// id address flags master ping pong epoch link slots…
		if words := strings.Fields(line); len(words) >= 8 {
			all = append(all, peer{words[0], words[2], words[3], words[8:]})
		}
	}
	return all, nil
}

// MasterOf returns the node that serves a slot, according to the first running node
// that knows a master of the slot.
func (c *RedisCluster) MasterOf(t testing.TB, slot int) *RedisServer {
	t.Helper()
	master, _ := c.ownersOf(t, slot)
	return master
}

// ReplicasOf returns the running replicas of the node that serves a slot.
func (c *RedisCluster) ReplicasOf(t testing.TB, slot int) []*RedisServer {
	t.Helper()
	_, replicas := c.ownersOf(t, slot)
	return replicas
}

// ownersOf returns the master that serves a slot, and its replicas. It waits until a
// running node knows a master of the slot.
func (c *RedisCluster) ownersOf(t testing.TB, slot int) (master *RedisServer, replicas []*RedisServer) {
	t.Helper()
	await(t, fmt.Sprintf("a master of slot %d", slot), func() error {
		for _, n := range running(c.nodes) {
			peers, err := n.peers()
			if err != nil {
				continue
			}
			if master, replicas = c.owners(peers, slot); master != nil {
				return nil
			}
		}
		return errors.New("no running node knows a master of the slot")
	})
	return master, replicas
}

// owners returns the master of a slot and the replicas of that master, as seen by one
// node. A failed master does not count.
func (c *RedisCluster) owners(view []peer, slot int) (master *RedisServer, replicas []*RedisServer) {
	at := slices.IndexFunc(view, func(p peer) bool { return p.is("master") && !p.is("fail") && p.serves(slot) })
	if at < 0 {
		return nil, nil
	}
	for _, p := range view {
		if p.master == view[at].id && c.ids[p.id].alive() {
			replicas = append(replicas, c.ids[p.id])
		}
	}
	return c.ids[view[at].id], replicas
}

// slots is the number of slots of a cluster.
const slots = 1 << 14

// Slot returns the slot of a key. It hashes the text between the first { and the next
// }, if there is any, or else the whole key.
func Slot(key string) int {
	if _, after, found := strings.Cut(key, "{"); found {
		if tag, _, closed := strings.Cut(after, "}"); closed && tag != "" {
			key = tag
		}
	}
	var sum uint16 // CRC-16/XMODEM
	for _, b := range []byte(key) {
		sum ^= uint16(b) << 8
		for range 8 {
			carry := sum & 0x8000
			sum <<= 1
			if carry != 0 {
				sum ^= 0x1021
			}
		}
	}
	return int(sum) % slots
}
