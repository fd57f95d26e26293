package stores

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// Every limiter admits its burst and not more, so that a row measures what it says.
func TestRowsLimit(t *testing.T) {
	limit := bench.Limit{Count: 3, Per: time.Hour, Burst: 3}
	check := func(t *testing.T, rows []Row, srv *server.Server) {
		t.Helper()
		for _, r := range rows {
			l, err := r.New(srv.Addr, limit)
			if err != nil {
				t.Fatalf("%s: %v", r.Name, err)
			}
			for i := range 5 {
				ok, err := l.Allow(context.Background(), "somebody")
				if want := i < 3 || r.Floor; err != nil || ok != want {
					t.Errorf("%s, check %d: got %v, %v, want %v", r.Name, i+1, ok, err, want)
				}
			}
			if err := l.Close(); err != nil {
				t.Errorf("%s: %v", r.Name, err)
			}
		}
	}
	t.Run("redis", func(t *testing.T) { check(t, OneCaller(), started(t, server.Redis)) })
	t.Run("memcached", func(t *testing.T) { check(t, Memcached(), started(t, server.Memcached)) })
}

func started(t *testing.T, start func() (*server.Server, error)) *server.Server {
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

// A turn counts what was done, and every key that a row leaves behind has a TTL.
func TestTurnsCount(t *testing.T) {
	srv := started(t, server.Redis)
	rows, err := Named(Redis(), "redis_rate; a script: TIME, GET, SET")
	if err != nil || len(rows) != 2 {
		t.Fatalf("got %d rows, %v, want 2", len(rows), err)
	}
	f, err := NewField(rows, srv, Case{Callers: 4, Keys: 50, Limit: Many}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Round(50 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	for i, r := range rows {
		turn := f.Turns[i][0]
		if turn.Rate <= 0 || turn.P50 <= 0 || turn.P99 < turn.P50 || turn.Denied != 0 || turn.Errors != 0 {
			t.Errorf("%s: got %+v", r.Name, turn)
		}
		// One call for each decision, but for those that INFO missed or that a first EVALSHA made twice.
		if turn.Calls < turn.Rate*0.95 || turn.Calls > turn.Rate*1.05 {
			t.Errorf("%s: got %.0f script calls a second for %.0f decisions", r.Name, turn.Calls, turn.Rate)
		}
	}
	if without, all, err := Immortal(srv.Addr); err != nil || without != 0 || all != 100 {
		t.Errorf("got %d of %d keys without a TTL, %v, want 0 of 100", without, all, err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}

// With a demand, callers ask as often as it says and not more.
func TestDemandIsKept(t *testing.T) {
	srv := started(t, server.Redis)
	rows, _ := Named(Redis(), "redis_rate")
	f, err := NewField(rows, srv, Case{Callers: 8, Keys: 1, Limit: Hot, Demand: 200}, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Round(500 * time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if rate := f.Turns[0][0].Rate; rate < 50 || rate > 210 {
		t.Errorf("got %.0f decisions a second, want about 200", rate)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
