package algo

import (
	"cmp"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Hold is an open hold on a key: a charge that can be corrected later, as if another
// number of units had been charged at the beginning. It takes 64 bytes. A record of a
// [Ledger] can also be a lease.
type Hold struct {
	ID        headgate.HoldID // its last bytes are a checksum; see RequestChecksums
	Units     int64           // units that the hold charged
	ChargedAt int64           // where the units were counted; see Account.ChargedAt
	Deadline  int64           // instant at which the hold expires, in µs
	// Least is the minimum debt of the key in this hold's segment: from its opening to
	// the opening of the next open hold, or to now.
	Least Debt
	Kind  HoldKind
}

// Debt is what must be refilled until the bucket is full: for the token bucket a time,
// for the interval bucket the missing tokens. Whole is in µs or tokens. Rest is a
// fraction of Whole, in units of 1/D µs, where D is that of the [Unit] of the limit (0
// for tokens).
type Debt struct{ Whole, Rest int64 }

// plus returns a + b.
func (a Debt) plus(b Debt, denominator int64) Debt {
	d := Debt{a.Whole + b.Whole, a.Rest + b.Rest}
	if d.Rest >= denominator {
		d.Whole, d.Rest = d.Whole+1, d.Rest-denominator
	}
	return d
}

// less reports whether a is below b.
func (a Debt) less(b Debt) bool { return a.Whole < b.Whole || a.Whole == b.Whole && a.Rest < b.Rest }

func minDebt(a, b Debt) Debt {
	if b.less(a) {
		return b
	}
	return a
}

// minus returns a − b, which must not be negative.
func (a Debt) minus(b Debt, denominator int64) Debt {
	d := Debt{a.Whole - b.Whole, a.Rest - b.Rest}
	if d.Rest < 0 {
		d.Whole, d.Rest = d.Whole-1, d.Rest+denominator
	}
	return d
}

// Account is the state of one key under one limit, as a [Ledger] uses it. t is an instant
// in µs that is the same in all calls of one operation.
type Account interface {
	// Adopt converts the state to the form of this limit, if it was written under another
	// limit, whose unit is from. It returns whether it did so, and the debt in µs that
	// was dropped because the state exceeded the capacity of this limit. The debt of a
	// bucket contains that of the leased units. This part is not converted: as many
	// units are missing under this limit.
	Adopt(t int64, from Unit, leased int64) (cut int64, changed bool)
	// Recount returns where the units that were counted at chargedAt are counted after
	// Adopt, or 0 if they no longer count. See ChargedAt.
	Recount(t, chargedAt int64, from Unit) int64
	// Take spends n units at t if they are available, and reports whether they were.
	Take(t, n int64) bool
	// Charge spends n units at t, whether or not they are available. The key can then be
	// overspent: nothing remains, and a denial has a correspondingly longer RetryAfter.
	Charge(t, n int64)
	// Remaining returns the number of units that can be spent at t.
	Remaining(t int64) int64
	// ChargedAt returns where the last charge was counted: the end or the begin of its
	// window, or the instant of its entry in a log. It is 0 if a correction does not
	// depend on it.
	ChargedAt() int64
	// Debt returns the debt at t. It is zero for an algorithm that counts in windows or
	// slots.
	Debt(t int64) Debt
	// Unit returns what a unit costs.
	Unit() Unit
	// Correct changes the state as if n units fewer had been charged at chargedAt. The
	// debt is then lower by the parameter by.
	Correct(t, chargedAt, n int64, by Debt)
	// Raise raises the debt at t to that of n units, or the count of a window to n, if it
	// is lower.
	Raise(t, n int64)
	// Clear removes all units.
	Clear()
	// LeaseEnd returns the latest instant at which a lease ends that begins at t: the end
	// of the window in which its units are counted.
	LeaseEnd(t int64) int64
}

// Ledger has the open holds of a key, in the order in which they were opened. The zero
// value has no holds.
//
// A correction needs the least debt since the hold was opened, because a key that was
// full in the meantime would also have been full with the lower charge. Each hold has the
// least debt of its own segment, which ends where the next open hold is opened. The least
// debt since a hold was opened is the least of this and all later segments. So a charge
// updates one number, whatever the number of open holds.
//
// If the limit changes, a segment ends, too. The units of a hold are corrected under the
// limit under which they were charged.
type Ledger struct {
	Holds   []Hold
	Unit    Unit          // of the limit under which the latest hold was opened or corrected
	Changes []LimitChange // changes of the limit since the first open hold began
	next    int64         // lower bound of the earliest deadline, in µs
	leased  int64         // units of all leases
	oldest  int64         // lower bound of ChargedAt of all leases in a log; 0 if unknown
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
		l.leased += h.Units
	}
}

// Clear removes all holds. It keeps their memory for later holds.
func (l *Ledger) Clear() {
	l.Holds, l.Changes = l.Holds[:0], l.Changes[:0]
	l.Unit, l.next, l.leased, l.oldest = Unit{}, 0, 0, 0
}

// HasExpired reports whether a record has expired by t. It reads all records only if one
// of them may have expired.
func (l *Ledger) HasExpired(t int64) bool {
	if len(l.Holds) == 0 || t < l.next {
		return false
	}
	l.next = maxExact
	for i := range l.Holds {
		l.next = min(l.next, l.Holds[i].Deadline)
	}
	return l.next <= t
}

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
					return h.Units
				}
				return 0
			})
		}
		l.removeWhere(func(h *Hold) bool { return h.Deadline <= t })
		ended = before - len(l.Holds)
	}
	l.raise(a, t)
	return ended
}

// Release changes the account as Expire does, but leaves the ledger unchanged: for a
// peek, with a copy of the account. It returns the ledger after Expire.
func (l *Ledger) Release(a Account, t int64, release bool) *Ledger {
	copied := &Ledger{Holds: slices.Clone(l.Holds), Unit: l.Unit, Changes: slices.Clone(l.Changes), next: l.next, leased: l.leased}
	copied.Expire(a, t, release)
	return copied
}

// Prepare records the debt and converts the state to the present limit. Call it before a
// change at t, and Observe after it. If nothing changes after all, for example because a
// request is denied, it must not be called.
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

// Observe updates the least debt of the newest segment. Call it after every change of the
// account at t.
func (l *Ledger) Observe(a Account, t int64) {
	l.raise(a, t)
	l.observe(a, t)
}

func (l *Ledger) observe(a Account, t int64) {
	if least := l.newest(); least != nil {
		*least = minDebt(*least, l.debt(a, t))
	}
}

// Open adds a hold whose units were just charged at t.
func (l *Ledger) Open(a Account, t int64, id headgate.HoldID, units, deadline int64) {
	if len(l.Holds) == 0 {
		l.next, l.Unit = deadline, a.Unit()
	}
	l.next = min(l.next, deadline)
	h := Hold{ID: id, Units: units, ChargedAt: a.ChargedAt(), Deadline: deadline}
	if least := l.newest(); units == 0 && least != nil {
		h.Least = *least // the state may not have been converted to this limit
	} else {
		h.Least = l.debt(a, t)
	}
	l.Holds = append(l.Holds, h)
}

// Extend changes the deadline of hold i.
func (l *Ledger) Extend(i int, deadline int64) {
	l.next = min(l.next, deadline)
	l.Holds[i].Deadline = deadline
}

// End ends hold i at t with the actual number of units. If actual is lower than the units
// of the hold, the difference is corrected. If it is higher, the excess is charged; if
// clip is true, at most what remains. Slots become available whatever actual is.
func (l *Ledger) End(a Account, t int64, i int, actual int64, clip bool) {
	l.Prepare(a, t)
	held := l.Holds[i].Units
	if isSlots(a) {
		actual = 0
	}
	if actual <= held {
		if actual < held {
			l.correct(a, t, i, func(j int) int64 {
				if j == i {
					return held - actual
				}
				return 0
			})
		}
		l.remove(i)
		return
	}
	l.remove(i)
	if excess := actual - held; clip {
		a.Take(t, min(excess, a.Remaining(t)))
	} else {
		a.Charge(t, excess)
	}
	l.Observe(a, t)
}

// isSlots reports whether the units of the account are slots.
func isSlots(a Account) bool {
	s, ok := a.(*StateAccount)
	if ok {
		_, ok = s.Step.(SlotStepper)
	}
	return ok
}

// Answer returns the decision on a request for asked units at t, as [Stepper.Answer]
// does. If the units are slots, the waits depend on the deadlines of the open holds.
// ResetAfter lasts until the last deadline. If the request was denied, RetryAfter lasts
// until enough holds have expired, if none of them is extended or ends earlier. No hold
// may have expired at t. For slots, Answer reads every hold, and sorts them if the
// request was denied. l may be nil.
func (l *Ledger) Answer(step Stepper, s State, t, asked, spent int64, allowed bool) headgate.Decision {
	d := step.Answer(s, t, asked, spent, allowed)
	slots, ok := step.(SlotStepper)
	if !ok || l == nil {
		return d
	}
	if last := l.lastRelease(); last > t {
		d.ResetAfter = micros.Duration(last - t)
	}
	if missing := asked - (slots.Slots() - s.B); !allowed && !d.Never {
		d.RetryAfter = micros.Duration(l.releasedBy(missing) - t)
	}
	return d
}

// lastRelease returns the last deadline of a hold with units, or 0.
func (l *Ledger) lastRelease() (last int64) {
	for i := range l.Holds {
		if h := &l.Holds[i]; h.Units > 0 {
			last = max(last, h.Deadline)
		}
	}
	return last
}

// releasedBy returns the first instant at which the holds that have expired have n units.
func (l *Ledger) releasedBy(n int64) (at int64) {
	sorted := slices.Clone(l.Holds)
	slices.SortFunc(sorted, func(a, b Hold) int { return cmp.Compare(a.Deadline, b.Deadline) })
	for i := range sorted {
		if n <= 0 {
			break
		}
		n, at = n-sorted[i].Units, sorted[i].Deadline
	}
	return at
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
	l.raise(a, t)
}

// correctDebts corrects the least debts of all segments from that of hold first on, and
// returns the debt by which the state is too high. See correct.
//
// Let m(t) be the least debt from the beginning of a hold up to t. Without n of its
// units, the debt at t would be lower by min(debt of n, m(t)). In a segment whose least
// debt is below all earlier ones, m reaches that least debt; in any other, m is constant.
// What later holds refund is added where they were opened.
func (l *Ledger) correctDebts(first int, refund func(i int) int64) (by Debt) {
	c := l.changeAfter(first)
	unit := l.unitBefore(c)
	for i := first; i < len(l.Holds); i++ {
		h := &l.Holds[i]
		by = minDebt(by.plus(unit.debtOf(refund(i)), unit.D), h.Least)
		h.Least = h.Least.minus(by, unit.D)
		if c < len(l.Changes) && l.Changes[c].HoldsBefore == i+1 {
			unit = l.unitBefore(c + 1)
			by = l.Changes[c].cross(by, unit.D)
			c++
		}
	}
	return by
}

// remove removes hold i. Its segment becomes part of the segment before.
func (l *Ledger) remove(i int) {
	if h := &l.Holds[i]; h.isLease() {
		l.leased -= h.Units
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
	l.Holds, l.Changes, l.next = holds[:0], changes[:0], maxExact
	c := 0
	for i := range holds {
		if h := &holds[i]; !ended(h) {
			l.Holds = append(l.Holds, *h)
			l.next = min(l.next, h.Deadline)
		} else if least := l.newest(); least != nil {
			*least = minDebt(*least, h.Least)
		}
		if c < len(changes) && changes[c].HoldsBefore == i+1 {
			l.appendChange(changes[c])
			c++
		}
	}
}
