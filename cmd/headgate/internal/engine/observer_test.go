package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// journal writes down what it hears.
type journal struct{ lines []string }

func (*journal) Begin() int64 { return 7 }

func (j *journal) Observe(e *engine.Event) {
	line := fmt.Sprint(e.Verb, " began=", e.Began)
	if e.Err != nil {
		j.lines = append(j.lines, fmt.Sprint(line, " ", engine.ErrorKindOf(e.Err)))
		return
	}
	for i, r := range e.Rules() {
		line += fmt.Sprintf(" %s/%s=%v", r.Policy, e.Key(i), e.Decisions()[i].Allowed)
	}
	for i, w := range e.Shadows() {
		line += fmt.Sprintf(" (%s/%s=%v", w.Policy, e.ShadowKey(i), w.Decision.Allowed)
		if w.DeniedBy != nil {
			line += " by " + w.DeniedBy.Limit.String()
		}
		line += ")"
	}
	j.lines = append(j.lines, line)
}

func (j *journal) mustHaveHeard(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(j.lines, want) {
		t.Fatalf("heard\n%q, want\n%q", j.lines, want)
	}
	j.lines = nil
}

var observed = &engine.Options{
	Policies: map[string]headgate.Policy{
		"one":  {Limits: []headgate.Limit{headgate.MustParseLimit("1/1h")}},
		"seen": {Limits: []headgate.Limit{headgate.MustParseLimit("5/1m"), headgate.MustParseLimit("1/1h")}},
	},
	PolicyOptions: map[string]engine.PolicyOptions{"seen": {Shadow: engine.All}},
}

func TestAnObserverHearsOfEveryRequestOfItsDoor(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var front, back journal
	door, other := e.WithObserver(&front, 1), e.WithObserver(&back, 1)
	one, seen := engine.Check{Policy: "one", Key: "a", Cost: 1}, engine.Check{Policy: "seen", Key: "b", Cost: 1}
	decide(t, door, headgate.Take, one, seen)
	decide(t, e, headgate.Take, one)
	decide(t, door, headgate.Take, inline("c", "5/s"), one)
	decide(t, door, headgate.Take, engine.Check{Policy: "seen", Key: "d", Cost: 1}, seen)
	decide(t, door, headgate.Peek, one)
	var a engine.Answer
	if err := door.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "none"}}, &a); err == nil {
		t.Fatal("an unknown policy was accepted")
	}
	front.mustHaveHeard(t,
		"take began=7 one/a=true (seen/b=true)",
		"take began=7 /c=true one/a=false",
		"take began=7 (seen/d=true) (seen/b=false by 1/h)",
		"peek began=7 one/a=false",
		"take began=7 unknown policy",
	)
	back.mustHaveHeard(t)
	decide(t, other, headgate.Peek, one)
	back.mustHaveHeard(t, "peek began=7 one/a=false")
}

func TestAnObservedEngineGoesByTheOtherOnesPolicies(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var heard journal
	door := e.WithObserver(&heard, 1)
	next := &engine.Options{Policies: map[string]headgate.Policy{"two": observed.Policies["one"]}}
	if err := e.Apply(next); err != nil {
		t.Fatal(err)
	}
	if door.ActiveConfig().Generation() != 2 || e.ActiveConfig().Generation() != 2 {
		t.Fatalf("generations %d and %d, want 2", door.ActiveConfig().Generation(), e.ActiveConfig().Generation())
	}
	decide(t, door, headgate.Take, engine.Check{Policy: "two", Key: "k", Cost: 1})
	heard.mustHaveHeard(t, "take began=7 two/k=true")
	if err := door.Apply(observed); err != nil {
		t.Fatal(err)
	}
	decide(t, e, headgate.Take, engine.Check{Policy: "one", Key: "k", Cost: 1})
	var a engine.Answer
	if err := door.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "two"}}, &a); !errors.Is(err, engine.ErrUnknownPolicy) {
		t.Fatalf("the policy before: %v, want it unknown", err)
	}
}

// silent counts, so that what is measured is telling alone.
type silent struct{ began, heard int }

func (s *silent) Begin() int64          { s.began++; return 1 }
func (s *silent) Observe(*engine.Event) { s.heard++ }

func TestTellingAllocatesNothing(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	var s silent
	door := e.WithObserver(&s, 0)
	var a engine.Answer
	checks, ctx := []engine.Check{{Policy: "api", Key: "k", Cost: 1}}, t.Context()
	got := testing.AllocsPerRun(1000, func() {
		if err := door.Decide(ctx, headgate.Take, checks, &a); err != nil {
			t.Fatal(err)
		}
	})
	if got > 0 || s.heard == 0 {
		t.Errorf("%v allocations and %d events, want none and some", got, s.heard)
	}
}

func TestSomeRequestsBeginWithTheObserver(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		everyNth    uint32
		least, most int
	}{{0, 0, 0}, {1, 16_000, 16_000}, {16, 850, 1150}} { // 1000 ± 31
		e, _ := newEngine(t, twoPolicies)
		var s silent
		door := e.WithObserver(&s, c.everyNth)
		var a engine.Answer
		for range 16_000 {
			if err := door.Decide(t.Context(), headgate.Peek, []engine.Check{{Policy: "api", Key: "k"}}, &a); err != nil {
				t.Fatal(err)
			}
		}
		if s.began < c.least || s.began > c.most || s.heard != 16_000 {
			t.Errorf("one in %d: %d of %d began, want %d to %d", c.everyNth, s.began, s.heard, c.least, c.most)
		}
	}
}
