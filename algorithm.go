package headgate

// Algorithm is the name of a rate limiting algorithm. Package algo implements the
// algorithms. A store returns [ErrUnknownAlgorithm] for a name that is not in package
// algo. In a [Rule], the zero value means [TokenBucket]. In a [Policy], it selects an
// algorithm for each limit: see [Algorithm.For].
type Algorithm string

// The names of the algorithms, as they appear in configuration, logs and wire formats.
// In the formulas, L is the Rate of the limit, P its Period and B its capacity; see
// [Limit.Capacity].
const (
	// TokenBucket refills continuously. It allows at most B + s·L/P units in any time
	// span of length s.
	TokenBucket Algorithm = "token_bucket"
	// GCRA is another name for [TokenBucket]: the arithmetic is the same, and under one
	// policy the two names share state.
	GCRA Algorithm = "gcra"
	// TokenBucketInterval adds L tokens at the end of every period, like the token
	// bucket of the Redis guides.
	TokenBucketInterval Algorithm = "token_bucket_interval"
	// FixedWindow counts units in windows of length P that are aligned to the Unix
	// epoch. It allows at most L units in each window, and therefore up to 2·L units in
	// a span of one period.
	FixedWindow Algorithm = "fixed_window"
	// CalendarWindow counts units in windows of the calendar of a time zone; see
	// [Calendar]. It allows at most L units in each window. It is the algorithm of a
	// limit with a calendar and no period if a policy names no algorithm.
	CalendarWindow Algorithm = "calendar_window"
	// SlidingLog stores the time at which each unit was spent. It allows at most L
	// units in any span of one period and needs O(L) memory per key.
	SlidingLog Algorithm = "sliding_log"
	// SlidingWindow estimates the units of the last period from the counters of two
	// windows. It allows at most L·(1 + s/P) units in any span of length s ≤ P.
	SlidingWindow Algorithm = "sliding_window"
	// LeakyBucket is a queue that drains at a constant rate. An allowed request has a
	// [Decision.Delay], after which the caller may proceed.
	LeakyBucket Algorithm = "leaky_bucket"
	// Concurrency counts the units of the open holds of a key, which are called slots. It
	// never allows more than L slots under holds that have not expired. Only
	// [Limiter.Hold] takes slots. It is the algorithm of a limit such as “16 concurrent”
	// if a policy names no algorithm.
	Concurrency Algorithm = "concurrency"
)

// Refill describes how an algorithm makes spent units available again.
type Refill uint8

// The values of [Refill].
const (
	// RefillUnknown is the value for an unknown algorithm, which may refill in any way.
	RefillUnknown Refill = iota
	// RefillContinuous means that single units become available at a constant rate.
	RefillContinuous
	// RefillStepped means that the units of a whole period become available together,
	// at the end of the period.
	RefillStepped
	// RefillWindow means that units become available when the window in which they were
	// counted has passed.
	RefillWindow
	// RefillReleased means that units become available when the hold that took them ends.
	RefillReleased
)

// kinds has the properties of every algorithm. Code outside package algo calls the
// methods below, so it handles an unknown algorithm correctly. It compares names only
// to resolve the alias [GCRA].
var kinds = map[Algorithm]kind{
	TokenBucket:         {refill: RefillContinuous, reserves: true, holds: true},
	TokenBucketInterval: {refill: RefillStepped, reserves: true, holds: true, owesLess: true},
	FixedWindow:         {refill: RefillWindow, holds: true, large: true},
	SlidingLog:          {refill: RefillWindow, holds: true, owesLess: true},
	SlidingWindow:       {refill: RefillWindow, holds: true, owesLess: true},
	LeakyBucket:         {refill: RefillContinuous, reserves: true, queues: true},
	CalendarWindow:      {refill: RefillWindow, holds: true, large: true, calendar: true},
	Concurrency:         {refill: RefillReleased, holds: true},
}

type kind struct {
	refill   Refill
	reserves bool
	queues   bool
	holds    bool
	large    bool // accepts a rate above MaxUnits
	calendar bool // accepts a limit with a Calendar
	owesLess bool // a state counts little more than MaxUnits units
}

// kind returns the properties of a. The result for an unknown name is the zero kind.
func (a Algorithm) kind() kind {
	if a == "" || a == GCRA {
		a = TokenBucket
	}
	return kinds[a]
}

// Refill returns how a refills, or [RefillUnknown] for an unknown name.
func (a Algorithm) Refill() Refill { return a.kind().refill }

// Windowed reports whether a counts units in windows. At most the limit's Rate can then
// be spent simultaneously, and stores do not accept a limit with a burst. Windowed
// returns false for an unknown name.
func (a Algorithm) Windowed() bool { return a.kind().refill == RefillWindow }

// Queues reports whether a allows requests with a [Decision.Delay]. Only then may a
// limit have a queue. Queues returns false for an unknown name.
func (a Algorithm) Queues() bool { return a.kind().queues }

// CanReserve reports whether a can reserve units in advance; see [Limiter.Reserve]. A
// store may not support reservations: see [Bound.CanReserve]. CanReserve returns false
// for an unknown name.
func (a Algorithm) CanReserve() bool { return a.kind().reserves }

// CanHold reports whether units that were charged under a can be corrected later. It is
// false for an unknown name and for the leaky bucket, under which later requests have
// already been given their delays.
func (a Algorithm) CanHold() bool { return a.kind().holds }

// CanLease reports whether a store can grant a lease of units under a; see [LeaseStore].
// It is false for an unknown name, for the leaky bucket, whose units have their own
// instants, and for [Concurrency]: package lease leases its slots, too, but with holds.
func (a Algorithm) CanLease() bool { return a.kind().holds && !a.OnlyHolds() }

// MaxRate returns the maximum Rate of a limit under a, in units: [MaxWindowUnits] for
// [FixedWindow] and [CalendarWindow], and [MaxUnits] for all others. For an unknown name,
// it returns MaxUnits.
func (a Algorithm) MaxRate() int64 {
	if a.kind().large {
		return MaxWindowUnits
	}
	return MaxUnits
}

// MaxDebit returns the maximum number of units of a debit under a, and of the actual cost
// in a commit. It is [MaxUnits] for [TokenBucketInterval], [SlidingLog] and
// [SlidingWindow], whose states do not count many more units, and otherwise
// [MaxWindowUnits].
func (a Algorithm) MaxDebit() int64 {
	if a.kind().owesLess {
		return MaxUnits
	}
	return MaxWindowUnits
}

// OnlyHolds reports whether only a hold can take units under a, as under [Concurrency].
// The limit is then written as “16 concurrent”, and [Limiter.Allow] returns
// [ErrHoldRequired]. OnlyHolds returns false for an unknown name.
func (a Algorithm) OnlyHolds() bool { return a.kind().refill == RefillReleased }

// HasCalendar reports whether a counts in windows of the calendar. Only then may a limit
// have a [Limit.Calendar]. HasCalendar returns false for an unknown name.
func (a Algorithm) HasCalendar() bool { return a.kind().calendar }

// For returns the algorithm of the limit l in a policy whose algorithm is a. It is a,
// except if a is empty and l has no period: then it is [CalendarWindow] or [Concurrency].
func (a Algorithm) For(l Limit) Algorithm {
	switch {
	case a != "":
		return a
	case l.Concurrent:
		return Concurrency
	case l.isOnlyCalendar():
		return CalendarWindow
	}
	return a
}
