package memstore

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// expireHolds ends the holds of all targets that have expired. It creates the accounts
// of the targets that have holds and, in an ApplyHolds call, of all targets. In a peek
// nothing is stored: a hold that has expired at the instant of the peek may still be
// open for a later call with an earlier instant.
func (x *transaction) expireHolds() {
	for i := range x.debits {
		c := &x.debits[i]
		t := c.target
		if t.account != nil || t.held == nil && !x.holdCall {
			continue
		}
		t.account = x.accountOf(c)
		if t.held == nil || !t.held.ledger.NeedsExpire(x.t) {
			continue
		}
		if x.peek {
			x.expireCopy(c)
		} else {
			x.store.expire(t.held, t.account, x.t, c.settings())
		}
		if a, ok := t.account.(*algo.StateAccount); ok {
			t.state = a.State
		}
	}
}

func (x *transaction) accountOf(c *debit) algo.Account {
	if c.rule != nil {
		return &algo.StateAccount{Step: c.rule.corrector, State: c.target.state}
	}
	c.target.holds.bindLog(c.target.held, c.logRule)
	return &logTarget{LogAccount: algo.LogAccount{Step: c.logRule.step, Log: c.target.log}, store: x.store, target: c.target}
}

// expireCopy is expire on a copy of the holds and of the state of the debit's target.
func (x *transaction) expireCopy(c *debit) {
	t := c.target
	if !t.held.releasesAt(x.t, c.settings()) {
		return
	}
	if c.rule == nil {
		t.log = t.log.Clone()
		t.account = &algo.LogAccount{Step: c.logRule.step, Log: t.log}
	}
	t.peeked = t.held.ledger.ExpiredCopy(t.account, x.t, c.settings().OnExpiry == headgate.ReleaseExpired)
}

// ledger returns the open holds of the target, or nil.
func (t *target) ledger() *algo.Ledger {
	switch {
	case t.peeked != nil:
		return t.peeked
	case t.held != nil:
		return &t.held.ledger
	}
	return nil
}

// observe updates the open holds of the target after its state has become next.
func (t *target) observe(at int64, next algo.State, g *slotBound) {
	if t.held == nil || t.slot == nil || next == t.state {
		return
	}
	a := algo.StateAccount{Step: g.corrector, State: t.state}
	t.held.ledger.Set(&a, at, next)
}

// keepHeld stores the state next of a key with open holds outside its slot. It returns
// false if the key has no open holds.
func (t *target) keepHeld(s *Store, next algo.State, g *slotBound) bool {
	switch {
	case t.held == nil:
		return false
	case len(t.held.ledger.Holds) == 0:
		s.removeHeld(t.holds, t.held)
		return false
	}
	t.held.account, t.held.rule = algo.StateAccount{Step: g.corrector, State: next}, g
	return true
}

// saveLog stores the log of a target after a change, and removes the holds of the target
// if none is open.
func (s *Store) saveLog(t *target) {
	if t.held != nil && len(t.held.ledger.Holds) == 0 {
		s.removeHeld(t.holds, t.held)
		t.held = nil
	}
	if t.keyLog != nil {
		t.keyLog = s.logs.save(t.logShard, t.d, t.keyLog)
	}
}

// logTarget is the [algo.Account] of a target with a sliding log. It adjusts the memory
// in use.
type logTarget struct {
	algo.LogAccount
	store  *Store
	target *target
}

// Take implements [algo.Account].
func (a *logTarget) Take(t, n int64) bool {
	fits := a.Step.Fits(a.Log, t, n)
	if fits && n > 0 {
		a.store.logs.spend(a.target.logShard, a.target.d, a.target.keyLog, a.Step, t, n)
	}
	return fits
}

// Charge implements [algo.Account].
func (a *logTarget) Charge(t, n int64) {
	if n > 0 {
		a.store.logs.spendUnits(a.target.logShard, a.target.d, a.target.keyLog, a.Step, t, n, true)
	}
}

// Correct implements [algo.Account].
func (a *logTarget) Correct(t, chargedAt, n int64, reduction algo.Debt) {
	a.LogAccount.Correct(t, chargedAt, n, reduction)
	a.target.keyLog.resetAt = a.Step.ResetAt(a.Log)
}
