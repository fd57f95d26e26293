package headgate

// Observer receives an event for every decision of a [Limiter]. Its method is called
// synchronously on the caller's goroutine, possibly concurrently, and should return
// fast. Events contain no key, because a key may identify a person.
type Observer interface {
	Observe(Event)
}

// Event is one call of a limiter.
type Event struct {
	Policy   string   // name of the policy; may be empty
	Verb     string   // take, peek, refund, reset, reserve, cancel or wait
	Cost     int64    // units requested
	Decision Decision // zero when Err is set
	Err      error    // why nothing could be decided
}
