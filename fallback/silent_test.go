package fallback_test

import (
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
)

// proxiedStore is a store whose connections pass through proxies.
type proxiedStore struct {
	name string
	open func(t *testing.T) (s headgate.Store, proxies []*testserver.FaultProxy, server, ping string)
}

const redisPing, memcachedPing = "PING\r\n", "version\r\n"

var proxiedStores = []proxiedStore{
	{"redis", func(t *testing.T) (headgate.Store, []*testserver.FaultProxy, string, string) {
		server := testserver.Redis(t).Addr()
		proxy := testserver.Proxy(t, server)
		return openRedis(t, "redis://"+proxy.Addr()), []*testserver.FaultProxy{proxy}, server, redisPing
	}},
	{"sentinel", openProxiedSentinel},
	{"cluster", openProxiedCluster},
	{"memcached", func(t *testing.T) (headgate.Store, []*testserver.FaultProxy, string, string) {
		server := testserver.Memcached(t).Addr()
		proxy := testserver.Proxy(t, server)
		s, err := memcachedstore.New(nil, proxy.Addr())
		if err != nil {
			t.Fatal(err)
		}
		return s, []*testserver.FaultProxy{proxy}, server, memcachedPing
	}},
}

// openProxiedSentinel makes the sentinels monitor the primary at the address of a proxy.
func openProxiedSentinel(t *testing.T) (headgate.Store, []*testserver.FaultProxy, string, string) {
	sentinel := testserver.Sentinel(t)
	server := sentinel.Master(t).Addr()
	proxy := testserver.Proxy(t, server)
	host, port, _ := net.SplitHostPort(proxy.Addr())
	for _, s := range sentinel.Sentinels() {
		s.Do(t, "SENTINEL", "MONITOR", "proxied", host, port, "2")
	}
	url := "redis+sentinel://" + strings.Join(sentinel.Addrs(), ",") + "/proxied"
	return openRedis(t, url), []*testserver.FaultProxy{proxy}, server, redisPing
}

// openProxiedCluster makes the nodes of a cluster announce the ports of proxies.
func openProxiedCluster(t *testing.T) (headgate.Store, []*testserver.FaultProxy, string, string) {
	cluster := testserver.Cluster(t, 3, 0)
	var proxies []*testserver.FaultProxy
	for _, n := range cluster.Nodes() {
		p := testserver.Proxy(t, n.Addr())
		_, port, _ := net.SplitHostPort(p.Addr())
		n.Do(t, "CONFIG", "SET", "cluster-announce-port", port)
		proxies = append(proxies, p)
	}
	eventually(t, func() bool {
		for _, n := range cluster.Nodes() {
			view := n.Do(t, "CLUSTER", "NODES").Text
			for _, other := range cluster.Addrs() {
				if strings.Contains(view, other+"@") {
					return false
				}
			}
		}
		return true
	}, "all nodes known by the ports of the proxies")
	return openRedis(t, "redis+cluster://"+proxies[0].Addr()), proxies, cluster.Addrs()[0], redisPing
}

// TestSilentConnections makes all open connections hang under load, as after a firewall
// has lost their state. New connections work. The store replaces the connections.
func TestSilentConnections(t *testing.T) {
	for _, p := range proxiedStores {
		t.Run(p.name, func(t *testing.T) {
			inner, proxies, server, ping := p.open(t)
			recorder := &eventRecorder{}
			s := around(t, inner, &fallback.Options{Observer: recorder, Budget: *faultBudget})
			var keys []string
			for i := range 24 {
				keys = append(keys, fmt.Sprint("key", i))
			}
			load := startNodeLoad(t, limiter(t, s, "", "1000000/1s", headgate.FailClosed), [][]string{keys})
			load.startPings(t, 0, server, ping)
			for range *faultRuns {
				load.waitUntilAllDecide(t, 1)
				time.Sleep(500 * time.Millisecond)
				failed := load.now()
				for _, proxy := range proxies {
					proxy.Freeze()
				}
				load.waitUntilAllDecide(t, 1)
				time.Sleep(2 * maxBack)
				load.reportSilence(t, failed)
			}
			load.finish()
			if err := s.Close(); err != nil {
				t.Error(err)
			}
			t.Logf("events: %q", recorder.names())
		})
	}
}

// reportSilence logs the results since the connections hang. The test fails if the
// connections were not replaced: then no request is decided for ten seconds.
func (l *nodeLoad) reportSilence(t *testing.T, failed time.Duration) {
	t.Helper()
	results := l.between(failed, math.MaxInt64)
	reasons := counts{}
	first, back := time.Duration(math.MaxInt64), time.Duration(0)
	for _, r := range results {
		reasons[r.reason]++
		switch {
		case r.reason == headgate.ReasonNone && r.at > failed:
			first = min(first, r.at+r.took-failed)
		case r.reason != headgate.ReasonNone:
			back = max(back, r.at+r.took-failed)
		}
	}
	all, missed := l.late(results, *faultBudget)
	t.Logf("%v; first decision after %v, all after %v; longest %v, above the budget and 2 ms: %d, %d of them on an idle machine",
		reasons, first.Round(time.Millisecond), back.Round(time.Millisecond), longest(results).Round(time.Millisecond/10), all, missed)
	if first > 8*time.Second {
		t.Errorf("the first decision is %v after the connections hang want about a second", first)
	}
	if *faultRuns > 1 && (missed > 0 || back > maxBack) {
		t.Errorf("%d requests took longer than the budget and 2 ms want 0; all were decided after %v want %v at most", missed, back, maxBack)
	}
}
