package memstore

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// This file executes operations on keys whose units only holds take. The decisions depend
// on the deadlines of the open holds.

func errHoldRequired(verb string) error {
	return fmt.Errorf("memstore: %s: %w; use ApplyHolds", verb, headgate.ErrHoldRequired)
}

// applyOnlyHolds is Apply for an algorithm under which only holds take units.
func (b *slotBound) applyOnlyHolds(d digest, t int64, v headgate.Verb, cost int64) (headgate.Decision, error) {
	switch v {
	case headgate.Peek:
		return b.peekOnlyHolds(d, t, cost), nil
	case headgate.Reset:
		out, err := b.apply(d, &algo.Request{Verb: algo.Reset, T: t})
		return b.step.Answer(out.Next, t, 0, 0, true), err
	case headgate.Take, headgate.Refund:
		return headgate.Decision{}, errHoldRequired(v.String())
	default:
		return headgate.Decision{}, errVerb(v)
	}
}

// peekOnlyHolds returns the decision of a hold of n units. It changes nothing.
func (b *slotBound) peekOnlyHolds(d digest, t, n int64) headgate.Decision {
	sh := b.store.holds.shard(d)
	sh.mu.Lock()
	defer sh.mu.Unlock()
	a, ledger := algo.StateAccount{Step: b.corrector}, (*algo.Ledger)(nil)
	if k := sh.keys.get(d); k != nil {
		a.State, ledger = k.account.State, &k.ledger
		if k.releasesAt(t, b.holds) {
			ledger = k.ledger.ExpiredCopy(&a, t, b.holds.OnExpiry == headgate.ReleaseExpired)
		}
	}
	_, ok := b.step.Take(a.State, t, n)
	return b.withDeniedBy(ledger.Answer(b.step, a.State, t, n, 0, ok))
}
