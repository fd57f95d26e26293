package engine_test

import (
	"fmt"
	"slices"
	"testing"

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
