// Package model is a second implementation of all algorithms, for tests. It is slow,
// simple and exact.
//
// It is written from the definitions of the algorithms and shares no arithmetic with
// package algo, so that a mistake in algo is not repeated here. Instants and waits are
// whole microseconds; fractions are math/big rationals. Where a definition contains
// “the first microsecond at which …”, the model searches for that microsecond. Package
// storetest compares every store with this model.
//
// Symbols in the comments: L is the rate of a limit, P is its period, T is P/L, the
// time in which one unit is refilled, and B is [headgate.Limit.Capacity]. In every
// method, t is an instant in µs since the epoch.
package model

import (
	"fmt"
	"reflect"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Key is the state of one key under one algorithm. A new key is unused. A Key never
// drops state without a call. It must not be used concurrently.
type Key struct {
	algorithm headgate.Algorithm
	limit     params // the limit under which the state last changed; zero if the key is new or was reset
	state     state
}

// params are the parameters of a limit that affect decisions. Two limits with equal
// params are treated as the same limit.
type params struct {
	rate, capacity int64
	period         time.Duration
	calendar       headgate.Calendar
}

// state is the state of a key under one algorithm. Before a method with a parameter t,
// except carry and advance, advance(t) must have been called.
type state interface {
	clone() state
	// text returns a text that identifies the state exactly; see [Key.Text].
	text() string
	// carry converts the state to the limit l at t.
	carry(l headgate.Limit, t int64)
	// advance updates the state to t: it refills units, or removes expired units.
	advance(t int64)
	// capacity returns the maximum cost of one request.
	capacity() int64
	// admits reports whether n units can be spent at t. n is at most the capacity.
	admits(t, n int64) bool
	spend(t, n int64)
	refund(t, n int64)
	// remaining returns the number of whole units that can be spent at t.
	remaining(t int64) int64
	// admittedAt returns the first instant, t or later, at which n units can be spent
	// if nothing else is spent. n is at most the capacity.
	admittedAt(t, n int64) int64
	// unusedAt returns the first instant, t or later, at which the state equals the
	// state of an unused key if nothing else is spent.
	unusedAt(t int64) int64
	// delay returns for how long a request that is admitted at t is delayed, in µs.
	delay(t int64) int64
}

// NewKey returns an unused key. It panics if the algorithm is not in the model, because
// that is a mistake in a test.
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

// Take spends n units at t under the limit l if they are available, and returns the
// decision. If it does not spend units, the key is unchanged: it remains in the state of
// its last limit.
func (k *Key) Take(l headgate.Limit, t, n int64) headgate.Decision {
	after := k.under(l, t)
	d := after.decide(t, n)
	if d.Allowed && n > 0 {
		after.spend(t, n)
		*k = *after
	}
	after.describe(&d, t)
	return d
}

// Peek returns the decision of a Take with the same arguments, but changes nothing.
func (k *Key) Peek(l headgate.Limit, t, n int64) headgate.Decision {
	copied := k.under(l, t)
	d := copied.decide(t, n)
	copied.describe(&d, t)
	return d
}

// Refund returns n units to the key at t, but no more than were spent. It returns the
// decision of a peek after the refund.
func (k *Key) Refund(l headgate.Limit, t, n int64) headgate.Decision {
	if n > 0 {
		*k = *k.under(l, t)
		k.state.advance(t)
		k.state.refund(t, n)
	}
	return k.Peek(l, t, 0)
}

// Reset makes the key unused. It returns the decision of a peek after the reset.
func (k *Key) Reset(l headgate.Limit, t int64) headgate.Decision {
	k.clear()
	return k.Peek(l, t, 0)
}

// Unused reports whether the key equals an unused key at t under the limit l. If so, a
// store may have dropped its state.
func (k *Key) Unused(l headgate.Limit, t int64) bool {
	copied := k.under(l, t)
	copied.state.advance(t)
	return copied.state.unusedAt(t) <= t
}

// HasExpiredUnits reports whether some of the spent units no longer count at t under
// the limit l. A store may or may not have dropped these units, so that its decisions
// at an instant before t cannot be predicted.
func (k *Key) HasExpiredUnits(l headgate.Limit, t int64) bool {
	copied := k.under(l, t)
	kept := copied.state.clone()
	copied.state.advance(t)
	return k.Unused(l, t) || !reflect.DeepEqual(kept, copied.state)
}

func (k *Key) clone() *Key {
	return &Key{algorithm: k.algorithm, limit: k.limit, state: k.state.clone()}
}

// under returns a copy of the key with its state converted to the limit l at t.
func (k *Key) under(l headgate.Limit, t int64) *Key {
	copied := k.clone()
	if p := (params{l.Rate, l.Capacity(), l.Period, l.Calendar}); p != k.limit {
		copied.state.carry(l, t)
		copied.limit = p
	}
	return copied
}

// decide returns the decision whether n units can be spent at t and, if not, when they
// can. It spends nothing.
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

// describe sets the fields Remaining and ResetAfter of d, from the state after the
// decision.
func (k *Key) describe(d *headgate.Decision, t int64) {
	now := k.state.clone()
	now.advance(t)
	d.Remaining = now.remaining(t)
	d.ResetAfter = micros.Duration(now.unusedAt(t) - t)
}
