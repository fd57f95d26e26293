package algo

import (
	"math"

	"github.com/headgate/headgate"
)

// Target is the state of one key while several charges are decided: a State, or a Log for a sliding log.
type Target struct {
	State State
	Log   *Log
	first Stepper // that of its first charge
	total int64   // units of all its charges
}

// Charge is one of several that are admitted together or not at all. Charges of the same key share a target. Exactly one of
// Step and Log is set.
type Debit struct {
	Step   Stepper
	Log    LogStepper
	Target *Target
	N      int64
	before int64 // units of earlier charges on the same target
}

// TakeAll decides charges at t, all or nothing, and writes a decision for each. If all are allowed it spends them from their
// targets, unless it only peeks. A denial leaves the targets as they were, but for what a changed limit carries over.
func DebitAll(charges []Debit, t int64, peek bool, decisions []headgate.Decision) bool {
	all := decideAll(charges, t, decisions)
	switch {
	case peek:
	case all:
		spendAll(charges, t, decisions)
	default:
		for i := range charges {
			if target := charges[i].Target; target.first != nil {
				target.State, _ = target.first.Take(target.State, t, 0)
			}
		}
	}
	return all
}

// decideAll answers every charge as if it came after those before it. Nothing is spent.
func decideAll(charges []Debit, t int64, decisions []headgate.Decision) bool {
	all := true
	for i := range charges {
		c := &charges[i]
		if c.Target.first == nil {
			c.Target.first = c.Step
		}
		c.before = c.Target.total
		c.Target.total = saturatingAdd(c.before, c.N)
		asked := c.N
		if asked > 0 { // a cost of 0 is always admitted, also behind others on its key
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

// spendAll spends what was admitted, and answers from what is then left.
func spendAll(charges []Debit, t int64, decisions []headgate.Decision) {
	for i := range charges {
		if c := &charges[i]; c.Step != nil {
			c.Target.State, _ = c.Step.Take(c.Target.State, t, c.N)
		} else {
			c.Log.Take(c.Target.Log, t, c.N, true)
		}
	}
	for i := range charges {
		if c := &charges[i]; c.Step != nil {
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
