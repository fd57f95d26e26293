package fallback_test

import (
	"flag"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// The long form of the tests of this file, for a machine that does nothing else:
//
//	go test ./fallback -run 'OneNode|Silent' -v -timeout 0 \
//		-fault-runs 20 -fault-time 14s -fault-budget 50ms
//
// It counts requests that are late, not decided or decided too late as misses. The short
// form counts only keys of available nodes that are not decided, with a budget that a
// busy machine keeps.
var (
	faultRuns   = flag.Int("fault-runs", 1, "runs of each fault of a node, and of silent connections; misses count if above 1")
	faultTime   = flag.Duration("fault-time", 2*time.Second, "duration of each fault of a node")
	faultBudget = flag.Duration("fault-budget", 500*time.Millisecond, "time budget of the decisions during these faults")
)

const maxBack = time.Second // maximum time until decisions resume, in the long form

// nodeFault is a fault of the first of several nodes.
type nodeFault struct {
	name          string
	fail, recover func(t *testing.T, nodes []*testserver.RedisServer)
	pausesAll     bool // whether the other nodes pause at the beginning
}

var nodeFaults = []nodeFault{
	{
		"killed and a pause of the others",
		func(_ *testing.T, nodes []*testserver.RedisServer) {
			nodes[0].Kill()
			for _, n := range nodes[1:] {
				n.Stop()
			}
			time.Sleep(300 * time.Millisecond)
			for _, n := range nodes[1:] {
				n.Continue()
			}
		},
		func(t *testing.T, nodes []*testserver.RedisServer) {
			nodes[0].Start()
			waitUntilServing(t, nodes[0])
		},
		true,
	},
	{
		"hung",
		func(_ *testing.T, nodes []*testserver.RedisServer) { nodes[0].Stop() },
		func(t *testing.T, nodes []*testserver.RedisServer) {
			nodes[0].Continue()
			waitUntilServing(t, nodes[0])
		},
		false,
	},
}

// waitUntilServing waits until a node of a cluster serves its slots. A master that
// rejoins the others refuses all keys for two seconds.
func waitUntilServing(t *testing.T, n *testserver.RedisServer) {
	t.Helper()
	eventually(t, func() bool {
		info, err := n.Try("CLUSTER", "INFO")
		return err == nil && strings.Contains(info.Text, "cluster_state:ok")
	}, "the node to serve its slots")
}

// TestOneNodeUnavailable makes one of three nodes of a cluster unavailable, under load on
// keys of all nodes. The store decides the keys of the other nodes.
func TestOneNodeUnavailable(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 0, testserver.WithConfig("cluster-require-full-coverage", "no"))
	for _, f := range nodeFaults {
		t.Run(f.name, func(t *testing.T) {
			for range *faultRuns {
				makeNodeUnavailable(t, cluster, f)
			}
		})
	}
}

func makeNodeUnavailable(t *testing.T, cluster *testserver.RedisCluster, f nodeFault) {
	recorder := &eventRecorder{}
	addrs := strings.Join(cluster.Addrs(), ",")
	s := around(t, openRedis(t, "redis+cluster://"+addrs), &fallback.Options{Observer: recorder, Budget: *faultBudget})
	l := limiter(t, s, "", "100000/100h", headgate.FailClosed)
	eventually(t, func() bool { _, err := l.Allow(background, "key"); return err == nil }, "a connection")
	load := startNodeLoad(t, l, clusterKeys(t, l, cluster.Nodes()))
	for i, addr := range cluster.Addrs() {
		load.startPings(t, i, addr, "PING\r\n")
	}
	load.waitUntilAllDecide(t, 3)
	time.Sleep(200 * time.Millisecond)

	failed := load.now()
	f.fail(t, cluster.Nodes())
	settled := failed
	if f.pausesAll {
		settled = load.now() + time.Second
	}
	time.Sleep(*faultTime)
	ended := load.now()
	f.recover(t, cluster.Nodes())
	up := load.now()
	load.waitUntilAllDecide(t, 3)
	time.Sleep(maxBack)
	load.finish()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	load.reportFault(t, failed, settled, ended, up)
	t.Logf("events: %q %q", recorder.names(), recorder.nodes())
}

// clusterKeys returns keys for each master. It takes one unit of many keys, and lists the
// keys that each master then has.
func clusterKeys(t *testing.T, l *headgate.Limiter, nodes []*testserver.RedisServer) [][]string {
	t.Helper()
	for i := range 20 * len(nodes) {
		eventually(t, func() bool { _, err := l.Allow(background, fmt.Sprint("key", i)); return err == nil }, "a decision")
	}
	keys := make([][]string, len(nodes))
	for n, node := range nodes {
		for _, name := range node.Do(t, "KEYS", "*").Strings() {
			keys[n] = append(keys[n], name[strings.LastIndexByte(name, ':')+1:])
		}
		keys[n] = keys[n][:min(8, len(keys[n]))]
	}
	return keys
}

// reportFault fails the test for requests on the nodes without a fault that were not
// decided. In the long form it also fails for requests that were late, and if the first
// node is not used again in time.
func (l *nodeLoad) reportFault(t *testing.T, failed, settled, ended, up time.Duration) {
	t.Helper()
	during, after := l.between(failed, ended), l.between(ended, math.MaxInt64)
	faulty, others, recovering := counts{}, counts{}, counts{}
	undecided, busy := 0, 0
	var back time.Duration
	for _, r := range append(during, after...) {
		switch {
		case r.node == 0 && r.at < ended:
			faulty[r.reason]++
		case r.node == 0:
			recovering[r.reason]++
		default:
			others[r.reason]++
		}
		switch {
		case r.reason == headgate.ReasonNone:
		case l.busy(r, settleTime):
			busy++
		case r.node != 0 && r.at > settled:
			undecided++
		case r.node == 0 && r.at > up:
			back = max(back, r.at-up)
		}
	}
	all, missed := l.late(append(during, after...), *faultBudget)
	t.Logf("the faulty node: %v, then %v, back after %v; the others: %v; longest %v, above the budget and 2 ms: %d, %d of them on an idle machine; not decided on a busy machine: %d",
		faulty, recovering, back.Round(time.Millisecond), others, longest(append(during, after...)).Round(time.Millisecond/10), all, missed, busy)
	if undecided > 0 {
		t.Errorf("%d requests for keys of the other nodes were not decided want 0", undecided)
	}
	if *faultRuns > 1 && (missed > 0 || back > maxBack) {
		t.Errorf("%d requests took longer than the budget and 2 ms want 0; the node was used again after %v want %v at most", missed, back, maxBack)
	}
}

func openRedis(t *testing.T, url string) headgate.Store {
	t.Helper()
	s, err := redisstore.Open(url, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestMemcachedServerUnavailable stops one of three memcached servers. The keys of the
// other servers are decided.
func TestMemcachedServerUnavailable(t *testing.T) {
	servers := []*testserver.MemcachedServer{testserver.Memcached(t), testserver.Memcached(t), testserver.Memcached(t)}
	index := map[string]int{}
	var addrs []string
	for i, s := range servers {
		addrs = append(addrs, s.Addr())
		index[s.Addr()] = i
	}
	inner, err := memcachedstore.New(nil, addrs...)
	if err != nil {
		t.Fatal(err)
	}
	recorder := &eventRecorder{}
	s := around(t, inner, &fallback.Options{Observer: recorder, Budget: *faultBudget})
	b, err := s.Bind(headgate.Rule{Scope: "p", Limit: headgate.MustParseLimit("1000000/1s")})
	if err != nil {
		t.Fatal(err)
	}
	decide := func(key string) error {
		_, err := b.Apply(background, headgate.StoreClock, key, headgate.Take, 1)
		return err
	}
	servers[0].Stop()
	for i := 0; len(recorder.names()) == 0; i++ {
		if key := fmt.Sprint(i); headgate.NodeOf(b, key) == addrs[0] && decide(key) == nil {
			t.Fatal("a stopped server decided")
		}
	}
	decided, refused := 0, 0
	for i := range 300 {
		err := decide(fmt.Sprint(i))
		switch onStopped := index[headgate.NodeOf(b, fmt.Sprint(i))] == 0; {
		case onStopped && err != nil:
			refused++
		case !onStopped && err == nil:
			decided++
		}
	}
	if decided+refused != 300 || decided < 100 || refused < 50 {
		t.Errorf("%d keys of the other servers were decided and %d of the stopped one were not, of 300 want all", decided, refused)
	}
	servers[0].Continue()
	eventually(t, func() bool {
		for i := range 300 {
			if decide(fmt.Sprint(i)) != nil {
				return false
			}
		}
		return true
	}, "decisions for all keys")
	if got, nodes := recorder.names(), recorder.nodes(); len(got) != 2 || got[1] != "recovered" || nodes[0] != addrs[0] {
		t.Errorf("got the events %q of %q want one outage and one recovery of %s", got, nodes, addrs[0])
	}
}
