package headgate

// Observer hears of every decision of a [Limiter]. Its methods are called synchronously on the caller's goroutine, possibly
// many at once; they should return fast. No event carries a key: keys are people.
type Observer interface {
	Observe(Event)
}

// Event is one answered call.
type Event struct {
	Policy   string   // the policy's name; empty for one without
	Verb     string   // take, peek, refund, reset, reserve, cancel or wait
	Cost     int64    // units asked for
	Decision Decision // what was decided; zero when Err is set
	Err      error    // why nothing was decided
}
