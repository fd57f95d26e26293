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

// The same on stores that processes share: the attacks of an hour, from two processes in turn, and many guesses at once.
// On memcached, where each must find the others' writes and begin anew, fewer.
func TestSharedStores(t *testing.T) {
	t.Parallel()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server := testserver.Redis(t)
		mustBoundOn(t, 1000, func(t *testing.T) headgate.Store { return mustOpenRedis(t, server) })
	})
	t.Run("memcached", func(t *testing.T) {
		t.Parallel()
		server := testserver.Memcached(t)
		mustBoundOn(t, 200, func(t *testing.T) headgate.Store {
			store, err := memcachedstore.New(nil, server.Addr())
			if err != nil {
				t.Fatal(err)
			}
			return store
		})
	})
}

// mustOpenRedis opens a store whose calls may wait a minute to be sent: a busy machine needs more than the default.
func mustOpenRedis(t testing.TB, server *testserver.RedisServer) headgate.Store {
	t.Helper()
	store, err := redisstore.Open("redis://"+server.Addr(), &redisstore.Options{Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func mustBoundOn(t *testing.T, crowd int, open func(*testing.T) headgate.Store) {
	t.Helper()
	one, two := open(t), open(t)
	t.Cleanup(func() { _, _ = one.Close(), two.Close() })
	forms := 0
	guards := func() [2]*loginguard.Guard { // fresh state, in two processes
		forms++
		opts := loginguard.Options{Name: "form" + name(forms)}
		again := opts
		return [2]*loginguard.Guard{mustNew(t, one, &opts), mustNew(t, two, &again)}
	}
	for _, c := range []struct {
		what string
		next func(try int) loginguard.Client
		want int
	}{
		{"one account from one address", func(int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: "bob"}
		}, 19},
		{"many accounts from one address", func(try int) loginguard.Client {
			return loginguard.Client{Addr: host(1, 1), Account: name(try)}
		}, 104},
		{"one account from many addresses", func(try int) loginguard.Client {
			return loginguard.Client{Addr: host(try, 1), Account: "bob"}
		}, 44},
	} {
		g := guards()
		home := loginguard.Client{Addr: host(200, 1), Account: "bob"}
		mustSucceed(t, noon, mustTry(t, g[0], noon, home))
		a := &greedy{guard: g[0], next: c.next, now: noon}
		for turn := 0; a.now <= after(hour); turn++ {
			a.guard = g[turn%2]
			a.step(t)
		}
		if a.tries != c.want {
			t.Errorf("%s: %d tries in an hour through two processes; want %d", c.what, a.tries, c.want)
		}
		ownerLogsIn(t, g[1], after(hour), home, 2)
		if first := mustTry(t, g[1], after(hour+time.Second), home); !first.Known() {
			t.Errorf("%s: what one process knows is not known to the other", c.what)
		}
	}
	mustBoundCrowd(t, guards()[0], crowd, "one pair", 5, func(int) loginguard.Client {
		return loginguard.Client{Addr: host(1, 1), Account: "bob"}
	})
	mustBoundCrowd(t, guards()[0], crowd, "one account", 20, func(n int) loginguard.Client {
		return loginguard.Client{Addr: host(n, 1), Account: "bob"}
	})
}
