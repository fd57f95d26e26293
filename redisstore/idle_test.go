package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"regexp"
	"slices"
	"strconv"
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
				if round > 1 {
					waitForReaders(t, tt.server)
				}
				// The second of two concurrent callers starts the reader goroutines. If
				// they detect the closed connection before its request is written, the
				// result of that request is unknown.
				callers := 1
				if round > 1 {
					callers = 2
				}
				var wg sync.WaitGroup
				for range callers {
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

// waitForReaders returns once this process has closed its ends of the connections that
// the server closed; the reader goroutines do so. A call that is sent before that fails
// with an unknown result.
func waitForReaders(t *testing.T, server *testserver.RedisServer) {
	t.Helper()
	_, port, err := net.SplitHostPort(server.Addr())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	const closeWait = "08" // the state of a socket after the peer has closed
	halfClosed := regexp.MustCompile(fmt.Sprintf(`:%04X %s `, number, closeWait))
	eventually(t, func() bool {
		sockets, err := os.ReadFile("/proc/net/tcp")
		return err != nil || !halfClosed.Match(sockets) // err: not Linux
	}, "that the client has closed its connections")
}

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
