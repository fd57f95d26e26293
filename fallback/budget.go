package fallback

import (
	"context"
	"sync/atomic"
	"time"
)

// budget makes the contexts under which the inner store is asked. What starts within one width shares a context, and so a timer:
// a context.WithTimeout for each decision takes five times what all else of this package does.
type budget struct {
	length  time.Duration
	width   time.Duration
	current *atomic.Pointer[slot]
}

// slot is a context for all calls that start within a width from its start.
type slot struct {
	context.Context
	cancel   context.CancelFunc // what it releases is released by the deadline, too: there is always one
	start    time.Time
	deadline time.Time
}

func newBudget(length time.Duration) budget {
	return budget{length: length, width: min(length/50, time.Millisecond), current: new(atomic.Pointer[slot])}
}

// at is the slot for a call that starts now. Callers who find it too old at once may each make one; the last is kept.
func (b *budget) at(now time.Time) *slot {
	if s := b.current.Load(); s != nil && now.Sub(s.start) < b.width {
		return s
	}
	s := &slot{start: now, deadline: now.Add(b.length)}
	s.Context, s.cancel = context.WithDeadline(context.Background(), s.deadline)
	b.current.Store(s)
	return s
}

// lent is a slot's context with the values of a caller's.
type lent struct {
	context.Context
	values context.Context
}

// Value is the caller's.
func (l *lent) Value(key any) any { return l.values.Value(key) }

// AfterFunc spares a context that is derived from this one a goroutine; see context.AfterFunc.
func (l *lent) AfterFunc(f func()) func() bool { return context.AfterFunc(l.Context, f) }

// allowance is how long the inner store has for one call.
type allowance struct {
	ctx    context.Context    // what it is asked under
	cancel context.CancelFunc // nil if ctx is shared
	given  time.Duration      // how long that is
	own    bool               // ctx ends with the caller's
}

// of is what a caller may have who starts now. One with a nearer deadline keeps a quarter of its time.
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
	return allowance{ctx: &lent{Context: s.Context, values: ctx}, given: b.length}
}
