package stores

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// Every limiter allows exactly its burst, so that each row measures a working limiter.
func TestRowsAllowExactlyTheBurst(t *testing.T) {
	limit := bench.Limit{Count: 3, Per: time.Hour, Burst: 3}
	check := func(t *testing.T, rows []Row, srv *server.Server) {
		t.Helper()
		for _, r := range rows {
			l, err := r.New(srv.Addr, limit)
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			for i := range 5 {
				ok, err := l.Allow(context.Background(), "user")
				if want := i < 3 || r.Floor; err != nil || ok != want {
					t.Errorf("%s, check %d: got %v, %v, want %v", r.Name, i+1, ok, err, want)
				}
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { check(t, OneCaller(), startServer(t, server.Redis)) })
	t.Run("one hot key", func(t *testing.T) { check(t, OneHotKey(), startServer(t, server.Redis)) })
	t.Run("memcached", func(t *testing.T) { check(t, Memcached(), startServer(t, server.Memcached)) })
}

func startServer(t *testing.T, start func() (*server.Server, error)) *server.Server {
	t.Helper()
	srv, err := start()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	return srv
}

// A turn counts decisions and script calls correctly, and every key of a row has a TTL.
func TestTurnReportsDecisionsAndScriptCalls(t *testing.T) {
	srv := startServer(t, server.Redis)
	rows, err := Named(Redis(), "redis_rate; a script: TIME, GET, SET")
	if err != nil || len(rows) != 2 {
		t.Fatalf("got %d rows, %v, want 2", len(rows), err)
	}
	c, err := NewComparison(rows, srv, Case{Callers: 4, Keys: 50, Limit: Many}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Round(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		turn := c.Turns[i][0]
		if turn.Rate <= 0 || turn.P50 <= 0 || turn.P99 < turn.P50 || turn.Denied != 0 || turn.Errors != 0 {
			t.Errorf("%s: got %+v", r.Name, turn)
		}
		// There is one call per decision, except for calls that INFO missed and first
		// EVALSHA calls that were repeated.
		if turn.Calls < turn.Rate*0.95 || turn.Calls > turn.Rate*1.05 {
			t.Errorf("%s: got %.0f script calls/s for %.0f decisions/s", r.Name, turn.Calls, turn.Rate)
		}
	}
	if withoutTTL, all, err := CountWithoutTTL(srv.Addr); err != nil || withoutTTL != 0 || all != 100 {
		t.Errorf("got %d of %d keys without a TTL, %v, want 0 of 100", withoutTTL, all, err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}

// With a demand, the total rate of the callers does not exceed it.
func TestDemandLimitsRequestRate(t *testing.T) {
	srv := startServer(t, server.Redis)
	rows, _ := Named(Redis(), "redis_rate")
	c, err := NewComparison(rows, srv, Case{Callers: 8, Keys: 1, Limit: Hot, Demand: 200}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Round(500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if rate := c.Turns[0][0].Rate; rate < 50 || rate > 210 {
		t.Errorf("got %.0f decisions/s, want about 200", rate)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
}
