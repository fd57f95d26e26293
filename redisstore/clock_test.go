package redisstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/redisstore"
)

// A server whose clock went back by an hour is reported once.
func TestClockSetBackIsReported(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"standalone", "cluster", "sentinel"} {
		server := &fakeServer{mode: mode}
		server.clock.Store(2e15)
		server.start(t)
		reported := make(chan time.Duration, 100)
		s, err := redisstore.Open(server.url(), &redisstore.Options{
			Timeout: 20 * time.Second, DenialCacheTTL: -1, OnClockSetBack: func(back time.Duration) { reported <- back },
		})
		if err != nil {
			t.Fatal(err)
		}
		l := newLimiter(t, s)
		for _, instant := range []int64{2e15, 2e15 + 5e6, 2e15 + 3600e6, 2e15 + 10e6, 2e15 + 20e6} {
			server.clock.Store(instant)
			if _, err := l.Allow(t.Context(), "key"); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		close(reported)
		var all []time.Duration
		for back := range reported {
			all = append(all, back)
		}
		if len(all) != 1 || all[0] < 59*time.Minute || all[0] > 61*time.Minute {
			t.Errorf("%s: got %v want one report of an hour", mode, all)
		}
	}
}
