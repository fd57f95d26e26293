package redisstore_test

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

// Servers and firewalls close idle connections. The next call succeeds all the same,
// because nothing had been sent.
func TestIdleConnectionClosedByServer(t *testing.T) {
	guarded := testserver.Sentinel(t)
	single := testserver.Redis(t)
	for _, tt := range []struct {
		name, url string
		server    *testserver.RedisServer
	}{
		{"one server", "redis://" + single.Addr(), single},
		{"sentinel", fmt.Sprintf("redis+sentinel://%s/%s", strings.Join(guarded.Addrs(), ","), guarded.MasterName()), guarded.Master(t)},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := limiter(t, open(t, tt.url, nil), "api", headgate.TokenBucket, "1000/1h")
			for round := range 4 {
				if round > 1 { // from here on the client's connections have reader goroutines
					decideConcurrently(t, l, 50)
				}
				if _, err := l.Allow(context.Background(), "key"); err != nil {
					t.Fatalf("round %d: %v", round, err)
				}
				time.Sleep(idleFor)
				killClients(t, tt.server)
				var wg sync.WaitGroup
				for range 2 { // the second one starts the reader goroutines
					wg.Go(func() {
						if _, err := l.Allow(context.Background(), "key"); err != nil {
							t.Errorf("round %d, after an idle connection was closed: %v", round, err)
						}
					})
				}
				wg.Wait()
			}
		})
	}
}

// idleFor is longer than the time for which a connection counts as in use.
const idleFor = 150 * time.Millisecond

// killClients closes all client connections of a server, and returns once they are
// closed.
func killClients(t *testing.T, server *testserver.RedisServer) {
	t.Helper()
	list := func() string { return "\n" + server.Do(t, "CLIENT", "LIST", "TYPE", "normal").String() }
	before := regexp.MustCompile(`\nid=\d+ `).FindAllString(list(), -1)
	server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	eventually(t, func() bool {
		now := list()
		return !slices.ContainsFunc(before, func(id string) bool { return strings.Contains(now, id) })
	}, "that all connections are closed")
}
