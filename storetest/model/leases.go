package model

import (
	"math"
	"slices"

	"github.com/headgate/headgate"
)

// This file has the leases of a [Holds]. It is written from this definition:
//
//   - Under a bucket, the units that were spent of a lease are charged when the lease
//     ends. While it is open, all its units reduce the capacity. So they do not refill.
//   - Under an algorithm that counts in windows, the units are counted when the lease
//     begins. The units that were not spent are removed when it ends.
//   - In a log, the units that were spent are then moved to the instant of the end. Units
//     that would age out before are charged again when an operation finds them.
//
// A lease that expires was spent completely. The units of open leases always count,
// whatever was refunded or reset and whatever limit follows: a window has at least as
// many; a log with fewer has exactly these, at the instant of the operation. A change of
// the limit applies to a key with leases at the next operation.

// LeaseCall are the arguments of [Holds.Lease]; see [headgate.LeaseOp]. The empty id is
// no lease. TTL is in µs.
type LeaseCall struct {
	Previous, ID          string
	Spent, Want, Max, TTL int64
}

// LeaseReply is the result of [Holds.Lease].
type LeaseReply struct {
	Units, Deadline int64
	PreviousOpen    bool
}

type lease struct {
	id             string
	mark           int64 // window or instant in which the units were counted
	units, expires int64
	carried        bool
}

// Lease ends the lease c.Previous, and begins the lease c.ID.
func (h *Holds) Lease(l headgate.Limit, t int64, c LeaseCall) LeaseReply {
	if known := h.lease(c.ID); known != nil {
		return LeaseReply{known.units, known.expires, known.carried}
	}
	rest, previous := int64(0), h.lease(c.Previous)
	if previous != nil {
		rest = previous.units - c.Spent
		h.endLease(l, t, previous, c.Spent)
	}
	reply := LeaseReply{PreviousOpen: previous != nil}
	if c.ID == "" {
		return reply
	}
	room := min(c.Max-h.leased(), h.Peek(l, t, 0).Remaining) - rest
	if reply.Units = rest + max(0, min(c.Want, room)); reply.Units == 0 {
		return reply
	}
	begun := &lease{id: c.ID, units: reply.Units, carried: reply.PreviousOpen}
	if !h.refills() {
		h.Key.force(l, t, begun.units)
		begun.mark = h.Key.mark()
	}
	begun.expires = min(t+c.TTL, h.windowEnd(l, t))
	reply.Deadline = begun.expires
	h.leases = append(h.leases, begun)
	h.keep(l, t)
	return reply
}

// expireLeases ends the leases with a deadline together. All their units were spent.
func (h *Holds) expireLeases(l headgate.Limit, deadline int64) {
	if _, isLog := h.Key.state.(*slidingLog); isLog {
		h.moveInLog(l, deadline)
		return
	}
	if !h.refills() {
		h.keep(l, deadline-1) // in the window that ends then
	}
	for first := h.nextLease(); first != nil && first.expires == deadline; first = h.nextLease() {
		h.endLease(l, deadline, first, first.units)
	}
}

// moveInLog ends the leases with a deadline, and moves their units to it.
func (h *Holds) moveInLog(l headgate.Limit, deadline int64) {
	h.keep(l, deadline)
	log, units := h.Key.state.(*slidingLog), int64(0)
	h.leases = slices.DeleteFunc(h.leases, func(open *lease) bool {
		if open.expires != deadline {
			return false
		}
		if deadline-open.mark < log.period { // otherwise the units have aged out
			log.correct(open.mark, open.units)
		}
		units += open.units
		return true
	})
	h.Key.force(l, deadline, units)
	h.keep(l, deadline)
}

// endLease ends a lease of which n units were spent.
func (h *Holds) endLease(l headgate.Limit, t int64, ended *lease, n int64) {
	h.keep(l, t)
	h.leases = slices.DeleteFunc(h.leases, func(other *lease) bool { return other == ended })
	defer h.keep(l, t)
	if h.refills() {
		h.chargeSpent(l, t, n)
		return
	}
	s := h.Key.state.(counter)
	if log, ok := s.(*slidingLog); !ok {
		if n < ended.units { // otherwise a window that has passed is kept until the next charge
			s.advance(t)
			s.correct(ended.mark, ended.units-n)
		}
		return
	} else if t-ended.mark < log.period { // otherwise the units have aged out
		s.correct(ended.mark, ended.units)
	}
	if n > 0 {
		h.Key.force(l, t, n)
	}
}

// chargeSpent charges n units that were spent of a lease that ends at t. It does not
// write the tokens that an interval bucket was refilled with before, because a store may
// not do so, either. If the clock goes back, these tokens are missing again.
func (h *Holds) chargeSpent(l headgate.Limit, t, n int64) {
	before := h.debt(l, t)
	b, ok := h.Key.state.(*intervalBucket)
	if !ok || before == 0 || n == 0 { // before 0: the first interval begins at t
		h.Debit(l, t, n)
		return
	}
	b.tokens -= n
	h.record(l, t, n, before)
}

// keep converts a key with leases to the limit, and makes at least their units count.
func (h *Holds) keep(l headgate.Limit, t int64) {
	if len(h.leases) == 0 {
		return
	}
	if h.convert(l, t); h.refills() {
		return // see view
	}
	now, counted := h.Key.state.clone(), int64(0)
	now.advance(t)
	switch s := now.(type) {
	case *slidingLog:
		h.keepInLog(t)
		return
	case *slidingWindow:
		counted = s.cur
	case *fixedWindow:
		counted = s.count
	case *calendarWindow:
		counted = s.count
	}
	if missing := h.leasedAfter(t) - counted; missing > 0 {
		now.spend(t, missing)
		h.Key.state = now
	}
}

func (h *Holds) keepInLog(t int64) {
	log := h.Key.state.(*slidingLog)
	charge := func(open *lease) {
		log.advance(t)
		log.spend(t, open.units)
		open.mark = log.mark()
	}
	for _, open := range h.leases {
		if t-open.mark >= log.period {
			charge(open)
		}
	}
	now := log.clone().(*slidingLog)
	if now.advance(t); now.counted() < h.leased() {
		log.spent = nil
		for _, open := range h.leases {
			charge(open)
		}
	}
}

// OpenLeases returns the number of open leases.
func (h *Holds) OpenLeases() int { return len(h.leases) }

// HasExpiredUnits is [Key.HasExpiredUnits] for a key with leases.
func (h *Holds) HasExpiredUnits(l headgate.Limit, t int64) bool { return h.Key.HasExpiredUnits(l, t) }

// Leased returns the units and the deadline of a lease that is open at t.
func (h *Holds) Leased(id string, t int64) (units, deadline int64, ok bool) {
	if open := h.lease(id); open != nil && open.expires > t {
		return open.units, open.expires, true
	}
	return 0, 0, false
}

func (h *Holds) lease(id string) *lease {
	for _, open := range h.leases {
		if open.id == id && id != "" {
			return open
		}
	}
	return nil
}

func (h *Holds) leased() (n int64) {
	for _, open := range h.leases {
		n += open.units
	}
	return n
}

// leasedAfter returns the units of the leases that do not end by t.
func (h *Holds) leasedAfter(t int64) (n int64) {
	for _, open := range h.leases {
		if open.expires > t {
			n += open.units
		}
	}
	return n
}

// nextLease returns the lease with the earliest deadline, or nil.
func (h *Holds) nextLease() (first *lease) {
	for _, open := range h.leases {
		if first == nil || open.expires < first.expires {
			first = open
		}
	}
	return first
}

// refills reports whether the key is a bucket.
func (h *Holds) refills() bool {
	switch h.Key.state.(type) {
	case *tokenBucket, *intervalBucket:
		return true
	}
	return false
}

// view returns the key as it is for all requests at t: with the units on lease spent.
func (h *Holds) view(l headgate.Limit, t int64) *Key {
	k := h.Key.under(l, t)
	if n := h.leased(); n > 0 && h.refills() {
		k.spend(t, n)
	}
	return k
}

// Peek returns the decision of a take, but changes nothing; see [Key.Peek]. It does not
// need Begin.
func (h *Holds) Peek(l headgate.Limit, t, n int64) headgate.Decision {
	if len(h.leases)+len(h.open) > 0 {
		h = h.clone()
		h.Begin(l, t)
	}
	return h.view(l, t).Peek(l, t, n)
}

// clone returns a copy whose holds and leases can change.
func (h *Holds) clone() *Holds {
	c := *h
	c.Key, c.base, c.history = h.Key.clone(), h.base.clone(), slices.Clone(h.history)
	c.open, c.leases = slices.Clone(h.open), slices.Clone(h.leases)
	for i, open := range h.open {
		copied := *open
		c.open[i] = &copied
	}
	for i, open := range h.leases {
		copied := *open
		c.leases[i] = &copied
	}
	return &c
}

// take is [Key.Take] of a key with leases.
func (h *Holds) take(l headgate.Limit, t, n int64) headgate.Decision {
	d := h.view(l, t).Take(l, t, n)
	if d.Allowed && n > 0 {
		h.Key.force(l, t, n)
	}
	return d
}

// windowEnd returns the instant until which units count that were just spent at t, at
// least.
func (h *Holds) windowEnd(l headgate.Limit, t int64) int64 {
	k := h.Key.under(l, t)
	k.state.advance(t)
	switch s := k.state.(type) {
	case *fixedWindow:
		return (s.window + 1) * s.period
	case *slidingWindow:
		return (s.window + 1) * s.period
	case *calendarWindow:
		return s.admittedAt(t, 0)
	case *slidingLog:
		return t + s.period
	}
	return math.MaxInt64
}
