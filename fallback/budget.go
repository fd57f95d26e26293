package fallback

import (
	"context"
	"sync/atomic"
	"time"
)

// budget creates the contexts for calls to the inner store. Calls that start within a
// time span of the length width share one context, and so one timer. A
// context.WithTimeout for each decision would take five times as long as all other work
// of this package.
type budget struct {
	length  time.Duration
	width   time.Duration
	current *atomic.Pointer[slot]
}

// slot is a context that is shared by all calls that start within one time span.
type slot struct {
	context.Context
	cancel   context.CancelFunc // never called, because the deadline always releases the context
	start    time.Time
	deadline time.Time
}

func newBudget(length time.Duration) budget {
	return budget{length: length, width: min(length/50, time.Millisecond), current: new(atomic.Pointer[slot])}
}

// at returns the slot for a call that starts at the time now.
// Concurrent callers that find an expired slot may each create a new one; the last one
// is kept.
func (b *budget) at(now time.Time) *slot {
	if s := b.current.Load(); s != nil && now.Sub(s.start) < b.width {
		return s
	}
	s := &slot{start: now, deadline: now.Add(b.length)}
	s.Context, s.cancel = context.WithDeadline(context.Background(), s.deadline)
	b.current.Store(s)
	return s
}

// valuesContext has the deadline of a slot's context and the values of the caller's
// context.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value returns the value of the caller's context.
func (l *valuesContext) Value(key any) any { return l.values.Value(key) }

// AfterFunc makes derived contexts work without a goroutine each; see
// context.AfterFunc.
func (l *valuesContext) AfterFunc(f func()) func() bool { return context.AfterFunc(l.Context, f) }

// allowance is the context and the time that the inner store gets for one call.
type allowance struct {
	ctx    context.Context    // context of the call
	cancel context.CancelFunc // nil if ctx is shared
	given  time.Duration      // time until the deadline of ctx
	own    bool               // true if ctx ends together with the caller's context
}

// of returns the allowance for a call that starts at the time given by the parameter
// now. If the caller's deadline is before the end of the budget, the call gets three
// quarters of the time until that deadline, so that the caller can still use the rest.
func (b *budget) of(ctx context.Context, now time.Time) allowance {
	s := b.at(now)
	if deadline, ok := ctx.Deadline(); ok && deadline.Before(s.deadline) {
		given := deadline.Sub(now) * 3 / 4
		ctx, cancel := context.WithDeadline(ctx, now.Add(given))
		return allowance{ctx: ctx, cancel: cancel, given: given, own: true}
	}
	if ctx == context.Background() {
		return allowance{ctx: s, given: b.length}
	}
	return allowance{ctx: &valuesContext{Context: s.Context, values: ctx}, given: b.length}
}
