package engine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// A hold whose slot is lost has an error, although its rate remains and is changed.
func TestHoldWithLostSlot(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, nil)
	rate, slot := inline("k", "10/1h"), inline("k", "2 concurrent")
	rate.Cost, slot.Cost = 4, 1
	h, a := mustHold(t, e, start, time.Minute, rate, slot)
	if err := e.DecideAt(t.Context(), start, headgate.Reset, []engine.Check{slot}, &a); err != nil {
		t.Fatal(err)
	}
	if err := e.ActiveConfig().Commit(t.Context(), start, &h, []int64{1, 1}, &a); !errors.Is(err, headgate.ErrUnknownHold) {
		t.Errorf("commit: got error %v want ErrUnknownHold", err)
	}
	rate.Cost = 0
	if err := e.DecideAt(t.Context(), start, headgate.Peek, []engine.Check{rate}, &a); err != nil || a.Remaining != 9 {
		t.Errorf("the rate after the commit: got %+v, error %v want 9 remaining", a.Decision, err)
	}
}

// A rate that does not know a hold has not counted the units above its amount. The error
// has their number, also if the policy caps the amount. The other rates are changed.
func TestHoldWithLostRate(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{
		"capped": {Limits: limits("10/1h"), Holds: headgate.HoldSettings{CapAmount: true}}, "other": {Limits: limits("20/1h")},
	}})
	lost, capped, other := inline("k", "10/1h"), engine.Check{Policy: "capped", Key: "k", Cost: 14}, engine.Check{Policy: "other", Key: "k", Cost: 4}
	lost.Cost = 4
	h, a := mustHold(t, e, start, time.Minute, lost, capped, other)
	for _, c := range []engine.Check{lost, capped} {
		if err := e.DecideAt(t.Context(), start, headgate.Reset, []engine.Check{c}, &a); err != nil {
			t.Fatal(err)
		}
	}
	token := h.Token()
	for _, c := range []struct {
		actual []int64
		want   string // in the error; empty for none
	}{
		{[]int64{7, 12, 2}, `not counted (3 under "10/1h", 2 under "capped")`},
		{[]int64{7, 12, 2}, `not counted (3 under "10/1h", 2 under "capped")`},
		{[]int64{4, 10, 2}, ""},
	} {
		h, err := engine.ParseHold(token, 3)
		if err != nil {
			t.Fatal(err)
		}
		err = e.ActiveConfig().Commit(t.Context(), start, &h, c.actual, &a)
		if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, headgate.ErrUnknownHold) || !strings.Contains(engine.Reason(err), c.want)) {
			t.Errorf("commit %d: got error %v want %s", c.actual, err, c.want)
		}
	}
	other.Cost = 0
	if err := e.DecideAt(t.Context(), start, headgate.Peek, []engine.Check{other}, &a); err != nil || a.Remaining != 18 {
		t.Errorf("the other rate after the commit: got %+v, error %v want 18 remaining", a.Decision, err)
	}
}

// The store does not know a hold that a failure mode has opened. The failure mode open
// has charged nothing, so nothing is corrected, and the result has the units above the
// amount. The failure mode closed opens no holds, and the failure mode local opens them
// in another process: the error has what to do instead.
func TestCommitOfUnknownDegradedHold(t *testing.T) {
	t.Parallel()
	const advice = "use the process that opened it, or charge the actual cost with a debit"
	for _, tt := range []struct {
		mode      headgate.OnStoreError
		at        headgate.Instant
		want      engine.ErrorKind
		uncounted int64
	}{
		{headgate.FailOpen, start, 0, 3},
		{headgate.FailOpen, start + 60*second, 0, 3},
		{headgate.FailLocal, start, engine.UnknownHold, 0},
		{headgate.FailLocal, start + 60*second, engine.ExpiredHold, 0},
		{headgate.FailClosed, start, engine.UnknownHold, 0},
		{"", start + 60*second, engine.ExpiredHold, 0},
	} {
		policy := headgate.MustPolicy("10/1h")
		policy.OnStoreError = tt.mode
		e, _ := newPolicyEngine(t, policy, engine.PolicyOptions{}, "")
		h := engine.ClientHold{
			ID: headgate.HoldID{1}, Expires: start + 60*second, Degraded: headgate.ReasonTimedOut,
			Checks: []engine.Check{{Policy: "p", Key: "k", Cost: 4}},
		}
		var a engine.Answer
		err := e.ActiveConfig().Commit(t.Context(), tt.at, &h, []int64{7}, &a)
		switch {
		case tt.want == 0 && (err != nil || a.Degraded != headgate.ReasonTimedOut || a.Uncounted != tt.uncounted):
			t.Errorf("%q: got %+v, error %v want a degraded decision, %d units not counted", tt.mode, a.Decision, err, tt.uncounted)
		case tt.want != 0 && (err == nil || engine.ErrorKindOf(err) != tt.want):
			t.Errorf("%q: got error %v want %v", tt.mode, err, tt.want)
		case tt.want == engine.UnknownHold && !strings.Contains(engine.Reason(err), advice):
			t.Errorf("%q: the error does not have what to do: %v", tt.mode, err)
		}
	}
}

// Two checks with one policy and key are one hold. If it is lost, the commit has as many
// units above its amount as the sum of the actual costs. Two texts of one limit have the
// same state.
func TestUncountedUnitsOfEqualChecks(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		actual []int64
		want   string // in the error; empty for none
	}{
		{[]int64{7, 1, 2}, ""},
		{[]int64{1, 7, 2}, ""},
		{[]int64{1, 9, 2}, `not counted (2 under "10/60m")`},
		{[]int64{5, 5, 2}, `not counted (2 under "10/60m")`},
	} {
		e, _ := newEngine(t, nil)
		first, second, other := inline("k", "10/60m"), inline("k", "10/1h"), inline("other", "20/1h")
		first.Cost, second.Cost = 4, 4
		h, a := mustHold(t, e, start, time.Minute, first, second, other)
		if !a.Allowed {
			t.Fatalf("got %+v want a hold", a.Decision)
		}
		decide(t, e, headgate.Reset, first)
		err := e.ActiveConfig().Commit(t.Context(), start, &h, tt.actual, &a)
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(engine.Reason(err), tt.want)) {
			t.Errorf("commit %d: got error %v want %q", tt.actual, err, tt.want)
		}
	}
}
