package testserver

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// masterName is what the sentinels call the master.
const masterName = "mymaster"

// RedisSentinel is a master with two replicas, watched by three sentinels on the loopback interface. A master that is gone for
// a second is replaced, one to three seconds later. All methods may be called concurrently; failovers must not overlap.
type RedisSentinel struct {
	nodes     []*RedisServer
	sentinels []*RedisServer
}

// Sentinel starts the servers and waits until the replicas are in step and the sentinels know everyone. The options are for the
// master and the replicas; the sentinels ask for no password, and speak TLS if those do. It ends with the test.
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
	s.watch(t, o)
	s.Wait(t)
	return s
}

// watch starts the sentinels. They are told of each other and of the replicas: to hear of them takes ten seconds.
func (s *RedisSentinel) watch(t testing.TB, o options) {
	t.Helper()
	for range 3 {
		s.sentinels = append(s.sentinels, newSentinel(t))
	}
	for i, sentinel := range s.sentinels {
		lines := append(sentinel.listen(o),
			"bind 127.0.0.1", "dir "+sentinel.Dir(), "unixsocket "+sentinel.Socket(),
			"sentinel myid "+sentinelID(i),
			"sentinel monitor mymaster 127.0.0.1 "+s.nodes[0].Port()+" 2",
			"sentinel down-after-milliseconds mymaster 1000",
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

// hurry has a sentinel look, and speak, several times a second instead of every one to ten seconds. Before Redis 7 it cannot be
// asked to: then everything works, and takes half a minute.
func (s *RedisServer) hurry() {
	_, _ = s.Try("SENTINEL", "DEBUG", "INFO-PERIOD", "300", "PING-PERIOD", "200", "ASK-PERIOD", "200", "PUBLISH-PERIOD", "200",
		"TILT-PERIOD", "1000")
}

func newSentinel(t testing.TB) *RedisServer {
	t.Helper()
	s := place(t, "redis-sentinel", "redis-sentinel")
	s.begin = s.hurry
	return s
}

// sentinelID is the name of a sentinel: 40 digits.
func sentinelID(i int) string { return fmt.Sprintf("%040d", i+1) }

// Addrs are the addresses of the sentinels.
func (s *RedisSentinel) Addrs() []string { return addrs(s.sentinels) }

// Sentinels are the three sentinels.
func (s *RedisSentinel) Sentinels() []*RedisServer { return slices.Clone(s.sentinels) }

// Nodes are the master and the replicas, whoever is which by now, dead ones among them.
func (s *RedisSentinel) Nodes() []*RedisServer { return slices.Clone(s.nodes) }

// MasterName is what the sentinels call the master.
func (s *RedisSentinel) MasterName() string { return masterName }

// Master is the server that the first sentinel which runs calls the master.
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
		t.Fatalf("master: sentinel %s says port %s, which is none of ours", sentinel.Addr(), port)
	}
	return s.nodes[at]
}

// Wait waits until all is as it should be: the sentinels that run agree on the master and reach it, it says that it is one, and
// all other nodes that run follow it. Dead ones may be missing. A stopped one must be let go on first.
func (s *RedisSentinel) Wait(t testing.TB) {
	t.Helper()
	await(t, "the sentinels and their master to be in order", func() error {
		master := s.Master(t)
		for _, sentinel := range running(s.sentinels) {
			if other := s.masterBy(t, sentinel); other != master {
				return fmt.Errorf("sentinel %s says %s, another one %s", sentinel.Addr(), other.Addr(), master.Addr())
			}
			if err := s.sees(sentinel); err != nil {
				return fmt.Errorf("sentinel %s: %w", sentinel.Addr(), err)
			}
		}
		return s.following(master)
	})
}

// sees objects until a sentinel reaches the master and all that run of the replicas and the other sentinels.
func (s *RedisSentinel) sees(sentinel *RedisServer) error {
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
			return fmt.Errorf("it misses %d of %s", least, list)
		}
	}
	return nil
}

// following objects until the master says so and every other node that runs follows it.
func (s *RedisSentinel) following(master *RedisServer) error {
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

// fields reads a list of names and values by turns.
func fields(r Reply) map[string]string {
	all := make(map[string]string)
	for i := 0; i+1 < len(r.Items); i += 2 {
		all[r.Items[i].Text] = r.Items[i+1].Text
	}
	return all
}

// Failover makes the sentinels replace the master, which runs, by a replica, and waits until all follow it. Writes of the last
// moments are lost. It returns the new master.
func (s *RedisSentinel) Failover(t testing.TB) *RedisServer {
	t.Helper()
	old, first := s.Master(t), running(s.sentinels)[0]
	ask := every(time.Second, func() error { // it gives up what takes too long, as on a busy machine, and refuses while it is at it
		_, err := first.Try("SENTINEL", "FAILOVER", masterName)
		return err
	})
	await(t, "a sentinel to replace the master", func() error {
		if s.masterBy(t, first) != old {
			return nil
		}
		return errors.Join(errors.New("it has not"), ask())
	})
	return s.awaitAnother(t, old)
}

// KillMaster kills the master and waits until a replica has taken over and all that run follow it. Writes that the replica had
// not got are lost. It returns the dead server, which may be started again and then is made a replica by the sentinels.
func (s *RedisSentinel) KillMaster(t testing.TB) *RedisServer {
	t.Helper()
	dead := s.Master(t)
	dead.Kill()
	s.awaitAnother(t, dead)
	return dead
}

// awaitAnother waits until a node that is not old is the master of all.
func (s *RedisSentinel) awaitAnother(t testing.TB, old *RedisServer) *RedisServer {
	t.Helper()
	await(t, "a replica to take over", func() error {
		for _, sentinel := range running(s.sentinels) {
			if s.masterBy(t, sentinel) == old {
				return errors.New("it is the old master by the view of " + sentinel.Addr())
			}
		}
		return nil
	})
	s.Wait(t)
	return s.Master(t)
}
