package headgate

import "time"

// Decision is the answer to one request. All waits are exact, counted from the instant of the decision and rounded up to a
// whole microsecond. A field that does not apply is zero. DeniedBy is shared and must not be changed; the rest is the caller's.
type Decision struct {
	// Allowed reports whether the request may go ahead now (after Delay, for a leaky bucket).
	Allowed bool
	// Never reports that the cost is above Limit, so that no wait helps. Allowed is then false and RetryAfter 0.
	Never bool
	// Degraded is why the store did not decide this, but what the policy says for that case; the zero value if it did.
	Degraded StoreErrorReason
	// Limit is the most that can be spent at once: the capacity B of a bucket, the L of a window.
	Limit int64
	// Remaining is how many whole units could still be spent right now, after this decision; rounded down.
	Remaining int64
	// RetryAfter is 0 if allowed; otherwise the wait after which this same cost is admitted if nobody else spends. Asked one
	// microsecond earlier, the answer is still no.
	RetryAfter time.Duration
	// ResetAfter is the wait until the key is as if never used, if nobody spends; 0 if it is so already.
	ResetAfter time.Duration
	// Delay is how long to hold this admitted request before it goes out; leaky bucket only.
	Delay time.Duration
	// DeniedBy names each limit that denied; nil when allowed.
	DeniedBy []string
}
