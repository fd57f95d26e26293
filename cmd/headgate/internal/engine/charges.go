package engine

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
)

// charges are the operations that one call of the store executes. The elements of
// rules, Ops and Decisions correspond by index.
type charges struct {
	admission.Batch
	rules  []*Rule
	checks []int // index of the check of each charge
	bans   int   // number of bans in rules; see foldBans

	// For operations on holds only:
	holds   []int // index of the hold of each charge
	first   int   // index of the first charge of the hold that is being resolved
	ops     []headgate.HoldOp
	results []headgate.HoldResult
}

func (c *charges) reset() {
	c.Reset()
	c.rules, c.checks, c.bans = c.rules[:0], c.checks[:0], 0
	c.holds, c.first = c.holds[:0], 0
}

// add adds a charge of the check with index i.
func (c *charges) add(i int, r *Rule, check *Check) {
	c.rules, c.checks = append(c.rules, r), append(c.checks, i)
	c.Add(r.bound, r.queues, check.Key, check.Cost)
}

// addBan adds a charge of one unit on the ban of the check with index i, so that it is
// denied while the key is banned. A cost of 0 is always allowed.
func (c *charges) addBan(i int, r *Rule, check *Check) {
	c.rules, c.checks, c.bans = append(c.rules, r), append(c.checks, i), c.bans+1
	c.Add(r.bound, r.queues, check.Key, min(1, check.Cost))
}

func (c *charges) clearKeys() {
	clear(c.Ops)
	clear(c.ops)
}

// setFailed sets the decisions of the charges with the indexes from, …, to-1, for which a
// call has returned err. If a hold was not open, the store has returned a peek.
func (c *charges) setFailed(from, to int, err error) {
	for i := from; i < to; i++ {
		if d := &c.Decisions[i]; d.Limit == 0 || !isNotOpen(err) {
			*d = unusedDecision(c.rules[i])
			d.Degraded = reasonOf(err)
		}
	}
}

// firstDenial returns the rule of the first denied charge with an index in from, …,
// to-1, or nil if none was denied.
func (c *charges) firstDenial(from, to int) *Rule {
	for i := from; i < to; i++ {
		if !c.Decisions[i].Allowed {
			return c.rules[i]
		}
	}
	return nil
}
