package headgate

import "time"

// Decision is the answer to one request. All durations are exact: they count from the
// instant of the decision and are rounded up to a whole microsecond. A field that does
// not apply is zero. DeniedBy is shared and must not be changed. The other fields
// belong to the caller.
type Decision struct {
	// Allowed reports whether the request is allowed now or, under a leaky bucket,
	// after Delay.
	Allowed bool
	// Never reports that the cost is above Limit, so that waiting does not help.
	// Allowed is then false and RetryAfter is 0.
	Never bool
	// Degraded is the reason why the failure mode of the policy decided, and not the
	// store. It is the zero value if the store decided.
	Degraded StoreErrorReason
	// Limit is the most units that can be spent simultaneously: the capacity B of a
	// bucket or the rate L of a window.
	Limit int64
	// Remaining is the number of whole units that can still be spent immediately after
	// this decision, rounded down.
	Remaining int64
	// RetryAfter is 0 if allowed. Otherwise it is the wait after which the same cost is
	// allowed if no other request spends. One microsecond earlier it is still denied.
	RetryAfter time.Duration
	// ResetAfter is the wait until the key is unused again (bucket full, window empty)
	// if no request spends. It is 0 if the key is unused.
	ResetAfter time.Duration
	// Delay is how long to delay this allowed request before it proceeds; leaky bucket
	// only.
	Delay time.Duration
	// DeniedBy lists the name of each limit that denied. It is nil if allowed.
	DeniedBy []string
}
