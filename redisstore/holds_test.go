package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// An open hold needs 44 bytes in Redis. A key without open holds has the same value as
// before its first hold, and no key is left after the deadlines.
func TestSizeOfHolds(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	l, err := headgate.New(openURL(t, "redis://"+server.Addr()), headgate.MustNamedPolicy("p", "100/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	hold := func() *headgate.Hold {
		h, err := l.Hold(t.Context(), "key", 1, time.Minute)
		if err != nil || !h.OK() {
			t.Fatalf("hold: %+v, %v", h, err)
		}
		return h
	}
	size := func() int64 { return server.Do(t, "STRLEN", stateKey(t, server)).Int() }
	first := hold()
	one := size()
	second := hold()
	if got := size() - one; got > 48 {
		t.Errorf("an open hold needs %d bytes, want at most 48", got)
	}
	for _, h := range []*headgate.Hold{first, second} {
		if _, err := h.Commit(t.Context(), 1); err != nil {
			t.Fatal(err)
		}
	}
	if got := size(); got != 25 {
		t.Errorf("without open holds, the value has %d bytes, want 25", got)
	}
	for _, key := range server.Do(t, "KEYS", "*").Strings() {
		if ttl := server.Do(t, "PTTL", key).Int(); ttl <= 0 {
			t.Errorf("key %s has the TTL %d", key, ttl)
		}
	}
}

// stateKey returns the only key that is not the record of an ended hold.
func stateKey(t *testing.T, server *testserver.RedisServer) (state string) {
	t.Helper()
	for _, key := range server.Do(t, "KEYS", "*").Strings() {
		if !strings.Contains(key, "~~") {
			state = key
		}
	}
	return state
}

// A denial is not cached while holds are open, because an expiry can make units available
// before the time that the denial reports.
func TestDenialsWithHoldsAreNotCached(t *testing.T) {
	t.Parallel()
	s, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	policy := headgate.MustNamedPolicy("p", "1/1000h")
	policy.Holds.OnExpiry = headgate.ReleaseExpired
	l, err := headgate.New(s, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	if h, err := l.Hold(t.Context(), "key", 1, headgate.MinHoldTTL); err != nil || !h.OK() {
		t.Fatal(h, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for { // until the hold has expired by the clock of the server
		d, err := l.Allow(ctx, "key")
		if err != nil {
			t.Fatal(err)
		}
		if d.Allowed {
			return
		}
	}
}

func TestHoldsInGuideLayout(t *testing.T) {
	t.Parallel()
	s := openURL(t, "redis://"+testserver.Redis(t).Addr()+"?layout=guide")
	policy := headgate.MustNamedPolicy("p", "10/1s")
	policy.Algorithm = headgate.TokenBucketInterval
	l, err := headgate.New(s, policy, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Hold(t.Context(), "key", 1, time.Minute); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("got error %v want ErrUnsupported", err)
	}
	if _, err := headgate.HoldAll(t.Context(), &headgate.HoldOptions{TTL: time.Minute}, headgate.Check{Limiter: l, Key: "a", Cost: 1}, headgate.Check{Limiter: l, Key: "b", Cost: 1}); !errors.Is(err, headgate.ErrUnsupported) {
		t.Errorf("two keys: got error %v want ErrUnsupported", err)
	}
}

// The id of a private hold is new, so the record of an ended hold is not read.
func TestPrivateHoldReadsNoRecord(t *testing.T) {
	t.Parallel()
	server := testserver.Redis(t)
	l, err := headgate.New(openURL(t, "redis://"+server.Addr()), headgate.MustNamedPolicy("p", "100/1h"), nil)
	if err != nil {
		t.Fatal(err)
	}
	check := headgate.Check{Limiter: l, Key: "key", Cost: 1}
	for id, want := range map[string]bool{"": false, "mine": true} {
		server.Do(t, "CONFIG", "RESETSTAT")
		if _, err := headgate.HoldAll(t.Context(), &headgate.HoldOptions{ID: id, TTL: time.Minute}, check); err != nil {
			t.Fatal(err)
		}
		if stats := server.Do(t, "INFO", "commandstats").Text; strings.Contains(stats, "cmdstat_zscore") != want {
			t.Errorf("id %q: got %s want ZSCORE: %t", id, stats, want)
		}
	}
}
