package memcachedstore

import (
	"encoding/binary"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// account returns the state of the key as a ledger of holds uses it. Call save after a
// change.
func (c *cell) account(b *bound) algo.Account {
	if b.log != nil {
		return &algo.LogAccount{Step: b.log, Log: c.log}
	}
	return &algo.StateAccount{Step: b.corrector, State: c.state}
}

// save stores the changed account of the key, or changed holds.
func (c *cell) save(b *bound, a algo.Account) {
	if s, ok := a.(*algo.StateAccount); ok {
		c.state = s.State
		c.unusedAt = max(c.leasedUntil(b), b.step.ResetAt(c.state))
	} else {
		c.trim(c.maxEntries(b.store))
		c.unusedAt = max(c.leasedUntil(b), b.log.ResetAt(c.log))
	}
	c.dirty = true
}

// maxEntries returns the maximum number of entries of the key's log. A value with open
// holds has room for half of them.
func (c *cell) maxEntries(s *Store) int {
	if len(c.ledger.Holds) > 0 {
		return max(1, s.maxLogEntries/2)
	}
	return s.maxLogEntries
}

// set changes the state to next at t, and updates the open holds of the key. It returns
// the new state, which can differ from next because units on lease stay spent.
func (c *cell) set(b *bound, t int64, next algo.State) algo.State {
	if next != c.state && len(c.ledger.Holds) > 0 {
		a := &algo.StateAccount{Step: b.corrector, State: c.state}
		c.ledger.Set(a, t, next)
		next = a.State
	}
	c.keep(next, max(c.leasedUntil(b), b.step.ResetAt(next)))
	return next
}

// expire ends the holds and leases that have expired at t. Call it before an operation
// that may change the key.
func (c *cell) expire(b *bound, t int64) {
	if !c.ledger.NeedsExpire(t) {
		return
	}
	a, before, unit := c.account(b), c.state, c.ledger.Unit
	ended := c.ledger.Expire(a, t, b.holds.OnExpiry == headgate.ReleaseExpired)
	s, ok := a.(*algo.StateAccount)
	if ok && ended == 0 && c.ledger.Unit == unit && (unit.D > 0 && s.State.C == before.C || s.State == before) {
		c.state = s.State // no write is needed: a later request computes the same state
		return
	}
	c.save(b, a)
}

// expired returns c as it is after the holds that have expired at t were ended, without
// changing c. A peek changes nothing: a hold that has expired at the instant of the peek
// may still be open for a later call with an earlier instant.
func (c *cell) expired(b *bound, t int64) *cell {
	release := b.holds.OnExpiry == headgate.ReleaseExpired
	if c.ledger.Leased() == 0 && !(release && c.ledger.HasExpired(t)) {
		return c
	}
	copied := &cell{state: c.state}
	if c.log != nil {
		copied.log = c.log.Clone()
	}
	a := copied.account(b)
	copied.ledger = *c.ledger.ExpiredCopy(a, t, release)
	if s, ok := a.(*algo.StateAccount); ok {
		copied.state = s.State
	}
	return copied
}

// A value with open holds has, after the instant from which it is unused, numbers as
// varints: the number of holds; for each hold in the order in which they were opened, the
// id, the units, the deadline, where the units were charged and the least debt (2
// numbers); what a unit costs (2); the number of changes of the limit, and each of them
// (6). This is at most 46 bytes for a hold, because either the fourth number is 0 or the
// last two are. The kind of a lease, times 2^30, is added to the last number: a fraction
// is below 2^30.
func appendHolds(b []byte, l *algo.Ledger) []byte {
	b = binary.AppendUvarint(b, uint64(len(l.Holds)))
	for i := range l.Holds {
		h := &l.Holds[i]
		b = append(b, h.ID[:]...)
		b = appendNumbers(b, h.Units(), h.Deadline, h.ChargedAt, h.Least.Whole, h.Least.Rest+int64(h.Kind())<<kindShift)
	}
	b = appendNumbers(b, l.Unit.P, l.Unit.D, int64(len(l.Changes)))
	for i := range l.Changes {
		c := &l.Changes[i]
		b = appendNumbers(b, int64(c.HoldsBefore), c.Unit.P, c.Unit.D, c.Cut, c.Least.Whole, c.Least.Rest)
	}
	return b
}

const kindShift = 30

func appendNumbers(b []byte, numbers ...int64) []byte {
	for _, n := range numbers {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

// decodeHolds decodes the holds at the beginning of b, and returns what follows them.
func decodeHolds(b []byte) (l algo.Ledger, rest []byte, err error) {
	r := numbers{rest: b}
	count := r.next(MaxOpenHolds)
	for i := int64(0); i < count && !r.invalid; i++ {
		var h algo.Hold
		if len(r.rest) < len(h.ID) {
			return l, nil, errForeign
		}
		r.rest = r.rest[copy(h.ID[:], r.rest):]
		units := r.next(maxA)
		h.Deadline, h.ChargedAt = r.next(maxA), r.next(maxA)
		h.Least = algo.Debt{Whole: r.next(maxA), Rest: r.next(int64(algo.ContinuedLease)<<kindShift | maxBC)}
		h.Set(units, algo.HoldKind(h.Least.Rest>>kindShift))
		h.Least.Rest &= maxBC
		l.Add(h)
	}
	l.Unit = algo.Unit{P: r.next(maxA), D: r.next(maxA)}
	last := int64(0)
	for changes := r.next(count); changes > 0 && !r.invalid; changes-- {
		c := algo.LimitChange{
			HoldsBefore: int(r.next(count)), Unit: algo.Unit{P: r.next(maxA), D: r.next(maxA)}, Cut: r.next(maxA),
		}
		c.Least = algo.Debt{Whole: r.next(maxA), Rest: r.next(maxA)}
		r.invalid = r.invalid || int64(c.HoldsBefore) <= last || c.Unit.D == 0
		last = int64(c.HoldsBefore)
		l.Changes = append(l.Changes, c)
	}
	if r.invalid || count == 0 {
		return l, nil, errForeign
	}
	return l, r.rest, nil
}

// numbers reads varints.
type numbers struct {
	rest    []byte
	invalid bool // whether a number was missing or too large
}

// next returns the next number. If it is missing or above max, next returns 0 and sets
// invalid.
func (r *numbers) next(max int64) int64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 || n > uint64(max) {
		r.invalid = true
		return 0
	}
	r.rest = r.rest[size:]
	return int64(n)
}
