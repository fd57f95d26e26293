package headgate

import (
	"context"
	"fmt"
	"time"
)

// LeaseSettings are the settings of a policy for leases; see package lease. The zero
// value means that the policy is not leased.
type LeaseSettings struct {
	// Share is the maximum part of a limit's capacity that all processes together have
	// on lease for one key, in percent: 1 to 50. 0 means that the policy is not leased.
	Share int
	// TTL is the time after which a lease ends if it is not renewed: 10 ms to 1 min. 0
	// means [DefaultLeaseTTL].
	TTL time.Duration
}

// DefaultLeaseShare is the recommended [LeaseSettings].Share. DefaultLeaseTTL is the TTL
// if [LeaseSettings].TTL is 0.
const (
	DefaultLeaseShare = 10 // percent
	DefaultLeaseTTL   = 250 * time.Millisecond
)

const (
	maxLeaseShare = 50
	minLeaseTTL   = 10 * time.Millisecond
	maxLeaseTTL   = time.Minute
)

// Enabled reports whether the policy is leased.
func (s LeaseSettings) Enabled() bool { return s.Share != 0 }

// TTLOrDefault returns TTL, or [DefaultLeaseTTL] if TTL is 0.
func (s LeaseSettings) TTLOrDefault() time.Duration {
	if s.TTL == 0 {
		return DefaultLeaseTTL
	}
	return s.TTL
}

// Max returns the maximum number of units that all processes together have on lease for
// one key under a limit with the given capacity: Share of it, rounded down. It is 0 if
// the capacity is too small to be leased.
func (s LeaseSettings) Max(capacity int64) int64 {
	maxUnits := capacity/100*int64(s.Share) + capacity%100*int64(s.Share)/100
	if capacity-maxUnits < 1 {
		return 0
	}
	return maxUnits
}

// Validate returns an error that matches [ErrInvalidPolicy] if a setting is outside the
// accepted range.
func (s LeaseSettings) Validate() error {
	switch {
	case s.Share < 0 || s.Share > maxLeaseShare:
		return fmt.Errorf("%w: the share of a lease is %d%%; must be 1%% to %d%% (0 means no leases)", ErrInvalidPolicy, s.Share, maxLeaseShare)
	case s.TTL != 0 && (s.TTL < minLeaseTTL || s.TTL > maxLeaseTTL):
		return fmt.Errorf("%w: the ttl of a lease is %v; must be %v to %v (0 selects %v)", ErrInvalidPolicy, s.TTL, minLeaseTTL, maxLeaseTTL, DefaultLeaseTTL)
	case s.Share == 0 && s.TTL != 0:
		return fmt.Errorf("%w: a lease has a ttl but no share; set the share to %d%%", ErrInvalidPolicy, DefaultLeaseShare)
	}
	return nil
}

// LeaseOp is one call of [LeaseStore.ApplyLease]. An id must be used for one lease only.
type LeaseOp struct {
	Bound Bound
	Key   string
	// Previous is the lease that ends, and Spent is the number of its units that were
	// spent: 0 to its units. The zero value ends no lease.
	Previous HoldID
	Spent    int64
	// ID is the lease that begins. The zero value begins no lease; the units of Previous
	// that were not spent are then available to others.
	ID HoldID
	// Want is the number of units that the new lease should have in addition to the units
	// of Previous that were not spent.
	Want int64
	// Max is the maximum number of units that all open leases of the key may have.
	Max int64
	// TTL is the time after which the new lease ends.
	TTL time.Duration
}

// LeaseResult is the result of [LeaseStore.ApplyLease].
type LeaseResult struct {
	// Decision is the result of a peek with cost 1 after the operation. Units on lease
	// count as spent.
	Decision
	// Units is the number of units of the new lease: the units of Previous that were not
	// spent, if PreviousOpen is true, and the granted units. If it is 0, no lease began.
	Units int64
	// PreviousOpen is true if Previous was open, so that its unspent units were moved to
	// the new lease or returned. If it is false, Previous had ended before, and all its
	// units stay spent.
	PreviousOpen bool
	// TTL is the time until the new lease ends. It is shorter than that of the request
	// if the window of the limit ends earlier.
	TTL time.Duration
}

// Validity returns the time for which a process may spend the lease, counted from before
// the process sent the request. Its clock may be slower than that of the store by 1 %,
// and the store's clock counts in µs.
func (r *LeaseResult) Validity() time.Duration { return r.TTL/100*99 - time.Microsecond }

// LeaseStore is a [HoldStore] from which a process can take units in advance. A lease is
// a number of units of one key that one process may spend, until the lease ends. The
// units of a lease count as spent for every other process. In a bucket, they do not
// refill before the lease ends. So all processes together do not exceed the limit, except
// after the events in the documentation of package lease. No refund, reset or change of
// the limit returns them.
type LeaseStore interface {
	HoldStore
	// ApplyLease ends a lease, begins a lease, or both, in one atomic operation:
	//
	//   - A lease whose deadline has passed ends as if all its units had been spent.
	//   - Previous ends with the units that were spent. The other units are units of the
	//     new lease or, without one, are available again.
	//   - The number of further units of the new lease is the minimum of Want, the
	//     remaining units, and Max less the units of all open leases.
	//
	// If a lease with the id exists, ApplyLease changes nothing and returns its units and
	// the time until its deadline, with the same PreviousOpen. So a call whose reply was
	// lost may be repeated. ApplyLease returns [ErrUnsupported] if the algorithm or the
	// store has no leases, and [ErrInvalidHold] if Spent is negative or above the units
	// of Previous.
	ApplyLease(ctx context.Context, now Instant, op LeaseOp) (LeaseResult, error)
}
