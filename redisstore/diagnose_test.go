package redisstore_test

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// findings is what Diagnose says of a URL, each as “level check: says → advice”.
func findings(t *testing.T, url string) string {
	t.Helper()
	found, err := redisstore.Diagnose(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for _, f := range found {
		fmt.Fprintf(&text, "%s %s: %s → %s\n", f.Level, f.Check, f.Says, f.Advice)
	}
	if strings.Contains(text.String(), "s3cret") {
		t.Errorf("the findings show the password:\n%s", &text)
	}
	return text.String()
}

// mustFind fails the test unless the findings say all that is wanted.
func mustFind(t *testing.T, url string, wanted ...string) {
	t.Helper()
	text := findings(t, url)
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s: got\n%swant %q", url, text, want)
		}
	}
}

func TestDiagnoseOfAServerThatIsWell(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.AppendFsyncAlways())
	url := "redis://" + server.Addr()
	mustFind(t, url, "ok version: Redis ", "ok role: a primary without replicas", "ok memory: ", "ok eviction: nothing is evicted",
		"ok persistence: appendfsync always", "ok clock: within a second", fmt.Sprintf("ok decisions: scripts run: %d algorithms", len(algo.All())), " latency: a decision takes ")
	if text := strings.ReplaceAll(findings(t, url), "warning latency", "on a busy machine: latency"); strings.Contains(text, "error") || strings.Contains(text, "warning") {
		t.Errorf("got\n%swant nothing wrong", text)
	}
	if keys := server.Do(t, "DBSIZE").Int(); keys != 0 {
		t.Errorf("got %d keys left behind want none", keys)
	}
	if _, err := redisstore.Diagnose(t.Context(), "redis://"); err == nil {
		t.Error("a wrong URL: got no error")
	}
}

func TestDiagnoseOfServersThatAreNotWell(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []string
		wants  []string
	}{
		"no persistence": {nil, []string{"warning persistence: none: a restart forgets"}},
		"snapshots":      {[]string{"save", "3600 1"}, []string{"warning persistence: snapshots: a restart forgets what was spent since"}},
		"append-only":    {[]string{"appendonly", "yes"}, []string{"ok persistence: append-only file: a crash forgets the last second"}},
		"no fsync":       {[]string{"appendonly", "yes", "appendfsync", "no"}, []string{"warning persistence: appendfsync no"}},
		"evicts all": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"},
			[]string{"warning eviction: allkeys-lru: a full memory evicts keys: whoever's key is evicted has his whole burst anew", "→ noeviction"},
		},
		"evicts what has a life": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "volatile-lru"},
			[]string{"warning eviction: volatile-lru: all keys here have a life, so a full memory evicts them first"},
		},
		"evicts what ends soon": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "volatile-ttl"},
			[]string{"warning eviction: volatile-ttl: a full memory evicts the keys that end soonest"},
		},
		"evicts nothing": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "noeviction"},
			[]string{"ok eviction: noeviction: nothing is evicted, and a full memory refuses decisions"},
		},
		"full": {
			[]string{"maxmemory", "1kb", "maxmemory-policy", "noeviction"},
			[]string{"error memory: ", "decisions that write are refused → raise maxmemory", "error decisions: ", "→ it is out of memory"},
		},
		"too few replicas": {
			[]string{"min-replicas-to-write", "2"},
			[]string{"error role: it takes no writes with fewer than 2 replicas in step, and has 0", "error decisions: "},
		},
		"few clients": {[]string{"maxclients", "2"}, []string{"warning clients: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFind(t, "redis://"+testserver.Redis(t, testserver.WithConfig(c.config...)).Addr(), c.wants...)
		})
	}
}

func TestDiagnoseOfWhatCannotBeReached(t *testing.T) {
	t.Parallel()
	locked := testserver.Redis(t, testserver.Password("right"))
	mustFind(t, "redis://127.0.0.1:1", "error connection: unreachable: dial tcp 127.0.0.1:1: ", "→ is it running, and is the address right?")
	mustFind(t, "redis://"+locked.Addr(), "error connection: refused: NOAUTH", "→ it asks for a password")
	mustFind(t, "redis://:s3cret@"+locked.Addr(), "error connection: refused: WRONGPASS", "→ user or password is wrong")
	mustFind(t, "redis+cluster://:right@"+locked.Addr(), "error connection: refused", "→ this is no cluster")
}

func TestDiagnoseOfAReplicaAndItsPrimary(t *testing.T) {
	t.Parallel()
	primary := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := testserver.Redis(t, testserver.WithConfig("replicaof", host+" "+port))
	mustFind(t, "redis://"+replica.Addr(), "error role: it is a replica, which takes no writes → give the address of the primary", "error decisions: ")
	eventually(t, func() bool {
		return strings.Contains(primary.Do(t, "INFO", "replication").Text, "state=online")
	}, "the replica in step")
	mustFind(t, "redis://"+primary.Addr(), "ok role: a primary with 1 replicas; a failover forgets what they had not yet got → min-replicas-to-write")
	primary.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	mustFind(t, "redis://"+primary.Addr(), "ok role: a primary with 1 replicas, 1 of which must be in step")
}

func TestDiagnoseUnderAnACL(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	url := "redis://gate:s3cret@" + server.Addr()
	allow(t, server, strings.Fields(least))
	mustFind(t, url, "warning server: it does not say what it is: the user may not run INFO", "ok decisions: ", "ok clock: ")
	allow(t, server, strings.Fields(strings.Replace(least, " +evalsha", "", 1)))
	mustFind(t, url, "error decisions: refused: NOPERM", "'evalsha'", "→ the user's ACL lacks a rule")
}

func TestDiagnoseOfAClusterAndOfSentinels(t *testing.T) {
	t.Parallel()
	cluster := testserver.Cluster(t, 3, 1)
	url := "redis+cluster://" + cluster.Addrs()[0]
	mustFind(t, url, "ok cluster: all slots are served, by 3 primaries", "ok version: Redis ", "ok role: a primary with 1 replicas", "ok decisions: ")
	if n := strings.Count(findings(t, url), "version:"); n != 1 {
		t.Errorf("got %d findings on the version of nodes that are alike want 1", n)
	}
	cluster.Nodes()[0].Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
	mustFind(t, url, "warning eviction: "+cluster.Nodes()[0].Addr()+": allkeys-lru", "ok eviction: ")
	for _, node := range cluster.Nodes() {
		node.Do(t, "CONFIG", "SET", "cluster-require-full-coverage", "no")
	}
	cluster.Nodes()[1].Do(t, "CLUSTER", "DELSLOTS", "7000")
	mustFind(t, "redis+cluster://"+cluster.Nodes()[1].Addr(), "error cluster: ")

	sentinel := testserver.Sentinel(t)
	addrs := strings.Join(sentinel.Addrs(), ",")
	mustFind(t, "redis+sentinel://"+addrs+"/"+sentinel.MasterName(), "ok role: a primary with 2 replicas", "ok decisions: ")
	mustFind(t, "redis+sentinel://"+addrs+"/nobody", "error connection: refused: No such master", "→ the sentinels know no primary of this name")
}

// A slow network is reported, and one that does not answer ends the diagnosis.
func TestDiagnoseOfASlowNetwork(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	wire := testserver.Proxy(t, server.Addr())
	wire.SetLatency(12 * time.Millisecond)
	mustFind(t, "redis://"+wire.Addr(), "warning latency: a decision takes ", "keep Redis near")
	wire.Blackhole(true)
	mustFind(t, "redis://"+wire.Addr(), "error connection: "+headgate.ReasonUnreachable.String())
}
