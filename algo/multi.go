package algo

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Target is the state of one key while several debits are decided. Log is set for a
// sliding log; all other algorithms use State. Holds are the open holds of the key, and
// may be nil if its units are not slots.
type Target struct {
	State State
	Log   *Log
	Holds *Ledger
	total int64 // units of all debits with this target
}

// Debit is one of several charges that are made together or not at all. Debits of the
// same key have the same target. Exactly one of Step and Log is set.
type Debit struct {
	Step   Stepper
	Log    LogStepper
	Target *Target
	N      int64
	before int64 // units of earlier debits with the same target
}

// DebitAll decides all debits at t, and writes a decision for each of them. If all are
// allowed, it spends their units, unless peek is true. Otherwise it leaves all targets
// unchanged.
func DebitAll(debits []Debit, t int64, peek bool, decisions []headgate.Decision) bool {
	all := decideAll(debits, t, decisions)
	if all && !peek {
		spendAll(debits, t, decisions)
	}
	return all
}

// decideAll decides every debit as if the units of the earlier debits were already
// spent. It spends nothing.
func decideAll(debits []Debit, t int64, decisions []headgate.Decision) bool {
	all := true
	for i := range debits {
		c := &debits[i]
		c.before = c.Target.total
		c.Target.total = micros.SaturatingAdd(c.before, c.N)
		asked := c.N
		if asked > 0 { // cost 0 is always allowed, even after other debits of the same key
			asked = c.Target.total
		}
		if c.Step != nil {
			r := Request{Verb: Peek, T: t, N: asked}
			out := Apply(c.Step, c.Target.State, &r)
			decisions[i] = c.Target.Holds.Answer(c.Step, out.Next, t, out.Asked, out.Spent, out.Allowed)
		} else {
			decisions[i] = c.Log.Answer(c.Target.Log, t, asked, c.Log.Fits(c.Target.Log, t, asked))
		}
		all = all && decisions[i].Allowed
	}
	return all
}

// spendAll spends the units of all debits, and writes decisions with the resulting
// states.
func spendAll(debits []Debit, t int64, decisions []headgate.Decision) {
	for i := range debits {
		if c := &debits[i]; c.Step != nil {
			c.Target.State, _ = c.Step.Take(c.Target.State, t, c.N)
		} else {
			c.Log.Take(c.Target.Log, t, c.N, true)
		}
	}
	for i := range debits {
		if c := &debits[i]; c.Step != nil {
			decisions[i] = c.Step.Answer(c.Target.State, t, c.N, c.Target.total, true)
		} else {
			decisions[i] = c.Log.Answer(c.Target.Log, t, c.N, true)
		}
	}
}
