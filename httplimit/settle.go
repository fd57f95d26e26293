package httplimit

import (
	"net/http"
	"slices"
)

// OnlyFailures is a Settle that refunds everything for answers below 400: only failures stay charged, such as a wrong
// password. A handler that panicked failed; so do answers of 500 and above, which are not the client's doing: see
// [OnlyStatus].
func OnlyFailures(o Response) int64 {
	if o.Status < http.StatusBadRequest && !o.Panicked {
		return 0
	}
	return o.Charged
}

// OnlySuccesses is a Settle that refunds everything for answers of 400 and above, and for a handler that panicked: a
// request that failed costs nothing. A client that can make requests fail can make them without limit.
func OnlySuccesses(o Response) int64 { return o.Charged - OnlyFailures(o) }

// OnlyStatus is a Settle that refunds everything unless the answer has one of these statuses: 401 and 403 on a login, say. A
// handler that panicked before it answered has 500.
func OnlyStatus(codes ...int) func(Response) int64 {
	codes = slices.Clone(codes)
	return func(o Response) int64 {
		if slices.Contains(codes, o.Status) {
			return o.Charged
		}
		return 0
	}
}

// PerBytes is a Settle for costs that are known at the end: one unit for each size bytes of the answer's body, rounded up, and at
// least one. size is at least 1; less counts as 1.
func PerBytes(size int64) func(Response) int64 {
	size = max(size, 1)
	return func(o Response) int64 {
		units := o.Bytes / size
		if o.Bytes%size > 0 {
			units++
		}
		return max(units, 1)
	}
}
