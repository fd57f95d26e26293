package redisstore_test

import (
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
	"github.com/headgate/headgate/storetest"
)

func TestStore(t *testing.T) {
	server := testserver.Redis(t)
	storetest.Options{Decisions: decisions(), Rounds: 20}.Run(t, func(t *testing.T) headgate.Store {
		return open(t, "redis://"+server.Addr(), nil)
	})
}

func open(t testing.TB, url string, opts *redisstore.Options) *redisstore.Store {
	t.Helper()
	s, err := redisstore.Open(url, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func decisions() int {
	if testing.Short() {
		return 10_000
	}
	return 60_000
}

func TestCluster(t *testing.T) {
	cluster := testserver.Cluster(t, 3, 1)
	storetest.Options{Decisions: decisions(), Rounds: 20}.Run(t, func(t *testing.T) headgate.Store {
		return open(t, "redis+cluster://"+strings.Join(cluster.Addrs(), ","), nil)
	})
}

func TestSentinel(t *testing.T) {
	sentinel := testserver.Sentinel(t)
	storetest.Options{Decisions: decisions(), Rounds: 20}.Run(t, func(t *testing.T) headgate.Store {
		return open(t, "redis+sentinel://"+strings.Join(sentinel.Addrs(), ",")+"/"+sentinel.MasterName(), nil)
	})
}
