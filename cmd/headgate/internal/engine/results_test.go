package engine_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Results are in the order of the request, also if some checks are in shadow mode. A
// check in shadow mode is allowed.
func TestResults(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	seen, one := engine.Check{Policy: "seen", Key: "b", Cost: 1}, engine.Check{Policy: "one", Key: "a", Cost: 1}
	var all []engine.Result
	for i, want := range [][]string{
		{"seen 1/h 0 true", "one 1/h 0 true", " 7/s 6 true", "seen 1/h 0 true"},
		{"seen 1/h 0 true", "one 1/h 0 false", " 7/s 6 true", "seen 1/h 0 true"},
	} {
		a := decide(t, e, headgate.Take, seen, one, inline("c", "7/s"), seen)
		all = a.AppendResults(all[:0])
		var got []string
		for _, r := range all {
			got = append(got, fmt.Sprint(r.Policy, " ", r.Rule.Text(), " ", r.Remaining, " ", r.Allowed))
		}
		if !slices.Equal(got, want) {
			t.Errorf("request %d: got %q want %q", i+1, got, want)
		}
		if len(all) == 4 && !slices.Equal(all[1].DeniedBy, a.DeniedBy) {
			t.Errorf("request %d: got %q want %q", i+1, all[1].DeniedBy, a.DeniedBy)
		}
	}
}

func TestResultsAllocateNothing(t *testing.T) {
	e, _ := newEngine(t, observed)
	a := decide(t, e, headgate.Take, engine.Check{Policy: "one", Key: "a", Cost: 1}, inline("c", "7/s"))
	all := a.AppendResults(nil)
	if n := testing.AllocsPerRun(100, func() { all = a.AppendResults(all[:0]) }); n != 0 {
		t.Errorf("got %v allocations want 0", n)
	}
}

// The reset of a limit with windows is the end of a window, also if the answer is read
// some milliseconds after the decision or by a clock that is late. Other resets are not
// changed.
func TestResetAt(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	at := time.Date(2026, 11, 24, 17, 0, 0, 123_456_000, time.UTC)
	for _, tt := range []struct {
		limit, algorithm string
		want             time.Time
	}{
		{"500/day", "calendar_window", time.Date(2026, 11, 25, 0, 0, 0, 0, time.UTC)},
		{"500/day in Europe/Berlin from 06:00", "", time.Date(2026, 11, 25, 5, 0, 0, 0, time.UTC)},
		{"500/month", "", time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)},
		{"500/week", "calendar_window", time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)},
		{"500/week", "fixed_window", time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC)},
		{"500/1h", "fixed_window", time.Date(2026, 11, 24, 18, 0, 0, 0, time.UTC)},
		{"500/10s", "fixed_window", time.Date(2026, 11, 24, 17, 0, 10, 0, time.UTC)},
	} {
		c := engine.Check{Limit: tt.limit, Algorithm: tt.algorithm, Key: tt.algorithm + tt.limit, Cost: 3}
		var a engine.Answer
		if err := e.DecideAt(t.Context(), headgate.InstantOf(at), headgate.Take, []engine.Check{c}, &a); err != nil {
			t.Fatal(err)
		}
		r := a.AppendResults(nil)[0]
		for _, late := range []time.Duration{0, time.Microsecond, 900 * time.Microsecond, 3 * time.Second, -3 * time.Second} {
			if got := r.ResetAt(at.Add(late)); !got.Equal(tt.want) {
				t.Errorf("%s, answer after %v: got %v want %v", tt.limit, late, got.UTC(), tt.want)
			}
		}
		c.Cost = 0
		if err := e.DecideAt(t.Context(), headgate.InstantOf(at), headgate.Reset, []engine.Check{c}, &a); err != nil {
			t.Fatal(err)
		}
		if got := a.AppendResults(nil)[0].ResetAt(at); !got.Equal(at) {
			t.Errorf("%s, unused: got %v want %v", tt.limit, got.UTC(), at)
		}
	}
	bucket := decide(t, e, headgate.Take, inline("bucket", "1/s burst 3"))
	if got := bucket.AppendResults(nil)[0].ResetAt(at); !got.Equal(at.Add(time.Second)) {
		t.Errorf("token bucket: got %v want 1 s later", got)
	}
}
