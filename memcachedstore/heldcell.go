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
		c.unusedAt = c.afterHolds(b.step.ResetAt(c.state))
	} else {
		c.trim(c.maxEntries(b.store))
		c.unusedAt = c.afterHolds(b.log.ResetAt(c.log))
	}
	c.dirty = true
}

// afterHolds returns the later one of resetAt and the last deadline of a hold.
func (c *cell) afterHolds(resetAt int64) int64 {
	for i := range c.ledger.Holds {
		resetAt = max(resetAt, c.ledger.Holds[i].Deadline)
	}
	return resetAt
}

// maxEntries returns the maximum number of entries of the key's log. A value with open
// holds has room for half of them.
func (c *cell) maxEntries(s *Store) int {
	if len(c.ledger.Holds) > 0 {
		return max(1, s.maxLogEntries/2)
	}
	return s.maxLogEntries
}

// set changes the state to next at t, and updates the open holds of the key.
func (c *cell) set(b *bound, t int64, next algo.State) {
	if next != c.state && len(c.ledger.Holds) > 0 {
		c.ledger.Set(&algo.StateAccount{Step: b.corrector, State: c.state}, t, next)
	}
	c.keep(next, c.afterHolds(b.step.ResetAt(next)))
}

// expire ends the holds that have expired at t. Call it before an operation that may
// change the key.
func (c *cell) expire(b *bound, t int64) {
	if !c.ledger.HasExpired(t) {
		return
	}
	a := c.account(b)
	c.ledger.Expire(a, t, b.holds.OnExpiry == headgate.ReleaseExpired, func(algo.Hold) {})
	c.save(b, a)
}

// expired returns c as it is after the holds that have expired at t were ended, without
// changing c. A peek changes nothing: a hold that has expired at the instant of the peek
// may still be open for a later call with an earlier instant.
func (c *cell) expired(b *bound, t int64) *cell {
	if b.holds.OnExpiry != headgate.ReleaseExpired || !c.ledger.HasExpired(t) {
		return c
	}
	copied := &cell{state: c.state}
	if c.log != nil {
		copied.log = c.log.Clone()
	}
	a := copied.account(b)
	copied.ledger = *c.ledger.Release(a, t, true)
	if s, ok := a.(*algo.StateAccount); ok {
		copied.state = s.State
	}
	return copied
}

// dropHolds removes all holds of the key.
func (c *cell) dropHolds() {
	c.dirty = c.dirty || len(c.ledger.Holds) > 0
	c.ledger = algo.Ledger{}
}

// A value with open holds has, after the instant from which it is unused, the number of
// holds as a varint, and the holds in the order in which they were opened: the id and, as
// varints, the units, the deadline, where the units were charged and the least debt (2
// numbers). This is at most 46 bytes for a hold, because either the fourth number is 0 or
// the last two are.
func appendHolds(b []byte, holds []algo.Hold) []byte {
	b = binary.AppendUvarint(b, uint64(len(holds)))
	for i := range holds {
		h := &holds[i]
		b = append(b, h.ID[:]...)
		for _, n := range []int64{h.Units, h.Deadline, h.ChargedAt, h.Least.Whole, h.Least.Rest} {
			b = binary.AppendUvarint(b, uint64(n))
		}
	}
	return b
}

// decodeHolds decodes the holds at the beginning of b, and returns what follows them.
func decodeHolds(b []byte) (holds []algo.Hold, rest []byte, err error) {
	count, size := binary.Uvarint(b)
	if size <= 0 || count == 0 || count > maxHolds {
		return nil, nil, errForeign
	}
	b = b[size:]
	for range count {
		var h algo.Hold
		if len(b) < len(h.ID) {
			return nil, nil, errForeign
		}
		b = b[copy(h.ID[:], b):]
		for _, to := range []*int64{&h.Units, &h.Deadline, &h.ChargedAt, &h.Least.Whole, &h.Least.Rest} {
			n, size := binary.Uvarint(b)
			if size <= 0 || n > maxA {
				return nil, nil, errForeign
			}
			*to, b = int64(n), b[size:]
		}
		holds = append(holds, h)
	}
	return holds, b, nil
}
