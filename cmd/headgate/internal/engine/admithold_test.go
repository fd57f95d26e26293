package engine_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// A key with too many open holds is charged without one. Only an enforced limit of
// concurrent work needs one. Each request is one event.
func TestAdmitHeld(t *testing.T) {
	t.Parallel()
	rate := headgate.MustPolicy("3/1h")
	rate.Holds.MaxOpen = 1
	inner, _ := newEngine(t, &engine.Options{
		Policies:      map[string]headgate.Policy{"rate": rate, "slots": headgate.MustPolicy("9 concurrent"), "seen": headgate.MustPolicy("9 concurrent")},
		PolicyOptions: map[string]engine.PolicyOptions{"seen": {Shadow: engine.All}},
	})
	var j journal
	e := inner.WithObserver(&j, 0)
	for i, c := range []struct {
		policies []string
		held     bool
		err      error
		event    string
	}{
		{[]string{"rate", "seen"}, true, nil, "hold began=0 rate/k=true (seen/k=true)"},
		{[]string{"rate", "seen"}, false, nil, "take began=0 rate/k=true (seen/k=false)"},
		{[]string{"rate", "slots"}, false, engine.ErrNoHold, "take began=0 could not decide"},
		{[]string{"slots"}, true, nil, "hold began=0 slots/k=true"},
		{[]string{"rate"}, false, nil, "take began=0 rate/k=true"},
		{[]string{"rate"}, false, nil, "take began=0 rate/k=false"},
	} {
		var checks []engine.Check
		for _, name := range c.policies {
			checks = append(checks, engine.Check{Policy: name, Key: "k", Cost: 1, Composed: true})
		}
		var a engine.Answer
		h := engine.ClientHold{ID: headgate.NewHoldID(), Checks: checks}
		held, err := e.ActiveConfig().AdmitHeld(t.Context(), start, time.Hour, &h, &a)
		if held != c.held || !errors.Is(err, c.err) || held && h.Expires != start+3600*second {
			t.Errorf("request %d: got held %v until %d, %v want %v, %v", i+1, held, h.Expires, err, c.held, c.err)
		}
		j.requireEvents(t, c.event)
	}
}
