package algo

import (
	"math"

	"github.com/headgate/headgate"
)

// Target is the state of one key while several debits are decided: a State, or a Log
// for a sliding log.
type Target struct {
	State State
	Log   *Log
	first Stepper // the Stepper of its first debit
	total int64   // units of all its debits
}

// Debit is one of several debits that are all made or none. Debits of the same key
// share a target. Exactly one of Step and Log is set.
type Debit struct {
	Step   Stepper
	Log    LogStepper
	Target *Target
	N      int64
	before int64 // units of earlier debits of the same target
}

// DebitAll decides debits at t, all or none, and writes a decision for each. If all are
// allowed it spends them from their targets, unless peek is set. A denial leaves the
// targets unchanged, except for what a changed limit carries over.
func DebitAll(debits []Debit, t int64, peek bool, decisions []headgate.Decision) bool {
	all := decideAll(debits, t, decisions)
	switch {
	case peek:
	case all:
		spendAll(debits, t, decisions)
	default:
		for i := range debits {
			if target := debits[i].Target; target.first != nil {
				target.State, _ = target.first.Take(target.State, t, 0)
			}
		}
	}
	return all
}

// decideAll decides every debit as if the debits before it were spent. It spends
// nothing.
func decideAll(debits []Debit, t int64, decisions []headgate.Decision) bool {
	all := true
	for i := range debits {
		c := &debits[i]
		if c.Target.first == nil {
			c.Target.first = c.Step
		}
		c.before = c.Target.total
		c.Target.total = saturatingAdd(c.before, c.N)
		asked := c.N
		if asked > 0 { // a cost of 0 is always allowed, even after other debits of its key
			asked = c.Target.total
		}
		if c.Step != nil {
			r := Request{Verb: Peek, T: t, N: asked}
			out := Apply(c.Step, c.Target.State, &r)
			decisions[i] = AnswerTo(c.Step, &r, &out)
		} else {
			decisions[i] = c.Log.Answer(c.Target.Log, t, asked, c.Log.Fits(c.Target.Log, t, asked))
		}
		all = all && decisions[i].Allowed
	}
	return all
}

// spendAll spends the debits, and writes the decisions for the resulting states.
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

func saturatingAdd(a, b int64) int64 {
	if s := a + b; s >= a {
		return s
	}
	return math.MaxInt64
}
