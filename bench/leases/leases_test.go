package leases

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
	"github.com/headgate/headgate/bench/stores"
)

// The excess of a bucket is that of the worst of all spans.
func TestBucketExcess(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		limit := bench.Limit{Count: 1 + r.IntN(5), Per: time.Millisecond, Burst: 1 + r.IntN(5)}
		var log []Admission
		for range r.IntN(60) {
			before := r.Int64N(10_000)
			log = append(log, Admission{before, before + r.Int64N(500)})
		}
		want := int64(0)
		for _, from := range log {
			for _, to := range log {
				units, s := int64(0), to[1]-from[0]
				for _, a := range log {
					if a[0] >= from[0] && a[1] <= to[1] {
						units++
					}
				}
				if s >= 0 {
					want = max(want, (1000*units-s*int64(limit.Count))/1000-int64(limit.Burst))
				}
			}
		}
		if got := BucketExcess(limit, log); got != want {
			t.Errorf("seed %d: got %d units, want %d", seed, got, want)
		}
	}
}

func TestWindowExcess(t *testing.T) {
	limit := bench.Limit{Count: 2, Per: time.Millisecond, Burst: 2}
	for _, test := range []struct {
		log  []Admission
		want int64
	}{
		{nil, 0},
		{[]Admission{{0, 1}, {0, 1}}, 0},
		{[]Admission{{0, 1}, {0, 1}, {1, 2}, {1000, 1001}}, 1},
		{[]Admission{{0, 1}, {0, 1}, {999, 1000}, {1000, 1001}}, 0},
	} {
		if got := WindowExcess(limit, test.log); got != test.want {
			t.Errorf("%v: got %d units, want %d", test.log, got, test.want)
		}
	}
}

// The limiters with a bound keep it. The counts of a turn agree with its log.
func TestRowsShareOneKey(t *testing.T) {
	srv, err := server.Redis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Error(err)
		}
	})
	limit := bench.Limit{Count: 2000, Per: time.Second, Burst: 2000}
	for _, row := range stores.OneHotKey() {
		check, err := Job{Row: row.Name, Addr: srv.Addr, Limit: limit, Callers: 4}.Prepare()
		if err != nil {
			t.Fatal(err)
		}
		var turn Turn
		for length := 300 * time.Millisecond; turn.Admitted == 0 && length < time.Minute; length *= 2 {
			now := time.Now()
			if turn, err = check(Order{Begin: now, From: now, End: now.Add(length), Rate: 3000}); err != nil {
				t.Fatalf("%s: %v", row.Name, err)
			}
		}
		if turn.Admitted == 0 || turn.Admitted > turn.Checks || turn.Admitted > int64(len(turn.Log)) {
			t.Errorf("%s: got %d checks, %d admitted, %d in the log", row.Name, turn.Checks, turn.Admitted, len(turn.Log))
		}
		if n := Excess(row, limit, turn.Log); n != 0 { // one process knows all its counts
			t.Errorf("%s: got %d units above the limit, want 0", row.Name, n)
		}
	}
}
