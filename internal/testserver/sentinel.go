package testserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// masterName is the name of the master in the sentinels.
const masterName = "mymaster"

// RedisSentinel is a master with two replicas and three sentinels on the loopback
// interface. A master that is unavailable for a second is replaced one to three seconds
// later. All methods may be called concurrently; failovers must not overlap.
type RedisSentinel struct {
	nodes     []*RedisServer
	sentinels []*RedisServer
}

// Sentinel starts the servers and waits until the replicas are in sync and the
// sentinels know all servers. The options apply to the master and the replicas. The
// sentinels have no password, and use TLS if the other servers do. The servers end with
// the test.
func Sentinel(t testing.TB, opts ...Option) *RedisSentinel {
	t.Helper()
	o := collect(t, opts)
	s := &RedisSentinel{nodes: []*RedisServer{newRedis(t, o)}}
	for range 2 {
		s.nodes = append(s.nodes, newRedis(t, o, "replicaof 127.0.0.1 "+s.nodes[0].Port()))
	}
	for _, n := range s.nodes {
		n.mustRun(t)
	}
	s.startSentinels(t, o)
	s.Wait(t)
	return s
}

// startSentinels starts the sentinels. Their configuration lists the other sentinels
// and the replicas, because discovery takes ten seconds.
func (s *RedisSentinel) startSentinels(t testing.TB, o options) {
	t.Helper()
	for range 3 {
		s.sentinels = append(s.sentinels, newSentinel(t))
	}
	downAfter := time.Second
	if o.steady {
		downAfter = time.Hour
	}
	for i, sentinel := range s.sentinels {
		lines := append(sentinel.listen(o),
			"bind 127.0.0.1", "dir "+sentinel.Dir(), "unixsocket "+sentinel.Socket(),
			"sentinel myid "+sentinelID(i),
			"sentinel monitor mymaster 127.0.0.1 "+s.nodes[0].Port()+" 2",
			fmt.Sprintf("sentinel down-after-milliseconds mymaster %d", downAfter.Milliseconds()),
			"sentinel failover-timeout mymaster 3000",
			"sentinel parallel-syncs mymaster 2")
		if o.password != "" {
			lines = append(lines, fmt.Sprintf("sentinel auth-pass mymaster %q", o.password))
		}
		for _, replica := range s.nodes[1:] {
			lines = append(lines, "sentinel known-replica mymaster 127.0.0.1 "+replica.Port())
		}
		for j, other := range s.sentinels {
			if j != i {
				lines = append(lines, "sentinel known-sentinel mymaster 127.0.0.1 "+other.Port()+" "+sentinelID(j))
			}
		}
		sentinel.configure(t, lines)
		sentinel.mustRun(t)
	}
}

// shortenPeriods makes a sentinel poll and publish several times a second instead of
// every one to ten seconds. Sentinels before Redis 7 do not support this: then
// everything works, but takes half a minute.
func (s *RedisServer) shortenPeriods() {
	_, _ = s.Try("SENTINEL", "DEBUG", "INFO-PERIOD", "300", "PING-PERIOD", "200", "ASK-PERIOD", "200", "PUBLISH-PERIOD", "200",
		"TILT-PERIOD", "1000")
}

func newSentinel(t testing.TB) *RedisServer {
	t.Helper()
	s := newServer(t, "redis-sentinel", "redis-sentinel")
	s.afterStart = s.shortenPeriods
	return s
}

// sentinelID returns the ID of a sentinel: 40 digits.
func sentinelID(i int) string { return fmt.Sprintf("%040d", i+1) }

// Addrs returns the addresses of the sentinels.
func (s *RedisSentinel) Addrs() []string { return addrs(s.sentinels) }

// Sentinels returns the three sentinels.
func (s *RedisSentinel) Sentinels() []*RedisServer { return slices.Clone(s.sentinels) }

// Nodes returns the master and the replicas in their initial order, including dead
// servers.
func (s *RedisSentinel) Nodes() []*RedisServer { return slices.Clone(s.nodes) }

// MasterName returns the name of the master in the sentinels.
func (s *RedisSentinel) MasterName() string { return masterName }

// Master returns the master according to the first running sentinel.
func (s *RedisSentinel) Master(t testing.TB) *RedisServer {
	t.Helper()
	for _, sentinel := range running(s.sentinels) {
		return s.masterBy(t, sentinel)
	}
	t.Fatal("master: no sentinel runs")
	return nil
}

func (s *RedisSentinel) masterBy(t testing.TB, sentinel *RedisServer) *RedisServer {
	t.Helper()
	port := sentinel.Do(t, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", masterName).Items[1].Text
	at := slices.IndexFunc(s.nodes, func(n *RedisServer) bool { return n.Port() == port })
	if at < 0 {
		t.Fatalf("master: sentinel %s returns port %s, which is not a node of this test", sentinel.Addr(), port)
	}
	return s.nodes[at]
}

// Wait waits until the running sentinels agree on the master and are connected to it,
// the master reports its role, and all other running nodes replicate from it. Dead
// nodes are ignored. A stopped node must be continued first.
func (s *RedisSentinel) Wait(t testing.TB) {
	t.Helper()
	await(t, "the sentinels to agree on a connected master", func() error {
		master := s.Master(t)
		for _, sentinel := range running(s.sentinels) {
			if other := s.masterBy(t, sentinel); other != master {
				return fmt.Errorf("sentinel %s returns %s, another one %s", sentinel.Addr(), other.Addr(), master.Addr())
			}
			if err := s.checkPeers(sentinel); err != nil {
				return fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
			}
		}
		return s.checkReplication(master)
	})
}

// checkPeers returns an error until a sentinel is connected to the master and to the
// running replicas and sentinels.
func (s *RedisSentinel) checkPeers(sentinel *RedisServer) error {
	reply, err := sentinel.Try("SENTINEL", "MASTER", masterName)
	if err != nil {
		return err
	}
	if got := fields(reply); got["flags"] != "master" || got["num-slaves"] != "2" || got["num-other-sentinels"] != "2" {
		return fmt.Errorf("master is %s with %s replicas, %s sentinels", got["flags"], got["num-slaves"], got["num-other-sentinels"])
	}
	for list, least := range map[string]int{"REPLICAS": len(running(s.nodes)) - 1, "SENTINELS": len(running(s.sentinels)) - 1} {
		reply, err := sentinel.Try("SENTINEL", list, masterName)
		if err != nil {
			return err
		}
		for _, item := range reply.Items {
			if got := fields(item); got["flags"] == strings.ToLower(strings.TrimSuffix(list, "S")) || got["flags"] == "slave" {
				least--
			}
		}
		if least > 0 {
			return fmt.Errorf("SENTINEL %s lists too few running nodes: %d are missing", list, least)
		}
	}
	return nil
}

// checkReplication returns an error until the master reports its role and every other
// running node replicates from it.
func (s *RedisSentinel) checkReplication(master *RedisServer) error {
	for _, n := range running(s.nodes) {
		info, err := n.Try("INFO", "replication")
		if err != nil {
			return err
		}
		want := "role:master"
		if n != master {
			want = "master_port:" + master.Port() + "\r\nmaster_link_status:up"
		}
		if !strings.Contains(info.Text, want) {
			return fmt.Errorf("node %s is not %q:\n%s", n.Addr(), want, info.Text)
		}
	}
	return nil
}

// fields converts a list of alternating names and values to a map.
func fields(r Reply) map[string]string {
	all := make(map[string]string)
	for i := 0; i+1 < len(r.Items); i += 2 {
		all[r.Items[i].Text] = r.Items[i+1].Text
	}
	return all
}

// Failover makes the sentinels replace the running master by a replica, and waits until
// all nodes follow it. The last writes are lost. It returns the new master.
func (s *RedisSentinel) Failover(t testing.TB) *RedisServer {
	t.Helper()
	old, first := s.Master(t), running(s.sentinels)[0]
	// A sentinel aborts a slow failover, and refuses another while one is in progress.
	ask := every(time.Second, func() error {
		_, err := first.Try("SENTINEL", "FAILOVER", masterName)
		return err
	})
	await(t, "a sentinel to replace the master", func() error {
		if s.masterBy(t, first) != old {
			return nil
		}
		return errors.Join(errors.New("it has not taken over"), ask())
	})
	return s.awaitNewMaster(t, old)
}

// KillMaster kills the master and waits until a replica has taken over and all running
// nodes follow it. Writes that the replica did not receive are lost. It returns the
// dead server. After Start, the sentinels make it a replica.
func (s *RedisSentinel) KillMaster(t testing.TB) *RedisServer {
	t.Helper()
	dead := s.Master(t)
	dead.Kill()
	s.awaitNewMaster(t, dead)
	return dead
}

// awaitNewMaster waits until all sentinels agree on a master other than old.
func (s *RedisSentinel) awaitNewMaster(t testing.TB, old *RedisServer) *RedisServer {
	t.Helper()
	await(t, "a replica to take over", func() error {
		for _, sentinel := range running(s.sentinels) {
			if s.masterBy(t, sentinel) == old {
				return errors.New("sentinel " + sentinel.Addr() + " still reports the old master")
			}
		}
		return nil
	})
	s.Wait(t)
	return s.Master(t)
}
