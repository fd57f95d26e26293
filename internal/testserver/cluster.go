package testserver

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// RedisCluster is a cluster of Redis servers on the loopback interface. A master that is gone for two seconds is replaced by its
// replica, one or two seconds later. All methods may be called concurrently; those that change who serves what must not overlap.
type RedisCluster struct {
	nodes    []*RedisServer
	ids      map[string]*RedisServer
	replicas int // of all masters together
}

// Cluster starts masters with as many replicas each, shares the slots out evenly, in the order of the nodes, and waits until
// every node answers for the whole cluster. It takes some three seconds: servers make a new cluster wait for two. It ends with
// the test.
func Cluster(t testing.TB, masters, replicasEach int, opts ...Option) *RedisCluster {
	t.Helper()
	o := collect(t, opts)
	c := &RedisCluster{ids: make(map[string]*RedisServer), replicas: masters * replicasEach}
	for range masters * (1 + replicasEach) {
		c.nodes = append(c.nodes, newRedis(t, o, "cluster-enabled yes", "cluster-config-file nodes.conf", "cluster-node-timeout 2000",
			"cluster-replica-validity-factor 0", // a replica may always take over, however long it heard nothing
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

// join makes single nodes a cluster: the first are the masters, the replicas follow in the masters' order.
func (c *RedisCluster) join(t testing.TB, masters int) {
	t.Helper()
	for i, n := range c.nodes {
		n.Do(t, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1)) // or they would first have to find out who gives way
		for _, other := range c.nodes[:i] {
			n.Do(t, "CLUSTER", "MEET", "127.0.0.1", other.Port()) // everyone, as gossip takes its time
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

// id is the node's name in its cluster.
func (s *RedisServer) id(t testing.TB) string {
	t.Helper()
	return s.Do(t, "CLUSTER", "MYID").Text
}

// addSlots gives the node the slots from first to before end. Redis before 7 knows no ranges.
func (s *RedisServer) addSlots(t testing.TB, first, end int) {
	t.Helper()
	command := []string{"CLUSTER", "ADDSLOTS"}
	for slot := first; slot < end; slot++ {
		command = append(command, strconv.Itoa(slot))
	}
	s.Do(t, command...)
}

// Nodes are all servers, dead ones among them: at first the masters, then the replicas in the order of their masters.
func (c *RedisCluster) Nodes() []*RedisServer { return slices.Clone(c.nodes) }

// Addrs are the addresses of Nodes.
func (c *RedisCluster) Addrs() []string { return addrs(c.nodes) }

func addrs(servers []*RedisServer) []string {
	all := make([]string, len(servers))
	for i, s := range servers {
		all[i] = s.Addr()
	}
	return all
}

// running are the servers whose processes are there.
func running(servers []*RedisServer) []*RedisServer {
	return slices.DeleteFunc(slices.Clone(servers), func(s *RedisServer) bool { return !s.alive() })
}

func (s *RedisServer) alive() bool {
	s.process.mu.Lock()
	defer s.process.mu.Unlock()
	return s.process.running()
}

// Wait waits until the cluster is whole: all nodes that run answer for all slots, agree on who serves them and know each other as
// well; every replica is in step with its master. Dead nodes may be missing. A stopped one must be let go on first.
func (c *RedisCluster) Wait(t testing.TB) {
	t.Helper()
	await(t, "the cluster to be whole", func() error {
		nodes := running(c.nodes)
		var agreed string
		for _, n := range nodes {
			served, err := n.whole(len(nodes))
			if err != nil {
				return fmt.Errorf("node %s: %w", n.Addr(), err)
			}
			if agreed != "" && served != agreed {
				return fmt.Errorf("node %s has another view:\n%s\nand\n%s", n.Addr(), served, agreed)
			}
			agreed = served
		}
		return nil
	})
}

// whole returns who serves what by this node's view, or an objection to it.
func (s *RedisServer) whole(nodes int) (served string, err error) {
	info, err := s.Try("CLUSTER", "INFO")
	if err != nil {
		return "", err
	}
	if !strings.Contains(info.Text, "cluster_state:ok") {
		return "", errors.New("its state is not ok")
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
		return "", fmt.Errorf("it knows %d nodes of %d", present, nodes)
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n"), s.inStep()
}

// inStep objects while a replica does not follow its master.
func (s *RedisServer) inStep() error {
	info, err := s.Try("INFO", "replication")
	if err != nil {
		return err
	}
	if strings.Contains(info.Text, "role:slave") && !strings.Contains(info.Text, "master_link_status:up") {
		return errors.New("it is not in step with its master")
	}
	return nil
}

// peer is a line of CLUSTER NODES.
type peer struct {
	id, flags, master string
	slots             []string // ranges; slots on their way are in brackets
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

// peers is the cluster as this node sees it, itself included.
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

// MasterOf is the node that serves a slot, by the view of the first that runs and has one.
func (c *RedisCluster) MasterOf(t testing.TB, slot int) *RedisServer {
	t.Helper()
	master, _ := c.ownersOf(t, slot)
	return master
}

// ReplicasOf are the replicas, those that run, of the node that serves a slot.
func (c *RedisCluster) ReplicasOf(t testing.TB, slot int) []*RedisServer {
	t.Helper()
	_, replicas := c.ownersOf(t, slot)
	return replicas
}

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
		return errors.New("there is none")
	})
	return master, replicas
}

// owners finds a slot's master, and the master's replicas, in a view. A master that failed is none.
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

// slots is how many slots a cluster has.
const slots = 1 << 14

// Slot is the slot of a key in a cluster: of what stands between the first { and the next }, if anything does, or else of all.
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
