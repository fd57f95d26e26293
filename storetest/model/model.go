// Package model is an independent implementation of the algorithms for tests: slow,
// obvious and exact.
//
// It is written from the definitions of the algorithms and shares no arithmetic with
// package algo, so that a mistake there is not repeated here. Instants and waits are
// whole microseconds and fractions are math/big rationals. Where a definition contains
// “the first microsecond at which …”, the model searches for that microsecond. Package
// storetest compares every store with this model.
//
// T is P/L, the time of one unit. B is [headgate.Limit.Capacity]. Windows count up to
// L, the limit's Rate.
package model

import (
	"fmt"
	"reflect"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Key is the state of one key under one algorithm. A new key is unused. A Key drops no
// state on its own and is not safe for concurrent use.
type Key struct {
	algorithm headgate.Algorithm
	limit     params // the limit of the last call; zero for an unused key
	state     state
}

// params are the numbers of a limit that affect decisions. Limits with equal params are
// the same limit.
type params struct {
	rate, capacity int64
	period         time.Duration
}

// state is the state of one algorithm. Except for carry, a method that takes t requires
// that advance(t) was called.
type state interface {
	clone() state
	// text is exact; see [Key.Text].
	text() string
	// carry converts the state to another limit at t.
	carry(l headgate.Limit, t int64)
	// advance updates the state to t: it refills units and removes expired ones.
	advance(t int64)
	// capacity is the maximum that can be spent in one request.
	capacity() int64
	// admits reports whether n units, at most the capacity, may be spent at t.
	admits(t, n int64) bool
	spend(t, n int64)
	refund(t, n int64)
	// remaining is the number of whole units that could be spent at t.
	remaining(t int64) int64
	// admittedAt is the first instant from t on at which n units, at most the capacity,
	// are admitted.
	admittedAt(t, n int64) int64
	// unusedAt is the first instant from t on at which the state equals that of an
	// unused key.
	unusedAt(t int64) int64
	// delay is how long a request that is admitted at t is delayed, in µs.
	delay(t int64) int64
}

// NewKey returns an unused key. It panics if the algorithm is not in the model: that is
// a mistake in a test.
func NewKey(algorithm headgate.Algorithm) *Key {
	k := &Key{algorithm: algorithm}
	k.clear()
	return k
}

func (k *Key) clear() {
	k.limit = params{}
	definition, ok := definitionOf(k.algorithm)
	if !ok {
		panic(fmt.Sprintf("model: unknown algorithm %q", k.algorithm))
	}
	k.state = definition.unused()
}

// Take spends n units under l at t if they are available, and returns the decision.
func (k *Key) Take(l headgate.Limit, t, n int64) headgate.Decision {
	k.applyLimit(l, t)
	d := k.decide(t, n)
	if d.Allowed {
		k.spend(t, n)
	}
	k.describe(&d, t)
	return d
}

// Peek returns what Take would decide, and changes nothing.
func (k *Key) Peek(l headgate.Limit, t, n int64) headgate.Decision {
	copied := k.clone()
	copied.applyLimit(l, t)
	d := copied.decide(t, n)
	copied.describe(&d, t)
	return d
}

// Refund returns n units at t, but no more than were spent. The decision is that
// of a peek after the refund.
func (k *Key) Refund(l headgate.Limit, t, n int64) headgate.Decision {
	k.applyLimit(l, t)
	if n > 0 {
		k.state.advance(t)
		k.state.refund(t, n)
	}
	return k.Peek(l, t, 0)
}

// Reset makes the key unused. The decision is that of a peek after the reset.
func (k *Key) Reset(l headgate.Limit, t int64) headgate.Decision {
	k.clear()
	return k.Peek(l, t, 0)
}

// Unused reports whether the key equals an unused key at t. A store may then have
// evicted it.
func (k *Key) Unused(l headgate.Limit, t int64) bool {
	copied := k.clone()
	copied.applyLimit(l, t)
	copied.state.advance(t)
	return copied.state.unusedAt(t) <= t
}

// HasExpiredUnits reports whether some units that were spent no longer count at t. A
// store may or may not have dropped them, so its decisions at an instant before t are
// not determined.
func (k *Key) HasExpiredUnits(l headgate.Limit, t int64) bool {
	copied := k.clone()
	copied.applyLimit(l, t)
	kept := copied.state.clone()
	copied.state.advance(t)
	return k.Unused(l, t) || !reflect.DeepEqual(kept, copied.state)
}

func (k *Key) clone() *Key {
	return &Key{algorithm: k.algorithm, limit: k.limit, state: k.state.clone()}
}

// applyLimit carries the state over if the limit is not that of the last call.
func (k *Key) applyLimit(l headgate.Limit, t int64) {
	if p := (params{l.Rate, l.Capacity(), l.Period}); p != k.limit {
		k.state.carry(l, t)
		k.limit = p
	}
}

// decide reports whether n units may be spent at t and, if not, when.
func (k *Key) decide(t, n int64) headgate.Decision {
	now := k.state.clone()
	now.advance(t)
	d := headgate.Decision{Limit: now.capacity()}
	switch {
	case n == 0 || n <= d.Limit && now.admits(t, n):
		d.Allowed = true
		d.Delay = micros.Duration(now.delay(t))
	case n > d.Limit:
		d.Never = true
	default:
		d.RetryAfter = micros.Duration(now.admittedAt(t, n) - t)
	}
	return d
}

func (k *Key) spend(t, n int64) {
	if n > 0 {
		k.state.advance(t)
		k.state.spend(t, n)
	}
}

// describe adds the state after the decision to it.
func (k *Key) describe(d *headgate.Decision, t int64) {
	now := k.state.clone()
	now.advance(t)
	d.Remaining = now.remaining(t)
	d.ResetAfter = micros.Duration(now.unusedAt(t) - t)
}
