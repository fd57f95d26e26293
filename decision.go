package headgate

import "time"

// Decision is the result of one request. Durations are exact: they count from the
// instant of the decision and are rounded up to a whole microsecond. A field that does
// not apply is zero. The slice DeniedBy is shared and must not be modified; the other
// fields belong to the caller.
type Decision struct {
	// Allowed is true if the request may proceed immediately or, under a leaky bucket,
	// after Delay.
	Allowed bool
	// Never is true if the cost is above Limit, so that waiting does not help. Allowed
	// is then false and RetryAfter is 0.
	Never bool
	// Degraded is the reason for the store's failure if the failure mode of the policy
	// made this decision. It is the zero value if the store decided.
	Degraded StoreErrorReason
	// Leased is true if this process decided with units that it had taken from the store
	// in advance; see package lease. Remaining is then that of the last reply of the
	// store plus the units of the lease that are not spent.
	Leased bool
	// Limit is the maximum number of units that can be spent simultaneously: the
	// capacity B of a bucket or the rate L of a window.
	Limit int64
	// Remaining is the number of whole units, rounded down, that can be spent
	// immediately after this decision.
	Remaining int64
	// RetryAfter is 0 if the request was allowed. Otherwise it is the exact wait until
	// the same cost is allowed, if no other request spends units; one microsecond
	// earlier the request would still be denied.
	RetryAfter time.Duration
	// ResetAfter is the wait until the key is unused again (bucket full, window empty)
	// if no request spends units. It is 0 if the key is unused.
	ResetAfter time.Duration
	// Delay is how long the caller must delay this allowed request before it proceeds.
	// Only the leaky bucket sets it.
	Delay time.Duration
	// DeniedBy has the name of each limit that denied the request. It is nil if the
	// request was allowed.
	DeniedBy []string
}
