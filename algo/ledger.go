package algo

import (
	"slices"

	"github.com/headgate/headgate"
)

// Hold is an open hold on a key: a charge that can be corrected later, as if another
// number of units had been charged at the beginning. It takes 56 bytes. A record of a
// [Ledger] can also be a lease. [Hold.Set] sets its units and its kind.
type Hold struct {
	ID        headgate.HoldID // its last bytes are a checksum; see RequestChecksums
	ChargedAt int64           // where the units were counted; see Account.ChargedAt
	Deadline  int64           // instant at which the hold expires, in µs
	// Least is the minimum debt of the key in this hold's segment: from its opening to
	// the opening of the next open hold, or to now.
	Least  Debt
	amount int64 // units << kindBits | kind
}

const kindBits = 2

// Units returns the units that the hold charged.
func (h *Hold) Units() int64 { return h.amount >> kindBits }

// Kind returns the kind of the record.
func (h *Hold) Kind() HoldKind { return HoldKind(h.amount & (1<<kindBits - 1)) }

// Set sets the units, which are at most [headgate.MaxWindowUnits], and the kind.
func (h *Hold) Set(units int64, kind HoldKind) { h.amount = units<<kindBits | int64(kind) }

// Ledger has the open holds of a key, in the order in which they were opened. The zero
// value has no holds.
//
// If a hold ends with fewer units than it charged, the key must become as if the actual
// units had been charged at the beginning. In a bucket, the correction is not the debt of
// the difference: a bucket that was full in the meantime would also have been full with
// the lower charge. So a correction reduces the debt by at most the least debt since the
// hold was opened. A bucket of 10 units, of which one refills in each second:
//
//	0 s  hold A charges 6 units                 debt 6 s
//	4 s  just before hold B                     debt 2 s: the least debt of segment A
//	4 s  hold B charges 3 units                 debt 5 s
//	5 s  hold A ends with 1 unit instead of 6   debt 4 s: the least debt of segment B
//
// The debt of 5 units is 5 s, segment A limits the reduction to 2 s, and segment B does
// not. The debt is then 2 s. This is right: with 1 unit at 0 s the bucket is full at 1 s,
// and hold B leaves 3 s of debt at 4 s, which is 2 s at 5 s.
//
// The segment of a hold ends where the next open hold is opened. The least debt since a
// hold was opened is the minimum of the least debts of its segment and of all later ones.
// So a charge updates one number, whatever the number of open holds.
//
// If the limit changes, a segment ends, too. The units of a hold are corrected under the
// limit under which they were charged.
type Ledger struct {
	Holds   []Hold
	Unit    Unit          // of the limit under which the latest hold was opened or corrected
	Changes []LimitChange // changes of the limit since the first open hold began
	leased  int64         // units of all leases

	nextDeadline int64 // lower bound of the earliest deadline, in µs
	oldestLeased int64 // lower bound of ChargedAt of all leases in a log; 0 if unknown
}

// Find returns the index of the hold with the name of the given id, or -1. It compares
// the names one by one.
func (l *Ledger) Find(id headgate.HoldID) int {
	name := NameOf(id)
	for i := range l.Holds {
		if NameOf(l.Holds[i].ID) == name {
			return i
		}
	}
	return -1
}

// Add adds a record that was saved, after all others.
func (l *Ledger) Add(h Hold) {
	if l.Holds = append(l.Holds, h); h.isLease() {
		l.leased += h.Units()
	}
}

// Clear removes all holds. It keeps their memory for later holds.
func (l *Ledger) Clear() {
	l.Holds, l.Changes = l.Holds[:0], l.Changes[:0]
	l.Unit, l.nextDeadline, l.leased, l.oldestLeased = Unit{}, 0, 0, 0
}

// HasExpired reports whether a record has expired by t. It reads all records only if one
// of them may have expired.
func (l *Ledger) HasExpired(t int64) bool {
	if len(l.Holds) == 0 || t < l.nextDeadline {
		return false
	}
	l.nextDeadline = maxExact
	for i := range l.Holds {
		l.nextDeadline = min(l.nextDeadline, l.Holds[i].Deadline)
	}
	return l.nextDeadline <= t
}

// NextDeadline returns the earliest deadline of all records, or an instant before it. It
// is after t if [Ledger.HasExpired] has returned false for t.
func (l *Ledger) NextDeadline() int64 { return l.nextDeadline }

// Expire ends the records that have expired by t, and returns their number. First it ends
// the leases, the earliest deadline first: their units stay spent. Then it ends the
// holds. If release is true, they are corrected as if they had charged nothing; otherwise
// their units stay spent. Last, Expire raises the debt to that of the units on lease.
// Call Expire first in every operation. The number of records that it reads does not
// grow with the square of the number that has expired. Exception: in a log, it reads all
// leases for each deadline at which the units of a lease have aged out.
func (l *Ledger) Expire(a Account, t int64, release bool) (ended int) {
	if l.HasExpired(t) {
		before := len(l.Holds)
		l.expireLeases(a, t)
		if release && l.HasExpired(t) {
			l.Prepare(a, t)
			l.correct(a, t, 0, func(i int) int64 {
				if h := &l.Holds[i]; h.Deadline <= t {
					return h.Units()
				}
				return 0
			})
		}
		l.removeWhere(func(h *Hold) bool { return h.Deadline <= t })
		ended = before - len(l.Holds)
	}
	l.ensureLeased(a, t)
	return ended
}

// ExpiredCopy returns a copy of the ledger after Expire at t, and changes a as Expire
// does. Pass a copy of the account: a peek changes nothing.
func (l *Ledger) ExpiredCopy(a Account, t int64, release bool) *Ledger {
	copied := &Ledger{Holds: slices.Clone(l.Holds), Unit: l.Unit, Changes: slices.Clone(l.Changes), nextDeadline: l.nextDeadline, leased: l.leased}
	copied.Expire(a, t, release)
	return copied
}

// Prepare updates the least debt, and converts the state to the present limit. Call it
// before a change at t, and Observe after it. Call it only when the change is certain:
// after a decision, before its effect is applied.
func (l *Ledger) Prepare(a Account, t int64) {
	l.Observe(a, t)
	l.adopt(a, t)
}

// Set changes the state of the account to next at t.
func (l *Ledger) Set(a *StateAccount, t int64, next State) {
	l.Prepare(a, t)
	a.State = next
	l.Observe(a, t)
}

// Observe updates the least debt of the current segment. Call it after every change of
// the account at t.
func (l *Ledger) Observe(a Account, t int64) {
	l.ensureLeased(a, t)
	l.recordDebt(a, t)
}

// recordDebt is Observe in a state in which the units on lease are spent.
func (l *Ledger) recordDebt(a Account, t int64) {
	if least := l.currentLeast(); least != nil {
		*least = minDebt(*least, l.unleasedDebt(a, t))
	}
}

// Open adds a hold whose units were just charged at t.
func (l *Ledger) Open(a Account, t int64, id headgate.HoldID, units, deadline int64) {
	if len(l.Holds) == 0 {
		l.nextDeadline, l.Unit = deadline, a.Unit()
	}
	l.nextDeadline = min(l.nextDeadline, deadline)
	h := Hold{ID: id, ChargedAt: a.ChargedAt(), Deadline: deadline}
	h.Set(units, PlainHold)
	if least := l.currentLeast(); units == 0 && least != nil {
		h.Least = *least // the state may not have been converted to this limit
	} else {
		h.Least = l.unleasedDebt(a, t)
	}
	l.Holds = append(l.Holds, h)
}

// Extend changes the deadline of hold i.
func (l *Ledger) Extend(i int, deadline int64) {
	l.nextDeadline = min(l.nextDeadline, deadline)
	l.Holds[i].Deadline = deadline
}

// End ends hold i at t with the actual number of units. If actual is lower than the units
// of the hold, the difference is corrected. If it is higher, the excess is charged; if
// clip is true, at most what remains. Slots become available for every value of actual.
// If the number of spent units stays the same, the state is not converted to the present
// limit.
func (l *Ledger) End(a Account, t int64, i int, actual int64, clip bool) {
	held := l.Holds[i].Units()
	if isSlots(a) {
		actual = 0
	}
	if clip && actual > held {
		actual = held + min(actual-held, a.Remaining(t))
	}
	if actual != held {
		l.Prepare(a, t)
	}
	if actual < held {
		l.correct(a, t, i, func(j int) int64 {
			if j == i {
				return held - actual
			}
			return 0
		})
	}
	l.remove(i)
	if actual > held {
		a.Charge(t, actual-held)
		l.Observe(a, t)
	}
}

// correct changes the state as if fewer units had been charged when each hold from first
// on was opened. refund returns how many units fewer, for the index of a hold. Call
// Prepare before.
func (l *Ledger) correct(a Account, t int64, first int, refund func(i int) int64) {
	if l.Unit.D > 0 {
		a.Correct(t, 0, 0, l.correctDebts(first, refund))
	} else {
		for i := len(l.Holds) - 1; i >= first; i-- { // in a log, the latest first is fastest
			if n := refund(i); n > 0 {
				a.Correct(t, l.Holds[i].ChargedAt, n, Debt{})
			}
		}
	}
	l.ensureLeased(a, t)
}

// correctDebts corrects the least debts of all segments from that of hold first on, and
// returns the reduction: the debt by which the state is too high. See correct.
//
// Let m(t) be the least debt from the beginning of a hold up to t. Without n of its
// units, the debt at t would be lower by min(debt of n, m(t)). So the reduction starts
// with the debt of n, and each segment limits it to the least debt of the segment. The
// refund of a later hold is added in the segment that it begins.
func (l *Ledger) correctDebts(first int, refund func(i int) int64) (reduction Debt) {
	c := l.changeAfter(first)
	unit := l.unitBefore(c)
	for i := first; i < len(l.Holds); i++ {
		h := &l.Holds[i]
		reduction = minDebt(reduction.plus(unit.debtOf(refund(i)), unit.D), h.Least)
		h.Least = h.Least.minus(reduction, unit.D)
		if c < len(l.Changes) && l.Changes[c].HoldsBefore == i+1 {
			unit = l.unitBefore(c + 1)
			reduction = l.Changes[c].carryReduction(reduction, unit.D)
			c++
		}
	}
	return reduction
}

// remove removes hold i. Its segment becomes part of the segment before.
func (l *Ledger) remove(i int) {
	if h := &l.Holds[i]; h.isLease() {
		l.leased -= h.Units()
	}
	if i > 0 {
		before := &l.Holds[i-1].Least
		if c := l.changeAfter(i - 1); c < len(l.Changes) && l.Changes[c].HoldsBefore == i {
			before = &l.Changes[c].Least
		}
		*before = minDebt(*before, l.Holds[i].Least)
	}
	l.Holds = slices.Delete(l.Holds, i, i+1)
	if len(l.Changes) > 0 {
		l.removeFromChanges(i)
	}
}

// removeWhere removes the holds for which ended returns true in one pass, as remove does.
func (l *Ledger) removeWhere(ended func(*Hold) bool) {
	holds, changes := l.Holds, l.Changes
	l.Holds, l.Changes, l.nextDeadline = holds[:0], changes[:0], maxExact
	c := 0
	for i := range holds {
		if h := &holds[i]; !ended(h) {
			l.Holds = append(l.Holds, *h)
			l.nextDeadline = min(l.nextDeadline, h.Deadline)
		} else if least := l.currentLeast(); least != nil {
			*least = minDebt(*least, h.Least)
		}
		if c < len(changes) && changes[c].HoldsBefore == i+1 {
			l.appendChange(changes[c])
			c++
		}
	}
}
