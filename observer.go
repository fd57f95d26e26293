package headgate

// Observer receives an event for every decision of a [Limiter]. Observe is called
// synchronously on the caller's goroutine, possibly by several goroutines concurrently,
// and should return fast. Events contain no key, because a key may identify a person.
type Observer interface {
	Observe(Event)
}

// Event describes one call of a method of [Limiter].
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
