package engine

import (
	"cmp"
	"slices"

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
		a.Uncounted, h.Err = call.holdError(c, from, to, h, at)
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

// holdError returns the error of the operation on h, whose charges are from to to − 1,
// and the units that a commit has not counted; see [root.HoldError].
func (call *holdCall) holdError(c *charges, from, to int, h *ClientHold, at headgate.Instant) (uncounted int64, err error) {
	results := c.results[from:to]
	if !slices.ContainsFunc(results, func(r headgate.HoldResult) bool { return r.Err != nil || r.Degraded != headgate.ReasonNone }) {
		return 0, nil // usual case
	}
	limits := make([]root.HeldLimit, len(results))
	for i := range limits {
		limits[i] = call.heldLimit(c, from+i)
	}
	return root.HoldError(results, limits, at, h.Expires, h.Degraded)
}

// heldLimit returns the limit of charge i, with the fields of its rule that decide
// whether a hold has been lost.
func (call *holdCall) heldLimit(c *charges, i int) root.HeldLimit {
	r := c.rules[i]
	l := root.HeldLimit{Key: c.Ops[i].Key}
	if call.verb == headgate.CommitHold {
		l.Excess = c.Ops[i].Cost - r.holds.ChargedUnits(call.amounts[c.checks[i]], r.Capacity())
	}
	l.Rule = headgate.Rule{Scope: r.scope, Name: r.Name, Limit: r.Limit, Algorithm: r.Algorithm, OnStoreError: r.onError}
	return l
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
func (h *ClientHold) expireAt(call *holdCall, deadline, at headgate.Instant) {
	switch {
	case call.verb != headgate.OpenHold && call.verb != headgate.ExtendHold:
	case deadline != 0:
		h.Expires = deadline
	default:
		h.Expires = at + headgate.Instant(call.ttl.Microseconds())
	}
}
