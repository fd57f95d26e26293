package memcachedstore

import (
	"testing"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate/internal/testserver"
)

func TestServerClockFinding(t *testing.T) {
	t.Parallel()
	stats := map[string]string{"time": "1767225600"}
	for _, c := range []struct {
		sent, received time.Duration // since the reported time
		want           string
	}{
		{-time.Second, -time.Second, "within 3s of the server's clock"},
		{3 * time.Second, 3 * time.Second, "within 3s of the server's clock"},
		{-time.Hour, time.Hour, "within 3s of the server's clock"},
		{3001 * time.Millisecond, 4 * time.Second, "at least 1ms ahead of the server's clock; the clock of each process decides"},
		{-time.Hour, -3 * time.Second, "at least 2s behind the server's clock; the clock of each process decides"},
	} {
		got := serverClock(stats, testInstant.Time().Add(c.sent), testInstant.Time().Add(c.received))
		if got.Says != c.want || (got.Level == Fine) != (got.Advice == "") {
			t.Errorf("%v to %v: got %+v want %q", c.sent, c.received, got, c.want)
		}
	}
}

func TestProcessClockFinding(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	key := clockKey("default")
	if err := newClient(t, server.Addr()).Set(&memcache.Item{Key: key.name(), Value: []byte("text")}); err != nil {
		t.Fatal(err)
	}
	if got := processClock("default", []string{server.Addr()}); got.Level != Failing || got.Advice == "" {
		t.Errorf("a foreign value: got %+v want an error with an advice", got)
	}
	server.Kill()
	if got := processClock("default", []string{server.Addr()}); got.Level != Failing {
		t.Errorf("no server: got %+v want an error", got)
	}
}
