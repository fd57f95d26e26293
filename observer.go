package headgate

import "context"

// Observer receives an event for every decision of a [Limiter]. Observe is called
// synchronously on the caller's goroutine, possibly by several goroutines concurrently,
// and should return fast. Events contain no key, because a key may identify a person.
type Observer interface {
	Observe(Event)
}

// ContextObserver is an [Observer] that also uses the context of the call, for example to
// find the current span of a trace. If an observer implements ContextObserver,
// ObserveContext is called instead of Observe.
type ContextObserver interface {
	Observer
	// ObserveContext is like Observe. The context may already have ended; after a request
	// has left its queue, it is a copy without the deadline.
	ObserveContext(context.Context, Event)
}

// observe passes an event to an observer.
func observe(ctx context.Context, o Observer, e Event) {
	if with, ok := o.(ContextObserver); ok {
		with.ObserveContext(ctx, e)
		return
	}
	o.Observe(e)
}

// Event describes one call of a method of [Limiter], [Hold] or [Reservation], or the part
// of one limiter in a call of [AllowAll], [PeekAll], [HoldAll] or a similar function.
// [ExtendAll] and [KeepAlive] send no events.
type Event struct {
	Policy string // name of the policy; may be empty
	// Verb is the operation: take, peek, refund, reset, reserve, cancel or wait. For
	// holds it is hold, commit, extend, debit or take_up_to.
	Verb     string
	Cost     int64    // requested cost in units
	Decision Decision // resulting decision; zero if Err is set
	Err      error    // reason why no decision was made, or nil
	// Uncounted is the number of units that a commit has not counted, because a failure
	// mode decided for it; see [HoldResult.Uncounted].
	Uncounted int64
}
