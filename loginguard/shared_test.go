package loginguard_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/redisstore"
)

// On shared stores the bounds are the same for two processes: attacks of an hour, and
// concurrent guesses. memcached gets fewer guesses, because its updates conflict and
// are retried.
func TestSharedStores(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.Redis(t)
		checkSharedStore(t, 1000, func(t *testing.T) headgate.Store { return mustOpenRedis(t, server) })
	})
	t.Run("memcached", func(t *testing.T) {
		t.Parallel()
		server := testserver.Memcached(t)
		checkSharedStore(t, 200, func(t *testing.T) headgate.Store {
			store, err := memcachedstore.New(&memcachedstore.Options{Timeout: time.Minute}, server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
}

// mustOpenRedis opens a store with a timeout of one minute, for busy machines.
func mustOpenRedis(t testing.TB, server *testserver.RedisServer) headgate.Store {
	t.Helper()
	store, err := redisstore.Open("redis://"+server.Addr(), &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func checkSharedStore(t *testing.T, size int, open func(*testing.T) headgate.Store) {
	t.Helper()
	one, two := open(t), open(t)
	t.Cleanup(func() { _, _ = one.Close(), two.Close() })
	forms := 0
	guards := func() [2]*loginguard.Guard { // new state, in two processes
		forms++
		opts := loginguard.Options{Name: "form" + name(forms)}
		again := opts
		return [2]*loginguard.Guard{mustNew(t, one, &opts), mustNew(t, two, &again)}
	}
	for _, c := range []struct {
		what string
		next func(n int) loginguard.Client
		want int
	}{
		{"one account from one address", func(int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: "bob"}
		}, 19},
		{"many accounts from one address", func(n int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: name(n)}
		}, 104},
		{"one account from many addresses", func(n int) loginguard.Client {
			return loginguard.Client{Addr: host(n, 1), Account: "bob"}
		}, 44},
	} {
		g := guards()
		home := loginguard.Client{Addr: host(200, 1), Account: "bob"}
		mustSucceed(t, noon, mustAttempt(t, g[0], noon, home))
		a := &attacker{guard: g[0], next: c.next, now: noon}
		for turn := 0; a.now <= after(hour); turn++ {
			a.guard = g[turn%2]
			a.step(t)
		}
		if a.allowed != c.want {
			t.Errorf("%s: %d attempts allowed in an hour with two processes; want %d", c.what, a.allowed, c.want)
		}
		ownerLogin(t, g[1], after(hour), home, 2)
		if first := mustAttempt(t, g[1], after(hour+time.Second), home); !first.Known() {
			t.Errorf("%s: a pair that one process knows is unknown in the other", c.what)
		}
	}
	checkConcurrent(t, guards()[0], size, "one pair", 5, func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	})
	checkConcurrent(t, guards()[0], size, "one account", 20, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n, 1), Account: "bob"}
	})
}
