package algo

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
)

// HoldKind is the kind of a record in a [Ledger].
type HoldKind uint8

// The kinds of records.
const (
	PlainHold HoldKind = iota
	// Lease is a number of units that one process may spend until the deadline. When a
	// lease expires, all its units are spent.
	Lease
	// ContinuedLease is a lease that began when an open lease ended, with its unspent
	// units.
	ContinuedLease
)

// isLease reports whether h is a lease.
func (h *Hold) isLease() bool { return h.Kind() != PlainHold }

// LeaseResult is the result of [Ledger.Lease]; see [headgate.LeaseResult].
type LeaseResult struct {
	Units        int64 // 0 if no lease began
	Deadline     int64 // instant at which the lease expires, in µs; 0 if no lease began
	PreviousOpen bool
}

// Leased returns the number of units of all leases.
func (l *Ledger) Leased() int64 { return l.leased }

// NeedsExpire reports whether [Ledger.Expire] may change the account or the ledger at t:
// if a record has expired, or if there is a lease.
func (l *Ledger) NeedsExpire(t int64) bool { return l.leased > 0 || l.HasExpired(t) }

// Lease ends a lease, begins a lease, or both, at t; see [headgate.LeaseStore]. maxOpen
// is the maximum number of records of a key: with as many, nothing is granted in addition
// to the unspent units of the previous lease. Call Expire before. Lease changes nothing
// if it returns an error.
func (l *Ledger) Lease(a Account, t int64, op *headgate.LeaseOp, maxOpen int) (LeaseResult, error) {
	if i := l.Find(op.ID); i >= 0 && op.ID != (headgate.HoldID{}) {
		h := &l.Holds[i]
		return LeaseResult{Units: h.Units(), Deadline: h.Deadline, PreviousOpen: h.Kind() == ContinuedLease}, nil
	}
	kind, unspent := Lease, int64(0)
	if i := l.findLease(op.Previous); i >= 0 {
		units := l.Holds[i].Units()
		if op.Spent < 0 || op.Spent > units {
			return LeaseResult{}, fmt.Errorf("%w: %d units of a lease were spent; must be 0 to %d, the units of the lease", headgate.ErrInvalidHold, op.Spent, units)
		}
		kind, unspent = ContinuedLease, units-op.Spent
		l.endLease(a, t, i, op.Spent)
	}
	out := LeaseResult{PreviousOpen: kind == ContinuedLease}
	if op.ID == (headgate.HoldID{}) {
		return out, nil
	}
	room := min(op.Max-l.leased, a.Remaining(t)) - unspent
	if len(l.Holds) >= maxOpen {
		room = 0
	}
	if out.Units = unspent + max(0, min(op.Want, room)); out.Units > 0 {
		out.Deadline = min(t+op.TTL.Microseconds(), a.LeaseEnd(t))
		l.beginLease(a, t, op.ID, &out, kind)
	}
	return out, nil
}

// expireLeases ends the leases that have expired by t, the earliest deadline first. It
// removes their records in one pass.
func (l *Ledger) expireLeases(a Account, t int64) {
	expired := l.expiredLeases(t)
	if len(expired) == 0 {
		return
	}
	for len(expired) > 0 {
		expired = l.endEarliest(a, expired)
	}
	l.removeWhere(func(h *Hold) bool { return h.isLease() && h.Deadline <= t })
}

// expiredLeases returns the leases that have expired by t, the earliest deadline first.
// Of those with the same deadline, the one that was charged last is the first.
func (l *Ledger) expiredLeases(t int64) (expired []*Hold) {
	if l.leased == 0 {
		return nil
	}
	for i := range l.Holds {
		if h := &l.Holds[i]; h.isLease() && h.Deadline <= t {
			expired = append(expired, h)
		}
	}
	slices.SortFunc(expired, func(a, b *Hold) int {
		return cmp.Or(cmp.Compare(a.Deadline, b.Deadline), cmp.Compare(b.ChargedAt, a.ChargedAt))
	})
	return expired
}

// endEarliest ends the leases with the earliest deadline, and returns the others. All
// units of these leases are spent. Their records stay in the ledger, with no units.
func (l *Ledger) endEarliest(a Account, expired []*Hold) (later []*Hold) {
	_, isLog := a.(logAccount)
	deadline, units := expired[0].Deadline, int64(0)
	last := deadline // the last instant at which the units count as leased
	if !isLog && a.Unit().D == 0 {
		last-- // the next window can begin at the deadline
	}
	l.Prepare(a, last)
	for len(expired) > 0 && expired[0].Deadline == deadline {
		h := expired[0]
		if isLog { // see endLease
			a.Correct(deadline, h.ChargedAt, h.Units(), Debt{})
		}
		units, expired = units+h.Units(), expired[1:]
		h.Set(0, h.Kind())
	}
	l.leased -= units
	if isLog {
		a.Charge(deadline, units)
	}
	l.Observe(a, deadline)
	return expired
}

func (l *Ledger) findLease(id headgate.HoldID) int {
	if i := l.Find(id); i >= 0 && l.Holds[i].isLease() {
		return i
	}
	return -1
}

// beginLease charges the units of a lease and adds it.
func (l *Ledger) beginLease(a Account, t int64, id headgate.HoldID, lease *LeaseResult, kind HoldKind) {
	l.Prepare(a, t)
	a.Charge(t, lease.Units)
	l.leased += lease.Units
	l.Open(a, t, id, lease.Units, lease.Deadline)
	begun := &l.Holds[len(l.Holds)-1]
	begun.Set(lease.Units, kind)
	l.oldestLeased = min(l.oldestLeased, begun.ChargedAt)
}

// endLease ends lease i at t, of which the given number of units was spent. In a log, all
// its units are moved to t, because some of them may have been spent just before t.
func (l *Ledger) endLease(a Account, t int64, i int, spent int64) {
	l.Prepare(a, t)
	h := l.Holds[i]
	l.remove(i)
	switch _, isLog := a.(logAccount); {
	case isLog:
		a.Correct(t, h.ChargedAt, h.Units(), Debt{})
		a.Charge(t, spent)
	case spent < h.Units():
		a.Correct(t, h.ChargedAt, h.Units()-spent, l.Unit.debtOf(h.Units()-spent))
	}
	l.Observe(a, t)
}

// ensureLeased makes at least the units on lease spent at t. In a bucket, these units do
// not refill before the lease ends. No refund and no change of the limit returns them.
func (l *Ledger) ensureLeased(a Account, t int64) {
	if l.leased > 0 {
		l.recordDebt(a, t)
		l.adopt(a, t)
		l.spendLeased(a, t)
	}
}

// Reset makes the key unused and removes all holds. The leases stay open, and their units
// stay spent, because processes may go on spending them. Call Expire before.
func (l *Ledger) Reset(a Account, t int64) {
	l.Holds = slices.DeleteFunc(l.Holds, func(h Hold) bool { return !h.isLease() })
	for i := range l.Holds {
		l.Holds[i].Least = Debt{}
	}
	l.Changes, l.Unit = l.Changes[:0], a.Unit()
	a.Clear()
	l.spendLeased(a, t)
}

// spendLeased is ensureLeased in a state that was converted to the present limit.
func (l *Ledger) spendLeased(a Account, t int64) {
	if log, ok := a.(logAccount); ok {
		l.spendLeasedInLog(log, t)
	} else if l.leased > 0 {
		a.Raise(t, l.leased)
	}
}

// logAccount is an [Account] whose units are counted in a log.
type logAccount interface {
	Account
	counted(t int64) int64
	counts(t, chargedAt int64) bool
}

// spendLeasedInLog charges leases again at t whose units have aged out, because the
// period is shorter than when they began. If fewer units count than are on lease, because
// units were refunded, only those on lease remain, and they count from t on. It reads the
// leases only if one of these two cases is possible.
func (l *Ledger) spendLeasedInLog(a logAccount, t int64) {
	if a.counts(t, l.oldestLeased) && a.counted(t) >= l.leased {
		return
	}
	l.chargeAgain(a, t, func(h *Hold) bool { return !a.counts(t, h.ChargedAt) })
	if a.counted(t) < l.leased {
		a.Clear()
		l.chargeAgain(a, t, func(*Hold) bool { return true })
	}
}

// chargeAgain charges the open leases again at t for which again returns true.
func (l *Ledger) chargeAgain(a logAccount, t int64, again func(*Hold) bool) {
	l.oldestLeased = maxExact
	for i := range l.Holds {
		h := &l.Holds[i]
		if !h.isLease() || h.Units() == 0 {
			continue
		}
		if again(h) {
			a.Charge(t, h.Units())
			h.ChargedAt = a.ChargedAt()
		}
		l.oldestLeased = min(l.oldestLeased, h.ChargedAt)
	}
}

// unleasedDebt returns the debt without that of the units on lease. A correction reduces
// only this part of the debt.
func (l *Ledger) unleasedDebt(a Account, t int64) Debt {
	d := a.Debt(t)
	if l.leased == 0 {
		return d
	}
	leased := l.Unit.debtOf(l.leased)
	if d.less(leased) {
		return Debt{}
	}
	return d.minus(leased, l.Unit.D)
}
