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

// conformanceDecisions is how many decisions are held against the model wherever the whole suite runs; 1000000 takes two minutes and more.
var conformanceDecisions = flag.Int("decisions", 0, "decisions compared with the model in each mode of conformance; 0: few")

// raced says that the race detector is on, under which everything takes several times as long.
func raced() bool {
	build, ok := debug.ReadBuildInfo()
	return ok && slices.Contains(build.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// keptOn lists every key of the servers with its life, and takes it away, behind the store's back. It leaves the servers empty.
type keptOn struct {
	t       *testing.T
	servers func() []*testserver.RedisServer // those that are written to
}

func (k keptOn) empty() {
	for _, s := range k.servers() {
		s.Do(k.t, "FLUSHALL")
	}
}

func (k keptOn) lives() (map[string]time.Duration, error) {
	const list = `local all = {}
for _, key in ipairs(redis.call('KEYS', '*')) do
	all[#all + 1] = key
	all[#all + 1] = redis.call('PTTL', key)
end
return all`
	lives := make(map[string]time.Duration)
	for _, s := range k.servers() {
		reply, err := s.Try("EVAL", list, "0")
		if err != nil {
			return nil, err
		}
		for i := 0; i < len(reply.Items); i += 2 {
			lives[reply.Items[i].String()] = time.Duration(reply.Items[i+1].Int()) * time.Millisecond
		}
	}
	return lives, nil
}

func (k keptOn) persist(key string) error {
	for _, s := range k.servers() {
		if _, err := s.Try("PERSIST", key); err != nil && !strings.HasPrefix(err.Error(), "MOVED") {
			return err
		}
	}
	return nil
}

// patient bounds calls so that a machine which has much else to do breaks no rule.
const patient = 20 * time.Second

// conformance runs the whole suite on stores that open gives, each over empty servers.
func conformance(t *testing.T, o storetest.Options, k keptOn, open func(t *testing.T) headgate.Store) {
	o.Decisions, o.Rounds, o.Parallelism = 12_000, 10, 32
	if testing.Short() || raced() {
		o.Decisions, o.Rounds = 600, 1
	}
	if *conformanceDecisions > 0 {
		o.Decisions = *conformanceDecisions
	}
	o.TTLs, o.RemoveTTL = k.lives, k.persist
	o.Run(t, func(t *testing.T) headgate.Store {
		k.empty()
		return open(t)
	})
}

// TestConformanceInEveryMode: what joins, batches and remembers changes no answer. Each mode is held against the same model.
func TestConformanceInEveryMode(t *testing.T) {
	server := testserver.Redis(t)
	k := keptOn{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{server} }}
	for _, c := range []struct {
		name string
		opts redisstore.Options
	}{
		{"as it is", redisstore.Options{Timeout: patient}},
		{"each call by itself, nothing remembered", redisstore.Options{Timeout: patient, NoBatching: true, DenialCacheTTL: -1}},
		{"each call by itself", redisstore.Options{Timeout: patient, NoBatching: true}},
		{"nothing remembered", redisstore.Options{Timeout: patient, DenialCacheTTL: -1}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if (testing.Short() || raced()) && c.opts.NoBatching != (c.opts.DenialCacheTTL < 0) {
				return // the first and the second mode run all of the code
			}
			conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
				return open(t, "redis://"+server.Addr(), &c.opts)
			})
		})
	}
}

// TestValkeyConforms wants nothing of a machine without Valkey, which Debian has only since its 13th release.
func TestValkeyConforms(t *testing.T) {
	if !testserver.ValkeyPresent() {
		t.Log("no valkey-server on the PATH")
		return
	}
	server := testserver.Redis(t, testserver.Valkey())
	k := keptOn{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{server} }}
	conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
		return open(t, "redis://"+server.Addr(), &redisstore.Options{Timeout: patient})
	})
}

// TestClusterConforms: charges on keys of several nodes are not isolated; all else is as on one server. // T9
func TestClusterConforms(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 0)
	k := keptOn{t, cluster.Nodes}
	conformance(t, storetest.Options{NonAtomic: true}, k, func(t *testing.T) headgate.Store {
		return open(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","), &redisstore.Options{Timeout: patient})
	})
}

func TestSentinelConforms(t *testing.T) {
	guarded := testserver.Sentinel(t)
	master := guarded.Master(t)
	k := keptOn{t, func() []*testserver.RedisServer { return []*testserver.RedisServer{master} }}
	conformance(t, storetest.Options{}, k, func(t *testing.T) headgate.Store {
		return open(t, fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(guarded.Addrs(), ","), guarded.MasterName()), &redisstore.Options{Timeout: patient})
	})
}
