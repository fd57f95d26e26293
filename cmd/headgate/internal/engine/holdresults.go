package engine

import (
	"cmp"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// commonError returns nil if the operation has succeeded for at least one charge, and
// otherwise the error of the last.
func commonError(results []headgate.HoldResult) (err error) {
	for i := range results {
		if err = results[i].Err; err == nil {
			return nil
		}
	}
	return err
}

// addResults sets the fields of a, and of the holds of the call, that only operations on
// holds have. at is the instant of the operation. It returns an error of
// [holdCall.firstError] if no hold was changed.
func (call *holdCall) addResults(a *Answer, at headgate.Instant) error {
	c := &a.enforced
	deadlines := make([]headgate.Instant, len(call.holds)) // the earliest one of each hold
	for i := range c.results {
		r := &c.results[i]
		a.Replayed = a.Replayed || r.Replayed
		if i == 0 || r.Granted < a.Granted {
			a.Granted = r.Granted
		}
		if r.Deadline != 0 && (deadlines[c.holds[i]] == 0 || r.Deadline < deadlines[c.holds[i]]) {
			deadlines[c.holds[i]] = r.Deadline
		}
	}
	changed, from := false, 0
	for i := range call.holds {
		h, to := &call.holds[i], from
		for to < len(c.holds) && c.holds[to] == i {
			to++
		}
		limitOf := func(j int) (headgate.Rule, string, int64) { return call.limitOf(c, from+j) }
		a.Uncounted, h.Err = root.HoldError(c.results[from:to], limitOf, at, h.Expires, h.Degraded)
		if from = to; h.Err == nil {
			h.expireAt(call, deadlines[i], at)
			changed = true
		}
	}
	for i := range c.results {
		d := &c.Decisions[i]
		if c.results[i].Err == nil {
			continue
		}
		if d.Limit == 0 { // the store returned no decision
			*d = unusedDecision(c.rules[i])
		}
		if reason := cmp.Or(call.holds[c.holds[i]].Degraded, reasonOf(c.results[i].Err)); reason != headgate.ReasonNone {
			d.Degraded = reason
		}
	}
	if changed {
		return nil
	}
	return call.firstError()
}

// limitOf returns the fields of the rule of charge i that decide whether a hold has been
// lost, and the key. For a commit, it also returns by how many units the actual cost is
// above the amount.
func (call *holdCall) limitOf(c *charges, i int) (rule headgate.Rule, key string, excess int64) {
	r := c.rules[i]
	if call.verb == headgate.CommitHold {
		excess = c.Ops[i].Cost - r.holds.ChargedUnits(call.amounts[c.checks[i]], r.Capacity())
	}
	rule = headgate.Rule{Scope: r.scope, Name: r.Name, Limit: r.Limit, Algorithm: r.Algorithm, OnStoreError: r.onError}
	return rule, c.Ops[i].Key, excess
}

// allowAll sets the fields that addResults sets, for a request whose limits are not
// enforced.
func (call *holdCall) allowAll(a *Answer) {
	at := root.InstantNow(call.now)
	for i := range call.holds {
		call.holds[i].expireAt(call, 0, at)
	}
	if call.verb == headgate.TakeUpTo {
		checks := call.holds[0].Checks
		a.Granted = checks[0].Cost
		for i := range checks {
			a.Granted = min(a.Granted, checks[i].Cost)
		}
	}
}

// expireAt sets the deadline if the call has opened or extended the hold, or had opened
// it before. deadline is 0 if the store has no such hold.
func (h *OpenHold) expireAt(call *holdCall, deadline, at headgate.Instant) {
	switch {
	case call.verb != headgate.OpenHold && call.verb != headgate.ExtendHold:
	case deadline != 0:
		h.Expires = deadline
	default:
		h.Expires = at + headgate.Instant(call.ttl.Microseconds())
	}
}
