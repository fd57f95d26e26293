package memcachedstore_test

import (
	"bufio"
	"cmp"
	"flag"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/storetest"
)

func open(t testing.TB, opts *memcachedstore.Options, servers ...string) *memcachedstore.Store {
	t.Helper()
	var o memcachedstore.Options
	if opts != nil {
		o = *opts
	}
	o.Timeout = cmp.Or(o.Timeout, longTimeout)
	s, err := memcachedstore.New(&o, servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// longTimeout is a timeout that does not expire on a busy machine.
const longTimeout = 2 * time.Minute

func TestStore(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	suite(6_000, server).Run(t, func(t *testing.T) headgate.Store {
		return open(t, &memcachedstore.Options{Timeout: longTimeout, Ephemeral: true}, server.Addr())
	})
	if ttls, err := ttlsOf(server); err != nil || len(ttls) != 0 {
		t.Errorf("after ephemeral stores were closed: got %d keys left, error %v want 0", len(ttls), err)
	}
}

// Joining is disabled, so that each call is a separate gets and cas.
func TestStoreMultipleServers(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("the long tests run the suite on several servers")
	}
	servers := []*testserver.MemcachedServer{testserver.Memcached(t), testserver.MemcachedUnix(t), testserver.Memcached(t)}
	suite(1_500, servers...).Run(t, func(t *testing.T) headgate.Store {
		o := &memcachedstore.Options{Timeout: longTimeout, Ephemeral: true, DisableJoin: true, MaxTries: 1000}
		return open(t, o, servers[0].Addr(), servers[1].Addr(), servers[2].Addr())
	})
	for i, s := range servers {
		if slices.Contains(s.Do(t, "stats"), "STAT total_items 0") {
			t.Errorf("server %d of 3: got no keys want some", i+1)
		}
	}
}

// An existing client finds the same keys as a store over its servers, and stays usable
// after its store is closed.
func TestNewFromClient(t *testing.T) {
	t.Parallel()
	addrs := []string{testserver.Memcached(t).Addr(), testserver.Memcached(t).Addr()}
	client := memcache.New(addrs...)
	t.Cleanup(func() { _ = client.Close() })
	theirs, err := memcachedstore.NewFromClient(nil, client)
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range []*memcachedstore.Store{theirs, open(t, nil, addrs...), theirs} {
		l, err := headgate.New(s, headgate.Policy{Name: "p", Limits: []headgate.Limit{headgate.MustParseLimit("10/1h")}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		for k := range 10 {
			if d, err := l.AllowN(t.Context(), fmt.Sprint("key ", k), 2); err != nil || d.Remaining != int64(8-2*i) {
				t.Errorf("key %d, take %d of 2: got %+v, error %v want %d remaining", k, i+1, d, err, 8-2*i)
			}
		}
	}
	if err := theirs.Close(); err != nil {
		t.Error(err)
	}
	if err := client.Ping(); err != nil {
		t.Errorf("the client after its store was closed: got %v want no error", err)
	}
}

// decisionCount is how many decisions are compared with the model where the whole suite
// runs; 1000000 take some minutes.
var decisionCount = flag.Int("decisions", 0, "decisions compared with the model; 0: few")

// holdSteps is how many operations with holds are compared with the model.
var holdSteps = flag.Int("hold-steps", 0, "operations in traces with holds that are compared with the model; 0: few")

// suite returns a suite for stores over servers that compares this number of decisions
// with the model.
func suite(decisions int, servers ...*testserver.MemcachedServer) storetest.Options {
	o := storetest.Options{Decisions: decisions, Rounds: 5, Parallelism: 16, HoldSteps: decisions}
	if testing.Short() {
		o.Decisions, o.Rounds, o.HoldSteps = min(decisions/6, 300), 1, 0
	}
	if *decisionCount > 0 {
		o.Decisions = *decisionCount
	}
	if *holdSteps > 0 {
		o.HoldSteps = *holdSteps
	}
	o.TTLs = func() (map[string]time.Duration, error) {
		all := make(map[string]time.Duration)
		for _, s := range servers {
			some, err := ttlsOf(s)
			if err != nil {
				return nil, err
			}
			for key, ttl := range some {
				all[key] = ttl
			}
		}
		return all, nil
	}
	o.RemoveTTL = func(key string) error {
		for _, s := range servers {
			if _, err := s.Try("touch " + key + " 0"); err != nil {
				return err
			}
		}
		return nil
	}
	return o
}

// ttlsOf returns the keys of a server with their TTL, negative for keys without
// expiration.
func ttlsOf(s *testserver.MemcachedServer) (map[string]time.Duration, error) {
	conn, err := net.DialTimeout(s.Network(), s.Addr(), time.Second)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		return nil, err
	}
	ttls := make(map[string]time.Duration)
	if _, err := fmt.Fprint(conn, "lru_crawler metadump all\r\n"); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() && lines.Text() != "END" {
		words := strings.Fields(lines.Text())
		if len(words) < 2 || !strings.HasPrefix(words[0], "key=") || !strings.HasPrefix(words[1], "exp=") {
			return nil, fmt.Errorf("metadump: unexpected line %q", lines.Text())
		}
		expires, err := strconv.ParseInt(words[1][len("exp="):], 10, 64)
		if err != nil {
			return nil, err
		}
		ttl := -time.Second
		if expires > 0 {
			ttl = max(0, time.Until(time.Unix(expires, 0)))
		}
		ttls[words[0][len("key="):]] = ttl
	}
	return ttls, lines.Err()
}
