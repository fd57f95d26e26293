package algo

import (
	"cmp"
	_ "embed"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed concurrency.lua
var concurrencyLua string

// concurrency counts slots: the units of the open holds of a key.
//
// In its state, A and C are 0 and B is the number of slots that are taken. The deadlines
// of the holds are in the [Ledger], which computes the waits. A key without holds has
// the zero state.
type concurrency struct {
	noDebt
	limit int64
}

// SlotStepper is a Corrector under which only an open hold takes units, which are called
// slots. However the hold ends, all its slots become available. A store must not keep the
// state that Take returns unless it opens a hold, and must use [Ledger.Answer] for
// decisions.
type SlotStepper interface {
	Corrector

	// Slots returns the number of slots that may be taken at the same time.
	Slots() int64
}

func newConcurrency(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.Concurrency); err != nil {
		return nil, err
	}
	return &concurrency{limit: l.Rate}, nil
}

// Slots returns L.
func (c *concurrency) Slots() int64 { return c.limit }

// Take allows a request if and only if the slots that are taken, plus n, are at most L.
func (c *concurrency) Take(s State, _, n int64) (State, bool) {
	if n == 0 {
		return s, true
	}
	if n > c.limit-s.B {
		return s, false
	}
	return State{B: s.B + n}, true
}

// Answer calculates remaining = L − slots taken. The waits are 0: they depend on
// deadlines, which are not in the state. See [Ledger.Answer].
func (c *concurrency) Answer(s State, _, asked, _ int64, allowed bool) headgate.Decision {
	d := headgate.Decision{Allowed: allowed, Limit: c.limit, Remaining: max(0, c.limit-s.B)}
	if !allowed && asked > c.limit {
		return never(d)
	}
	return d
}

// Refund returns s: only the end of a hold makes slots available.
func (c *concurrency) Refund(s State, _, _ int64) State { return s }

// Undo decreases the number of slots that are taken. The order of takes does not matter.
func (c *concurrency) Undo(s, was, after State, _, _, n int64) State {
	if s == after {
		return was
	}
	return c.Correct(s, 0, 0, n, Debt{})
}

// ResetAt returns 0: the state of a key with open holds is kept until the last deadline,
// and a state without holds is unused.
func (c *concurrency) ResetAt(State) int64 { return 0 }

// Spacing returns 0: a hold can end at any time.
func (c *concurrency) Spacing(int64) int64 { return 0 }

// Charge returns s: only a hold takes slots.
func (c *concurrency) Charge(s State, _, _ int64) State { return s }

// Correct makes n slots available.
func (c *concurrency) Correct(s State, _, _, n int64, _ Debt) State {
	return State{B: s.B - min(n, s.B)}
}

// Raise returns s: slots have no leases.
func (c *concurrency) Raise(s State, _, _ int64) State { return s }

// Params returns L.
func (c *concurrency) Params() []int64 { return []int64{c.limit} }

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
		if h := &l.Holds[i]; h.Units() > 0 {
			last = max(last, h.Deadline)
		}
	}
	return last
}

// releasedBy returns the deadline at which expired holds have released n units.
func (l *Ledger) releasedBy(n int64) (at int64) {
	sorted := slices.Clone(l.Holds)
	slices.SortFunc(sorted, func(a, b Hold) int { return cmp.Compare(a.Deadline, b.Deadline) })
	for i := range sorted {
		if n <= 0 {
			break
		}
		n, at = n-sorted[i].Units(), sorted[i].Deadline
	}
	return at
}
