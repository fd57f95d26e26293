package memcachedstore

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
)

func TestExpiration(t *testing.T) {
	t.Parallel()
	const now, day, month = 1_767_225_600, 86_400, 30 * 86_400
	for _, c := range []struct {
		name      string
		ttl, wall int64 // µs, seconds
		want      int32
	}{
		{"zero", 0, now, 3},
		{"1 ms", 1_000, now, 3},
		{"999 ms", 999_000, now, 3},
		{"1 s", 1_000_000, now, 4},
		{"1001 ms", 1_001_000, now, 4},
		{"negative", -5, now, 3},
		{"longest relative", (month - 3) * microsPerSecond, now, month},
		{"shortest absolute", (month - 2) * microsPerSecond, now, now + month + 1 + day},
		{"31 days", 31 * day * microsPerSecond, now, now + 31*day + 3 + day},
		{"100 years", 36525 * day * microsPerSecond, now, maxAbsolute},
		{"last instant", (maxAbsolute - now - day - 3) * microsPerSecond, now, maxAbsolute},
		{"31 days, 40 days before the end", 31 * day * microsPerSecond, maxAbsolute - 40*day, maxAbsolute - 40*day + 31*day + 3 + day},
		{"31 days, 20 days before the end", 31 * day * microsPerSecond, maxAbsolute - 20*day, month},
		{"31 days, after the end", 31 * day * microsPerSecond, maxAbsolute + day, month},
		{"1 day, after the end", day * microsPerSecond, maxAbsolute + day, day + 3},
		{"100 years, after the end", 36525 * day * microsPerSecond, maxAbsolute + day, month},
	} {
		if got := expiration(c.ttl, c.wall); got != c.want {
			t.Errorf("%s: got %d want %d", c.name, got, c.want)
		}
	}
}

// T5, T6, T43: the TTL that the server reports, under limits of every length, with the
// store's clock and with passed instants.
func TestServerTTL(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, &Options{Timeout: longTimeout}, server.Addr())
	untilTheEnd := time.Until(time.Unix(maxAbsolute, 0)) - time.Minute
	for _, limit := range []string{"1/1ms", "1/999ms", "1/1s", "1/1001ms", "1/1m", "1/29d", "1/30d", "1/31d", "1/366d", "1/366d burst 99"} {
		for _, at := range []headgate.Instant{headgate.StoreClock, 0, testInstant, headgate.MaxInstant} {
			b := mustBind(t, s, fmt.Sprint(limit, at), headgate.TokenBucket, limit)
			d := mustTake(t, b, at, "key", b.limit)
			digest := b.scope.digest("key")
			ttl := serverTTL(t, server, digest.name())
			least, most := min(d.ResetAfter, untilTheEnd), d.ResetAfter+26*time.Hour
			if at != headgate.StoreClock {
				least, most = min(d.ResetAfter+24*time.Hour, untilTheEnd), d.ResetAfter+50*time.Hour
			}
			if d.ResetAfter+24*time.Hour < 30*24*time.Hour {
				most -= 24 * time.Hour
			}
			if ttl < least-time.Minute || ttl > most || ttl <= 0 || least < 20*24*time.Hour && at == headgate.StoreClock && ttl < least {
				t.Errorf("%s at %d, reset_after=%v: TTL: got %v want %v to %v", limit, at, d.ResetAfter, ttl, least, most)
			}
			if mustTake(t, b, at, "key", 1).Allowed && d.ResetAfter > time.Second {
				t.Errorf("%s at %d: a spent key: got allowed want denied", limit, at)
			}
		}
	}
}

// serverTTL returns the TTL of a key on the server; it is negative without expiration.
func serverTTL(t *testing.T, server *testserver.MemcachedServer, name string) time.Duration {
	t.Helper()
	reply := server.Do(t, "mg "+name+" t")[0]
	seconds, err := strconv.ParseInt(strings.TrimPrefix(reply, "HD t"), 10, 64)
	if err != nil {
		t.Fatalf("mg %s t: got %q want HD t and a number of seconds", name, reply)
	}
	return time.Duration(seconds) * time.Second
}

// Refunded and reset keys expire soon.
func TestUnusedStateTTL(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, nil, server.Addr())
	for _, a := range allAlgorithms() {
		b := mustBind(t, s, "rule", a, "10/24h")
		d := b.scope.digest("key")
		mustTake(t, b, headgate.StoreClock, "key", 5)
		if _, err := b.Apply(t.Context(), headgate.StoreClock, "key", headgate.Reset, 0); err != nil {
			t.Fatal(err)
		}
		if ttl := serverTTL(t, server, d.name()); ttl < 0 || ttl > 5*time.Second {
			t.Errorf("%s: after a reset: TTL: got %v want a few seconds", a, ttl)
		}
	}
}

// After a change of the limit, a state may matter for longer than its TTL. Then even a
// denial writes.
func TestLimitChangeExtendsTTL(t *testing.T) {
	t.Parallel()
	server := testserver.Memcached(t)
	s := mustNew(t, &Options{Timeout: longTimeout}, server.Addr())
	for _, a := range allAlgorithms() {
		if a.Refill() == headgate.RefillContinuous {
			continue // a changed limit bounds its state
		}
		hourly, daily := mustBind(t, s, "rule", a, "10/1h"), mustBind(t, s, "rule", a, "10/24h")
		d := daily.scope.digest("key")
		mustTake(t, hourly, testInstant, "key", 10)
		if ttl := serverTTL(t, server, d.name()); ttl > 27*time.Hour {
			t.Errorf("%s 10/1h: TTL: got %v want at most two periods and a day", a, ttl)
		}
		if mustTake(t, daily, testInstant, "key", 1).Allowed {
			t.Errorf("%s 10/24h after 10 of 10/1h: got allowed want denied", a)
		}
		peeked, err := daily.Apply(t.Context(), testInstant, "key", headgate.Peek, 0)
		if err != nil {
			t.Fatal(err)
		}
		counts := min(peeked.ResetAfter, 24*time.Hour)
		if ttl := serverTTL(t, server, d.name()); ttl < counts+23*time.Hour {
			t.Errorf("%s 10/24h after 10 of 10/1h: TTL: got %v want at least %v and a day", a, ttl, counts)
		}
	}
}
