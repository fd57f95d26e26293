package httplimit

import (
	"net/http"
	"slices"
)

// OnlyFailures is an AdjustCost function with which only failed requests, such as a
// login with a wrong password, stay charged. The cost is 0 if the status is below 400,
// unless the handler panicked. Requests with a status of 500 or above stay charged,
// although the client did not cause the failure; see [OnlyStatus].
func OnlyFailures(r Response) int64 {
	if r.Status < http.StatusBadRequest && !r.Panicked {
		return 0
	}
	return r.Charged
}

// OnlySuccesses is an AdjustCost function with which only successful requests stay
// charged. The cost is 0 if the status is 400 or above, or if the handler panicked. A
// client that can make requests fail can therefore send any number of them.
func OnlySuccesses(r Response) int64 { return r.Charged - OnlyFailures(r) }

// OnlyStatus returns an AdjustCost function with which the cost is 0 unless the status
// is in codes, such as 401 and 403 for a login. The status is 500 if the handler
// panicked before it wrote a response.
func OnlyStatus(codes ...int) func(Response) int64 {
	codes = slices.Clone(codes)
	return func(r Response) int64 {
		if slices.Contains(codes, r.Status) {
			return r.Charged
		}
		return 0
	}
}

// PerBytes returns an AdjustCost function that charges by response size: one unit for
// every size bytes of the body, rounded up, and at least one unit. If size is below 1,
// PerBytes uses 1.
func PerBytes(size int64) func(Response) int64 {
	size = max(size, 1)
	return func(r Response) int64 {
		units := r.Bytes / size
		if r.Bytes%size > 0 {
			units++
		}
		return max(units, 1)
	}
}
