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

// findings returns the findings of Diagnose for a URL, each as “level check: text →
// advice”.
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

// mustFind fails the test unless the findings contain every wanted text.
func mustFind(t *testing.T, url string, wanted ...string) {
	t.Helper()
	text := findings(t, url)
	for _, want := range wanted {
		if !strings.Contains(text, want) {
			t.Errorf("%s: got\n%swant %q", url, text, want)
		}
	}
}

func TestDiagnoseHealthyServer(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t, testserver.AppendFsyncAlways())
	url := "redis://" + server.Addr()
	mustFind(t, url, "ok version: Redis ", "ok role: a primary without replicas", "ok memory: ", "ok eviction: nothing is evicted",
		"ok persistence: appendfsync always", "ok clock: within a second", fmt.Sprintf("ok decisions: scripts work: tested %d algorithms", len(algo.Rates())), " latency: a decision takes ")
	if text := strings.ReplaceAll(findings(t, url), "warning latency", "on a busy machine: latency"); strings.Contains(text, "error") || strings.Contains(text, "warning") {
		t.Errorf("got\n%swant no warnings or errors", text)
	}
	if keys := server.Do(t, "DBSIZE").Int(); keys != 0 {
		t.Errorf("got %d keys left want 0", keys)
	}
	if _, err := redisstore.Diagnose(t.Context(), "redis://"); err == nil {
		t.Error("an invalid URL: got no error")
	}
}

func TestDiagnoseProblems(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		config []string
		wants  []string
	}{
		"no persistence": {nil, []string{"warning persistence: none: a restart loses all usage"}},
		"snapshots":      {[]string{"save", "3600 1"}, []string{"warning persistence: snapshots: a restart loses the usage since the last snapshot"}},
		"append-only":    {[]string{"appendonly", "yes"}, []string{"ok persistence: append-only file: a crash loses the last one or two seconds"}},
		"no fsync":       {[]string{"appendonly", "yes", "appendfsync", "no"}, []string{"warning persistence: appendfsync no"}},
		"allkeys-lru": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "allkeys-lru"},
			[]string{"warning eviction: allkeys-lru: if the memory is full, keys are evicted: each eviction resets a limit", "→ set noeviction"},
		},
		"volatile-lru": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "volatile-lru"},
			[]string{"warning eviction: volatile-lru: if the memory is full, keys with a TTL are evicted first"},
		},
		"volatile-ttl": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "volatile-ttl"},
			[]string{"warning eviction: volatile-ttl: if the memory is full, the keys with the shortest TTL are evicted"},
		},
		"noeviction": {
			[]string{"maxmemory", "100mb", "maxmemory-policy", "noeviction"},
			[]string{"ok eviction: noeviction: nothing is evicted; decisions fail if the memory is full"},
		},
		"full": {
			[]string{"maxmemory", "1kb", "maxmemory-policy", "noeviction"},
			[]string{"error memory: ", "decisions that write are refused → raise maxmemory", "error decisions: ", "→ the server is out of memory"},
		},
		"too few replicas": {
			[]string{"min-replicas-to-write", "2"},
			[]string{"error role: the server refuses writes with fewer than 2 replicas in sync, and has 0", "error decisions: "},
		},
		"few clients": {[]string{"maxclients", "2"}, []string{"warning clients: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mustFind(t, "redis://"+testserver.Redis(t, testserver.WithConfig(c.config...)).Addr(), c.wants...)
		})
	}
}

func TestDiagnoseConnectionErrors(t *testing.T) {
	t.Parallel()
	locked := testserver.Redis(t, testserver.Password("right"))
	mustFind(t, "redis://127.0.0.1:1", "error connection: unreachable: dial tcp 127.0.0.1:1: ", "→ check that the server is running and that the address is correct")
	mustFind(t, "redis://"+locked.Addr(), "error connection: refused: NOAUTH", "→ the server requires a password")
	mustFind(t, "redis://:s3cret@"+locked.Addr(), "error connection: refused: WRONGPASS", "→ wrong username or password")
	mustFind(t, "redis+cluster://:right@"+locked.Addr(), "error connection: refused", "→ the server is not a cluster")
}

func TestDiagnoseReplication(t *testing.T) {
	t.Parallel()
	primary := testserver.Redis(t)
	host, port, _ := net.SplitHostPort(primary.Addr())
	replica := testserver.Redis(t, testserver.WithConfig("replicaof", host+" "+port))
	mustFind(t, "redis://"+replica.Addr(), "error role: the server is a replica and refuses writes → use the address of the primary", "error decisions: ")
	eventually(t, func() bool {
		return strings.Contains(primary.Do(t, "INFO", "replication").Text, "state=online")
	}, "the replica to be in sync")
	mustFind(t, "redis://"+primary.Addr(), "ok role: a primary with 1 replicas; a failover loses the writes that were not yet replicated → min-replicas-to-write")
	primary.Do(t, "CONFIG", "SET", "min-replicas-to-write", "1")
	mustFind(t, "redis://"+primary.Addr(), "ok role: a primary with 1 replicas, 1 of which must be in sync")
}

func TestDiagnoseACL(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	url := "redis://gate:s3cret@" + server.Addr()
	setACL(t, server, strings.Fields(minimalACL))
	mustFind(t, url, "warning server: no details are available: the user may not run INFO", "ok decisions: ", "ok clock: ")
	setACL(t, server, strings.Fields(strings.Replace(minimalACL, " +evalsha", "", 1)))
	mustFind(t, url, "error decisions: refused: NOPERM", "'evalsha'", "→ the user's ACL lacks a permission")
}

func TestDiagnoseClusterAndSentinel(t *testing.T) {
	t.Parallel()
	cluster := testserver.Cluster(t, 3, 1)
	url := "redis+cluster://" + cluster.Addrs()[0]
	mustFind(t, url, "ok cluster: all slots are served, by 3 primaries", "ok version: Redis ", "ok role: a primary with 1 replicas", "ok decisions: ")
	if n := strings.Count(findings(t, url), "version:"); n != 1 {
		t.Errorf("got %d version findings want 1", n)
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
	mustFind(t, "redis+sentinel://"+addrs+"/nobody", "error connection: refused: No such master", "→ the sentinels monitor no primary of this name")
}

// A slow network is reported, and an unresponsive one ends the checks.
func TestDiagnoseSlowNetwork(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	proxy := testserver.Proxy(t, server.Addr())
	proxy.SetLatency(12 * time.Millisecond)
	mustFind(t, "redis://"+proxy.Addr(), "warning latency: a decision takes ", "place Redis closer")
	proxy.Blackhole(true)
	mustFind(t, "redis://"+proxy.Addr(), "error connection: "+headgate.ReasonUnreachable.String())
}
