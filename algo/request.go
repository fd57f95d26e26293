package algo

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// Verb is the operation of a [Request]. The first four values are the same as those of
// [headgate.Verb].
type Verb uint8

// The operations of a request.
const (
	Take Verb = iota
	Peek
	Refund
	Reset
	Reserve // requires a Reserver
	Cancel  // requires a Reserver
)

// Request is an operation on one key. T is the instant and N the number of units; times
// are in µs.
type Request struct {
	Verb     Verb
	T, N     int64
	MaxDelay int64 // maximum delay in µs; only for Reserve
	Token    State // state that identifies the reservation; only for Cancel
}

// Result is the new state after a request, with the arguments of Answer.
type Result struct {
	Next    State
	Asked   int64
	Spent   int64
	Delay   int64 // delay of a reservation, in µs
	Allowed bool
}

// Apply executes a request on the state of a key. It does not allocate.
func Apply(step Stepper, s State, r *Request) Result {
	switch r.Verb {
	case Take:
		next, ok := step.Take(s, r.T, r.N)
		out := Result{Next: next, Asked: r.N, Allowed: ok}
		if ok {
			out.Spent = r.N
		}
		return out
	case Peek:
		_, ok := step.Take(s, r.T, r.N)
		return Result{Next: s, Asked: r.N, Allowed: ok}
	case Refund:
		return Result{Next: step.Refund(s, r.T, r.N), Allowed: true}
	case Reset:
		return Result{Allowed: true}
	case Reserve:
		next, delay, ok := step.(Reserver).Reserve(s, r.T, r.N, r.MaxDelay)
		return Result{Next: next, Asked: r.N, Delay: delay, Allowed: ok}
	default:
		return Result{Next: step.(Reserver).Cancel(s, r.Token, r.T, r.N), Allowed: true}
	}
}

// AnswerTo returns the decision for a result. The store must set DeniedBy.
func AnswerTo(step Stepper, r *Request, out *Result) headgate.Decision {
	d := step.Answer(out.Next, r.T, out.Asked, out.Spent, out.Allowed)
	if r.Verb != Reserve {
		return d
	}
	if d.Delay = 0; out.Allowed {
		d.Delay = micros.Duration(out.Delay)
	} else if !d.Never && d.RetryAfter == 0 { // a leaky bucket would allow it, with a longer delay
		d.RetryAfter = micros.Duration(out.Delay - r.MaxDelay)
	}
	return d
}
