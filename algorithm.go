package headgate

// Algorithm is the name of the arithmetic that decides under a [Limit]. Package algo
// has the arithmetic. A store returns [ErrUnknownAlgorithm] for a name that is not in
// package algo. The zero value means [TokenBucket].
type Algorithm string

// The algorithms, by their names in configuration, logs and wire formats.
const (
	// TokenBucket refills continuously: at most B + s·L/P units in any span s.
	TokenBucket Algorithm = "token_bucket"
	// GCRA is another name for [TokenBucket]: the same arithmetic and, under one
	// policy, the same state.
	GCRA Algorithm = "gcra"
	// TokenBucketInterval adds L tokens at the end of every period, like the token
	// bucket of the Redis guides.
	TokenBucketInterval Algorithm = "token_bucket_interval"
	// FixedWindow counts in windows aligned to the epoch: at most L per window, and up
	// to 2·L in a span of one period.
	FixedWindow Algorithm = "fixed_window"
	// SlidingLog stores the time of each unit: at most L in any span of one period. It
	// needs O(L) memory per key.
	SlidingLog Algorithm = "sliding_log"
	// SlidingWindow weights two counters: at most L·(1 + s/P) in any span s ≤ P.
	SlidingWindow Algorithm = "sliding_window"
	// LeakyBucket is a queue that drains at a constant rate: it allows requests with a
	// [Decision.Delay].
	LeakyBucket Algorithm = "leaky_bucket"
)

// Refill is how an algorithm makes spent units available again.
type Refill uint8

// The refill kinds.
const (
	// RefillUnknown is the kind of an unknown algorithm. Nothing can be concluded from
	// it.
	RefillUnknown Refill = iota
	// RefillContinuous adds single units at a constant rate.
	RefillContinuous
	// RefillStepped adds the units of a whole period together, at the end of the
	// period.
	RefillStepped
	// RefillWindow makes units available when they leave the window in which they were
	// counted.
	RefillWindow
)

// kinds is the table of algorithm kinds. Code outside package algo calls the methods
// below. It compares names only to resolve the alias [GCRA], so it handles an unknown
// algorithm correctly.
var kinds = map[Algorithm]kind{
	TokenBucket:         {refill: RefillContinuous, reserves: true},
	TokenBucketInterval: {refill: RefillStepped, reserves: true},
	FixedWindow:         {refill: RefillWindow},
	SlidingLog:          {refill: RefillWindow},
	SlidingWindow:       {refill: RefillWindow},
	LeakyBucket:         {refill: RefillContinuous, reserves: true, queues: true},
}

type kind struct {
	refill   Refill
	reserves bool
	queues   bool
}

// kind returns the row of a. An unknown name has the zero kind.
func (a Algorithm) kind() kind {
	if a == "" || a == GCRA {
		a = TokenBucket
	}
	return kinds[a]
}

// Refill returns the refill kind of a: [RefillUnknown] for an unknown name.
func (a Algorithm) Refill() Refill { return a.kind().refill }

// Windowed reports whether a counts in windows. The most that it grants simultaneously
// is then the limit's Rate, and a limit with a burst is refused. It returns false for
// an unknown name.
func (a Algorithm) Windowed() bool { return a.kind().refill == RefillWindow }

// Queues reports whether a allows requests with a [Decision.Delay], so that a limit may
// have a queue. It returns false for an unknown name.
func (a Algorithm) Queues() bool { return a.kind().queues }

// CanReserve reports whether a can reserve future units; see [Limiter.Reserve]. A store
// may not support it: see [Bound.CanReserve]. It returns false for an unknown name.
func (a Algorithm) CanReserve() bool { return a.kind().reserves }
