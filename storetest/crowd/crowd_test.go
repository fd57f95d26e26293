package crowd

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest/model"
)

// admissionsAt returns one admission of one unit at exactly each of the instants.
func admissionsAt(instants ...int64) (all []Admission) {
	for _, t := range instants {
		all = append(all, Admission{t, t, 1})
	}
	return all
}

func TestCheckAgainstUpperBounds(t *testing.T) {
	t.Parallel()
	const s = 1_000_000
	for _, c := range []struct {
		algorithm  headgate.Algorithm
		limit      string
		admissions []Admission
		fits       bool
	}{
		{headgate.TokenBucket, "1/1s burst 2", admissionsAt(0, 0, s, 2*s), true},
		{headgate.TokenBucket, "1/1s burst 2", admissionsAt(0, 0, s-1), false},
		{headgate.TokenBucket, "1/1s burst 2", admissionsAt(0, 5*s, 5*s, 6*s-1), false},
		{headgate.LeakyBucket, "1/1s queue 1", admissionsAt(0, 0, s), true},
		{headgate.LeakyBucket, "1/1s queue 1", admissionsAt(0, 0, 0), false},
		{headgate.TokenBucketInterval, "2/1s", admissionsAt(0, 0, 1, 1, s, s), true},
		{headgate.TokenBucketInterval, "2/1s", admissionsAt(0, 0, 1, 1, 2), false},
		{headgate.FixedWindow, "2/1s", admissionsAt(s-1, s-1, s, s), true},
		{headgate.FixedWindow, "2/1s", admissionsAt(s, s, 2*s-1), false},
		{headgate.SlidingLog, "2/1s", admissionsAt(0, 0, s, s), true},
		{headgate.SlidingLog, "2/1s", admissionsAt(0, 0, s-1), false},
		{headgate.SlidingWindow, "2/1s", admissionsAt(0, 0, s/2), true},
		{headgate.SlidingWindow, "2/1s", admissionsAt(0, 0, s/2-1), false},
		{headgate.SlidingWindow, "2/1s", admissionsAt(0, 0, s, s), true},
		{headgate.SlidingWindow, "2/1s", admissionsAt(0, 0, s, s, s), false},
		{headgate.SlidingWindow, "2/1s", admissionsAt(0, 0, s, s, s+1, 3*s/2), false},
		{headgate.FixedWindow, "2/1s", []Admission{{s, s + 9, 1}, {s, s + 9, 2}}, false},
		// The first admission may be in the next window.
		{headgate.FixedWindow, "2/1s", []Admission{{s, 2*s + 9, 1}, {s, s + 9, 2}}, true},
		{headgate.FixedWindow, "2/1s", nil, true},
	} {
		limit := headgate.MustParseLimit(c.limit)
		if err := Check(c.admissions, model.UpperBoundOf(c.algorithm, limit)); (err == nil) != c.fits {
			t.Errorf("%s %v, admissions %v: got error %v want none: %v", c.algorithm, limit, c.admissions, err, c.fits)
		}
	}
}

// serveStore serves takes of one store over a socket, so that processes can share it. A
// request is the name of an algorithm and a cost. With broken set, it allows one in ten
// of the requests that it denies.
func serveStore(t *testing.T, limit headgate.Limit, broken bool) string {
	t.Helper()
	store := memstore.New(nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); store.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go answer(c, store, limit, broken)
		}
	}()
	return listener.Addr().String()
}

func answer(c net.Conn, store headgate.Store, limit headgate.Limit, broken bool) {
	defer c.Close()
	lines := bufio.NewScanner(c)
	for n := 0; lines.Scan(); n++ {
		var a headgate.Algorithm
		var cost int64
		fmt.Sscan(lines.Text(), &a, &cost)
		b, err := store.Bind(headgate.Rule{Scope: "s", Limit: limit, Algorithm: a})
		if err != nil {
			return
		}
		d, _ := b.Apply(context.Background(), headgate.StoreClock, "key", headgate.Take, cost)
		fmt.Fprintln(c, d.Allowed || broken && n%10 == 0)
	}
}

// remote is a client of serveStore that implements the methods that a crowd calls.
type remote struct {
	headgate.Store
	headgate.Bound
	conns     chan net.Conn
	algorithm headgate.Algorithm
}

func dial(t *testing.T, address string) headgate.Store {
	r := &remote{conns: make(chan net.Conn, 4)}
	for range cap(r.conns) {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		r.conns <- c
	}
	return r
}

func (r *remote) Bind(rule headgate.Rule) (headgate.Bound, error) {
	return &remote{conns: r.conns, algorithm: rule.Algorithm}, nil
}

func (r *remote) Apply(_ context.Context, _ headgate.Instant, _ string, _ headgate.Verb, cost int64) (headgate.Decision, error) {
	c := <-r.conns
	defer func() { r.conns <- c }()
	fmt.Fprintln(c, r.algorithm, cost)
	var allowed bool
	_, err := fmt.Fscanln(c, &allowed)
	return headgate.Decision{Allowed: allowed}, err
}

func TestCrowdStaysWithinUpperBound(t *testing.T) {
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.SlidingWindow} {
		t.Run(string(a), func(t *testing.T) {
			limit := headgate.MustParseLimit("50/250ms")
			for duration := 500 * time.Millisecond; duration < time.Minute; duration *= 2 { // on a busy machine
				c := Crowd{Algorithm: a, Limit: limit, Processes: 3, Goroutines: 8, Duration: duration}
				got := c.Run(t, func(t *testing.T) string { return serveStore(t, limit, false) }, dial)
				if os.Getenv(jobVariable) != "" || got.Admitted >= 40 && got.Operations >= 2*got.Admitted/3 {
					return
				}
			}
			t.Error("want more requests than the limit, and the whole limit admitted")
		})
	}
}

// TestCrowdDetectsOverAdmission checks the requests of a store that admits too much.
func TestCrowdDetectsOverAdmission(t *testing.T) {
	limit := headgate.MustParseLimit("5/10s")
	c := Crowd{Algorithm: headgate.SlidingLog, Limit: limit, Processes: 2, Goroutines: 8, Duration: 300 * time.Millisecond}.withDefaults()
	if os.Getenv(jobVariable) != "" {
		c.Run(t, nil, dial)
		return
	}
	for ; c.Duration < time.Minute; c.Duration *= 2 { // on a busy machine, there are few requests
		admissions, _ := c.runProcesses(t, serveStore(t, limit, true))
		if Check(admissions, model.UpperBoundOf(c.Algorithm, limit)) != nil {
			return
		}
	}
	t.Error("a store that admits one in ten denied requests: got no error want one")
}

func TestReportRoundTrip(t *testing.T) {
	file := t.TempDir() + "/report"
	want := []Admission{{1, 2, 3}, {4, 5, 6}}
	if err := errors.Join(writeReport(file, Result{Operations: 9, Failed: 1}, [][]Admission{want[:1], nil, want[1:]})); err != nil {
		t.Fatal(err)
	}
	all, sum := readReports(t, []string{file, file})
	if len(all) != 4 || all[1] != want[1] || sum != (Result{Operations: 18, Failed: 2, Admitted: 18}) {
		t.Errorf("got %v, %+v want %v twice", all, sum, want)
	}
}

func TestMostOpen(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		spans []span
		want  int64
	}{
		{"none", nil, 0},
		{"one after another", []span{{1, 2}, {2, 3}, {3, 4}}, 1},
		{"overlapping", []span{{1, 5}, {2, 4}, {3, 6}, {5, 7}}, 3},
		{"no time in which it was certainly open", []span{{1, 5}, {4, 4}, {4, 3}}, 1},
	} {
		if got := mostOpen(tt.spans); got != tt.want {
			t.Errorf("%s: got %d want %d", tt.name, got, tt.want)
		}
	}
}
