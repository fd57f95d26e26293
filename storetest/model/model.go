// Package model is a second, independent statement of what a decision is, for tests: slow, obvious and exact.
//
// It is written from the definition of the algorithms and shares no arithmetic with package algo, so that a mistake made there
// is not made here again. Instants and waits are whole microseconds, fractions are math/big rationals, waits that the
// definition gives as “the first microsecond at which …” are found by searching for that microsecond. Package storetest holds
// every store against it.
//
// T is P/L, the time of one unit; B is [headgate.Limit.Capacity]; windows count up to L, the limit's Rate.
package model

import (
	"fmt"
	"reflect"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Key is one key under one algorithm. A new one was never used. It forgets nothing and is not for concurrent use.
type Key struct {
	algorithm headgate.Algorithm
	limit     params // what the state was last brought under; zero for a key that was never used
	state     state
}

// terms are what of a limit decides: two texts with equal terms are one limit.
type params struct {
	rate, capacity int64
	period         time.Duration
}

// state is one algorithm's account of what was spent. Except for carry, a method that takes t may count on advance(t) having
// been called.
type state interface {
	clone() state
	// text is exact: see [Key.Text].
	text() string
	// carry puts the state under another limit at t.
	carry(l headgate.Limit, t int64)
	// advance brings the state to t: what is refilled is refilled, what is over is over.
	advance(t int64)
	// capacity is the most that can be spent at once.
	capacity() int64
	// admits says whether n units, at most the capacity, may be spent at t.
	admits(t, n int64) bool
	spend(t, n int64)
	refund(t, n int64)
	// remaining is the number of whole units that could be spent at t.
	remaining(t int64) int64
	// admittedAt is the first instant from t on at which n units, at most the capacity, are admitted.
	admittedAt(t, n int64) int64
	// unusedAt is the first instant from t on at which the state is as if never used.
	unusedAt(t int64) int64
	// delay is how long a request admitted at t is held back.
	delay(t int64) int64
}

// NewKey is a key that was never used. It panics on an algorithm it does not model: that is a mistake in a test.
func NewKey(algorithm headgate.Algorithm) *Key {
	k := &Key{algorithm: algorithm}
	k.clear()
	return k
}

func (k *Key) clear() {
	k.limit = params{}
	definition, ok := definitionOf(k.algorithm)
	if !ok {
		panic(fmt.Sprintf("model: algorithm %q is not modelled", k.algorithm))
	}
	k.state = definition.unused()
}

// Take spends n units under l at t if they are there, and says so.
func (k *Key) Take(l headgate.Limit, t, n int64) headgate.Decision {
	k.applyLimit(l, t)
	d := k.decide(t, n)
	if d.Allowed {
		k.spend(t, n)
	}
	k.describe(&d, t)
	return d
}

// Peek says what Take would decide, and changes nothing.
func (k *Key) Peek(l headgate.Limit, t, n int64) headgate.Decision {
	looked := k.clone()
	looked.applyLimit(l, t)
	d := looked.decide(t, n)
	looked.describe(&d, t)
	return d
}

// Refund gives n units back at t: at most what was spent. The answer is that of a peek after it.
func (k *Key) Refund(l headgate.Limit, t, n int64) headgate.Decision {
	k.applyLimit(l, t)
	if n > 0 {
		k.state.advance(t)
		k.state.refund(t, n)
	}
	return k.Peek(l, t, 0)
}

// Reset makes the key as if never used. The answer is that of a peek after it.
func (k *Key) Reset(l headgate.Limit, t int64) headgate.Decision {
	k.clear()
	return k.Peek(l, t, 0)
}

// Idle says whether, at t, the key is as if never used. A store may then have dropped it.
func (k *Key) Unused(l headgate.Limit, t int64) bool {
	looked := k.clone()
	looked.applyLimit(l, t)
	looked.state.advance(t)
	return looked.state.unusedAt(t) <= t
}

// Forgets says whether, at t, some of what was spent no longer counts. A store may have dropped that for good, or may not: what
// it answers at an instant before t is then not determined.
func (k *Key) HasExpiredUnits(l headgate.Limit, t int64) bool {
	looked := k.clone()
	looked.applyLimit(l, t)
	kept := looked.state.clone()
	looked.state.advance(t)
	return k.Unused(l, t) || !reflect.DeepEqual(kept, looked.state)
}

func (k *Key) clone() *Key {
	return &Key{algorithm: k.algorithm, limit: k.limit, state: k.state.clone()}
}

// bringUnder carries the state over when the limit is not the one it was last brought under.
func (k *Key) applyLimit(l headgate.Limit, t int64) {
	if under := (params{l.Rate, l.Capacity(), l.Period}); under != k.limit {
		k.state.carry(l, t)
		k.limit = under
	}
}

// verdict says whether n units may be spent at t and, if not, when.
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

// describe adds what is left, after the decision, to it.
func (k *Key) describe(d *headgate.Decision, t int64) {
	now := k.state.clone()
	now.advance(t)
	d.Remaining = now.remaining(t)
	d.ResetAfter = micros.Duration(now.unusedAt(t) - t)
}
