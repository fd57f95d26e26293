package redisstore_test

import (
	"flag"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest"
)

// conformanceDecisions is how many decisions are compared with the model where the
// whole suite runs; 1000000 take two minutes or more.
var conformanceDecisions = flag.Int("decisions", 0, "decisions compared with the model in each mode of conformance; 0: few")

// holdSteps is how many operations with holds are compared with the model.
var holdSteps = flag.Int("hold-steps", 0, "operations in traces with holds that are compared with the model in each mode of conformance; 0: few")

// longHoldSteps is the number of operations with holds in the default mode and in a
// cluster, in the long tests.
const longHoldSteps = 12_000

// raceEnabled reports whether the race detector is on. It makes everything several
// times slower.
func raceEnabled() bool {
	build, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// ttlInspector lists the TTL of every key of the servers, and removes TTLs without the
// store's knowledge. It also empties the servers.
type ttlInspector struct {
	t       *testing.T
	servers func() []*testserver.RedisServer // the servers that receive writes
}

func (k ttlInspector) empty() {
	for _, s := range k.servers() {
		s.Do(k.t, "FLUSHALL")
	}
}

func (k ttlInspector) ttls() (map[string]time.Duration, error) {
	const list = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	all[#all + 1] = key
	all[#all + 1] = redis.call('PTTL', key)
end
return all`
	ttls := make(map[string]time.Duration)
	for _, s := range k.servers() {
		reply, err := s.Try("EVAL", list, "0")
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(reply.Items); i += 2 {
			ttls[reply.Items[i].String()] = time.Duration(reply.Items[i+1].Int()) * time.Millisecond
		}
	}
	return ttls, nil
}

func (k ttlInspector) persist(key string) error {
	for _, s := range k.servers() {
		if _, err := s.Try("PERSIST", key); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
			return err
		}
	}
	return nil
}

// longTimeout is a timeout that does not expire on a busy machine.
const longTimeout = 20 * time.Second

// conformance runs the whole suite on stores that open returns, each over empty
// servers. The long tests have more decisions if Options.HoldSteps is set: in the default
// mode and in a cluster.
func conformance(t *testing.T, o storetest.Options, k ttlInspector, open func(t *testing.T) headgate.Store) {
	o.Decisions, o.Rounds, o.Parallelism = 4_000, 10, 24
	if testing.Short() || raceEnabled() || o.HoldSteps == 0 {
		o.Decisions, o.Rounds, o.Parallelism, o.HoldSteps = 300, 1, 12, 0
	}
	if *conformanceDecisions > 0 {
		o.Decisions = *conformanceDecisions
	}
	if *holdSteps > 0 {
		o.HoldSteps = *holdSteps
	}
	o.TTLs, o.RemoveTTL = k.ttls, k.persist
	o.Run(t, func(t *testing.T) headgate.Store {
		k.empty()
		return open(t)
	})
}

// Batching and caching change no decision: every mode is compared with the same model.
func TestConformanceModes(t *testing.T) {
	server := testserver.Redis(t)
	k := ttlInspector{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{server} }}
	for _, c := range []struct {
		name string
		opts redisstore.Options
	}{
		{"default", redisstore.Options{Timeout: longTimeout}},
		{"no batching, no denial cache", redisstore.Options{Timeout: longTimeout, NoBatching: true, DenialCacheTTL: -1}},
		{"no batching", redisstore.Options{Timeout: longTimeout, NoBatching: true}},
		{"no denial cache", redisstore.Options{Timeout: longTimeout, DenialCacheTTL: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if testing.Short() && !raceEnabled() && c.name != "default" {
				return // the long tests have the other modes
			}
			if raceEnabled() && c.opts.NoBatching != (c.opts.DenialCacheTTL < 0) {
				return // the first and the second mode run all of the code
			}
			o := storetest.Options{}
			if c.name == "default" {
				o.HoldSteps = longHoldSteps
			}
			conformance(t, o, k, func(t *testing.T) headgate.Store {
				return open(t, "redis://"+server.Addr(), &c.opts)
			})
		})
	}
}

// A sliding log of three entries already has chunks.
func TestConformanceLogChunks(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests run the whole suite with chunks")
	}
	server := testserver.Redis(t)
	k := ttlInspector{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{server} }}
	conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
		return redisstore.NewEditedStore(t, server.Addr(), "local CHUNK = 127", "local CHUNK = 2")
	})
}

// The test needs Valkey, which Debian has only since release 13. It is skipped without
// it.
func TestConformanceValkey(t *testing.T) {
	if !testserver.ValkeyPresent() {
		t.Log("no valkey-server on the PATH")
		return
	}
	server := testserver.Redis(t, testserver.Valkey())
	k := ttlInspector{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{server} }}
	conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
		return open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: longTimeout})
	})
}

// Debits on keys of several nodes are not isolated; everything else is as on one
// server. // T9
func TestConformanceCluster(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 0)
	k := ttlInspector{t, cluster.Nodes}
	conformance(t, storetest.Options{NonAtomic: true, HoldSteps: longHoldSteps}, k, func(t *testing.T) headgate.Store {
		return open(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","), &redisstore.Options{Timeout: longTimeout})
	})
}

func TestConformanceSentinel(t *testing.T) {
	if testing.Short() {
		t.Skip("behind a Sentinel is the same server; the long tests run the suite on it")
	}
	guarded := testserver.Sentinel(t, testserver.Steady())
	master := guarded.Master(t)
	k := ttlInspector{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{master} }}
	conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
		return open(t, fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(guarded.Addrs(), ","), guarded.MasterName()), &redisstore.Options{Timeout: longTimeout})
	})
}
