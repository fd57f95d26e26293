package algo

import "slices"

// LimitChange is a change of the limit while holds were open. A hold that was opened
// before the change charged its units under the previous limit. Fields are exported for
// stores that save a [Ledger].
type LimitChange struct {
	HoldsBefore int   // number of open holds that were opened before the change, at least 1
	Unit        Unit  // of the limit before the change
	Cut         int64 // debt in µs that was dropped, because the new limit has a lower capacity
	Least       Debt  // minimum debt of the segment that begins with the change; see [Hold]
}

// carryReduction converts d, by which the debt before the change is too high, to the
// reduction after the change: less what the change dropped, and at most c.Least. It
// subtracts the result from c.Least. A fraction of a µs is dropped, so that a correction
// refunds less, never more. d is at most the least debt of the segment before the change.
// denominator is that of the limit after the change.
func (c *LimitChange) carryReduction(d Debt, denominator int64) Debt {
	cut := min(c.Cut, d.Whole)
	c.Cut -= cut
	d = minDebt(Debt{Whole: d.Whole - cut}, c.Least)
	c.Least = c.Least.minus(d, denominator)
	return d
}

// adopt converts the state to the present limit at t, and records the change of the
// limit.
func (l *Ledger) adopt(a Account, t int64) {
	if len(l.Holds) == 0 {
		return
	}
	from, to := l.Unit, a.Unit()
	if from != to {
		for i := range l.Holds {
			l.Holds[i].ChargedAt = a.Recount(t, l.Holds[i].ChargedAt, from)
		}
	}
	cut, changed := a.Adopt(t, from, l.leased)
	l.Unit = to
	if changed && from.D > 0 {
		l.appendChange(LimitChange{Unit: from, Cut: cut, Least: l.unleasedDebt(a, t)})
	}
}

// appendChange adds a change that follows all open holds, if there is an open hold.
func (l *Ledger) appendChange(c LimitChange) {
	if c.HoldsBefore = len(l.Holds); c.HoldsBefore > 0 {
		l.Changes = append(l.Changes, c)
		l.mergeChanges(len(l.Changes) - 1)
	}
}

// mergeChanges merges change i with the one before if no open hold was opened between
// them. So a ledger has at most as many changes as holds.
func (l *Ledger) mergeChanges(i int) {
	if i < 1 || i >= len(l.Changes) || l.Changes[i-1].HoldsBefore != l.Changes[i].HoldsBefore {
		return
	}
	c, later := &l.Changes[i-1], l.Changes[i]
	c.Least = minDebt(Debt{Whole: max(0, c.Least.Whole-later.Cut)}, later.Least)
	c.Cut += later.Cut
	l.Changes = slices.Delete(l.Changes, i, i+1)
}

// changeAfter returns the index of the first change after hold i was opened.
func (l *Ledger) changeAfter(i int) int {
	for c := range l.Changes {
		if l.Changes[c].HoldsBefore > i {
			return c
		}
	}
	return len(l.Changes)
}

// unitBefore returns the unit under which holds between the changes c−1 and c were
// opened.
func (l *Ledger) unitBefore(c int) Unit {
	if c < len(l.Changes) {
		return l.Changes[c].Unit
	}
	return l.Unit
}

// currentLeast returns the least debt of the current segment, or nil if no hold is open.
func (l *Ledger) currentLeast() *Debt {
	if c := len(l.Changes) - 1; c >= 0 && l.Changes[c].HoldsBefore == len(l.Holds) {
		return &l.Changes[c].Least
	}
	if i := len(l.Holds) - 1; i >= 0 {
		return &l.Holds[i].Least
	}
	return nil
}

// removeFromChanges updates the changes after hold i was removed.
func (l *Ledger) removeFromChanges(i int) {
	first := l.changeAfter(i)
	for c := first; c < len(l.Changes); c++ {
		l.Changes[c].HoldsBefore--
	}
	if first == 0 && l.Changes[0].HoldsBefore == 0 {
		l.Changes = slices.Delete(l.Changes, 0, 1)
		return
	}
	l.mergeChanges(first)
}
