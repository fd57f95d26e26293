package headgate

// Algorithm names the arithmetic that turns a [Limit] into decisions. The arithmetic itself is in package algo; a store
// refuses a name that algo does not know with [ErrUnknownAlgorithm]. The zero value means [TokenBucket].
type Algorithm string

// The algorithms that ship, by the names that configuration, logs and wire formats use.
const (
	// TokenBucket refills continuously: at most B + s·L/P units in any span s.
	TokenBucket Algorithm = "token_bucket"
	// GCRA is another name for [TokenBucket]: the same arithmetic and, under one policy, the same state.
	GCRA Algorithm = "gcra"
	// TokenBucketInterval refills L tokens at the end of every period: the bucket of the Redis guides.
	TokenBucketInterval Algorithm = "token_bucket_interval"
	// FixedWindow counts in windows aligned to the epoch: at most L a window, up to 2·L in a span of one period.
	FixedWindow Algorithm = "fixed_window"
	// SlidingLog remembers each unit: exactly L in any span of one period, at O(L) memory a key.
	SlidingLog Algorithm = "sliding_log"
	// SlidingWindow weighs two counters: at most L·(1 + s/P) in any span s ≤ P.
	SlidingWindow Algorithm = "sliding_window"
	// LeakyBucket is a queue that drains at a constant rate: it admits with a [Decision.Delay].
	LeakyBucket Algorithm = "leaky_bucket"
)

// Refill is how an algorithm grants units again after they were spent.
type Refill uint8

// The ways to refill.
const (
	// RefillUnknown is that of a name which is no algorithm: nothing can be concluded.
	RefillUnknown Refill = iota
	// RefillContinuous grants single units at a constant rate.
	RefillContinuous
	// RefillStepped grants a whole period's units together, at the end of the period.
	RefillStepped
	// RefillWindow grants units when they leave the window in which they were counted.
	RefillWindow
)

// kinds is the table of what kind each algorithm is. Code outside package algo asks the methods below and compares names only to
// resolve the alias [GCRA], so it treats an algorithm that it does not know correctly.
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

// Refill returns how a grants units again, [RefillUnknown] for a name that is no algorithm.
func (a Algorithm) Refill() Refill { return a.kind().refill }

// Windowed reports whether a counts in windows. The most that it grants simultaneously is then the limit's Rate, and a burst has
// no meaning. It is false for a name that is no algorithm.
func (a Algorithm) Windowed() bool { return a.kind().refill == RefillWindow }

// Queues reports whether a admits requests with a [Decision.Delay], so that a limit may have a queue. It is false for a name that
// is no algorithm.
func (a Algorithm) Queues() bool { return a.kind().queues }

// CanReserve reports whether a can promise units which are still to come: see [Limiter.Reserve]. A store may refuse that all the
// same; [Bound.CanReserve] reports what it does. It is false for a name that is no algorithm.
func (a Algorithm) CanReserve() bool { return a.kind().reserves }
