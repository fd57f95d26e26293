package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// journal records every event as a line.
type journal struct{ lines []string }

func (*journal) Begin() int64 { return 7 }

func (j *journal) Observe(e *engine.Event) {
	line := fmt.Sprint(e.Operation, " began=", e.Began)
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

func (j *journal) requireEvents(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(j.lines, want) {
		t.Fatalf("events\n%q, want\n%q", j.lines, want)
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

func TestObserverReceivesEveryRequest(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var first, second journal
	view, other := e.WithObserver(&first, 1), e.WithObserver(&second, 1)
	one, seen := engine.Check{Policy: "one", Key: "a", Cost: 1}, engine.Check{Policy: "seen", Key: "b", Cost: 1}
	decide(t, view, headgate.Take, one, seen)
	decide(t, e, headgate.Take, one)
	decide(t, view, headgate.Take, inline("c", "5/s"), one)
	decide(t, view, headgate.Take, engine.Check{Policy: "seen", Key: "d", Cost: 1}, seen)
	decide(t, view, headgate.Peek, one)
	var a engine.Answer
	if err := view.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "none"}}, &a); err == nil {
		t.Fatal("an unknown policy was accepted")
	}
	first.requireEvents(t,
		"take began=7 one/a=true (seen/b=true)",
		"take began=7 /c=true one/a=false",
		"take began=7 (seen/d=true) (seen/b=false by 1/h)",
		"peek began=7 one/a=false",
		"take began=7 unknown policy",
	)
	second.requireEvents(t)
	decide(t, other, headgate.Peek, one)
	second.requireEvents(t, "peek began=7 one/a=false")
}

func TestViewSharesConfig(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var events journal
	view := e.WithObserver(&events, 1)
	next := &engine.Options{Policies: map[string]headgate.Policy{"two": observed.Policies["one"]}}
	if err := e.Apply(next); err != nil {
		t.Fatal(err)
	}
	if view.ActiveConfig().Generation() != 2 || e.ActiveConfig().Generation() != 2 {
		t.Fatalf("generations %d and %d, want 2", view.ActiveConfig().Generation(), e.ActiveConfig().Generation())
	}
	decide(t, view, headgate.Take, engine.Check{Policy: "two", Key: "k", Cost: 1})
	events.requireEvents(t, "take began=7 two/k=true")
	if err := view.Apply(observed); err != nil {
		t.Fatal(err)
	}
	decide(t, e, headgate.Take, engine.Check{Policy: "one", Key: "k", Cost: 1})
	var a engine.Answer
	if err := view.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "two"}}, &a); !errors.Is(err, engine.ErrUnknownPolicy) {
		t.Fatalf("the policy of the old configuration: %v, want it unknown", err)
	}
}

// eventCounter only counts, so that the test measures the notification alone.
type eventCounter struct{ began, events int }

func (s *eventCounter) Begin() int64          { s.began++; return 1 }
func (s *eventCounter) Observe(*engine.Event) { s.events++ }

func TestObserverAllocatesNothing(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	var s eventCounter
	view := e.WithObserver(&s, 0)
	var a engine.Answer
	checks, ctx := []engine.Check{{Policy: "api", Key: "k", Cost: 1}}, t.Context()
	got := testing.AllocsPerRun(1000, func() {
		if err := view.Decide(ctx, headgate.Take, checks, &a); err != nil {
			t.Fatal(err)
		}
	})
	if got > 0 || s.events == 0 {
		t.Errorf("%v allocations and %d events, want none and some", got, s.events)
	}
}

func TestBeginSampled(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		everyNth    uint32
		least, most int
	}{{0, 0, 0}, {1, 16_000, 16_000}, {16, 850, 1150}} { // 1000 ± 31
		e, _ := newEngine(t, twoPolicies)
		var s eventCounter
		view := e.WithObserver(&s, c.everyNth)
		var a engine.Answer
		for range 16_000 {
			if err := view.Decide(t.Context(), headgate.Peek, []engine.Check{{Policy: "api", Key: "k"}}, &a); err != nil {
				t.Fatal(err)
			}
		}
		if s.began < c.least || s.began > c.most || s.events != 16_000 {
			t.Errorf("one in %d: %d of %d began, want %d to %d", c.everyNth, s.began, s.events, c.least, c.most)
		}
	}
}

// Count spends units and is not reported.
func TestCountIsNotObserved(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, observed)
	var j journal
	view := e.WithObserver(&j, 1)
	checks := []engine.Check{{Policy: "one", Key: "a", Cost: 1}}
	var a engine.Answer
	for i, want := range []bool{true, false} {
		if err := view.ActiveConfig().Count(t.Context(), headgate.StoreClock, checks, &a); err != nil || a.Allowed != want {
			t.Errorf("call %d: got %v, error %v want %v", i+1, a.Allowed, err, want)
		}
	}
	j.requireEvents(t)
	if d := decide(t, view, headgate.Take, checks...); d.Allowed {
		t.Error("the counted unit is not spent")
	}
}
