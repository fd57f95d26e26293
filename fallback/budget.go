package fallback

import (
	"context"
	"sync/atomic"
	"time"
)

// budget creates the contexts for calls of the inner store. Calls that start within one
// width share a context, and so a timer. A context.WithTimeout for each decision takes
// five times as long as all other work of this package.
type budget struct {
	length  time.Duration
	width   time.Duration
	current *atomic.Pointer[slot]
}

// slot is the context of all calls that start within one width.
type slot struct {
	context.Context
	cancel   context.CancelFunc // not called: the deadline always releases the context
	start    time.Time
	deadline time.Time
}

func newBudget(length time.Duration) budget {
	return budget{length: length, width: min(length/50, time.Millisecond), current: new(atomic.Pointer[slot])}
}

// at returns the slot for a call that starts now. Concurrent callers that find an
// expired slot may each create one; the last is kept.
func (b *budget) at(now time.Time) *slot {
	if s := b.current.Load(); s != nil && now.Sub(s.start) < b.width {
		return s
	}
	s := &slot{start: now, deadline: now.Add(b.length)}
	s.Context, s.cancel = context.WithDeadline(context.Background(), s.deadline)
	b.current.Store(s)
	return s
}

// valuesContext is a slot's context with the values of the caller's context.
type valuesContext struct {
	context.Context
	values context.Context
}

// Value returns the value of the caller's context.
func (l *valuesContext) Value(key any) any { return l.values.Value(key) }

// AfterFunc saves a goroutine for each derived context; see context.AfterFunc.
func (l *valuesContext) AfterFunc(f func()) func() bool { return context.AfterFunc(l.Context, f) }

// allowance is the time that the inner store has for one call.
type allowance struct {
	ctx    context.Context    // context of the call
	cancel context.CancelFunc // nil if ctx is shared
	given  time.Duration      // time until the deadline of ctx
	own    bool               // ctx ends with the caller's context
}

// of returns the allowance of a call that starts now. A caller with an earlier deadline
// keeps a quarter of its time.
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
