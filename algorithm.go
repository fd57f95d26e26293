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

// Refill is how a limit grants units again after they were spent.
type Refill uint8

// The ways to refill.
const (
	// RefillContinuous grants single units at a constant rate.
	RefillContinuous Refill = iota
	// RefillStepped grants a whole period's units together, at the end of the period.
	RefillStepped
	// RefillWindow grants units when they leave the window in which they were counted.
	RefillWindow
)

// algorithmKinds is the one table of what kind each algorithm is. Code outside package algo asks the methods below and never
// compares names, so that a new algorithm is treated correctly where it is not known by name.
var algorithmKinds = map[Algorithm]algorithmKind{
	TokenBucket:         {refill: RefillContinuous},
	TokenBucketInterval: {refill: RefillStepped},
	FixedWindow:         {refill: RefillWindow},
	SlidingLog:          {refill: RefillWindow},
	SlidingWindow:       {refill: RefillWindow},
	LeakyBucket:         {refill: RefillContinuous, queues: true},
}

type algorithmKind struct {
	refill Refill
	queues bool
}

// kind returns a's row of the table; an unknown name has the zero kind.
func (a Algorithm) kind() algorithmKind {
	if a == "" || a == GCRA {
		a = TokenBucket
	}
	return algorithmKinds[a]
}

// Queues reports whether a admits requests with a [Decision.Delay]: a limit of it may have a queue.
func (a Algorithm) Queues() bool { return a.kind().queues }

// Windowed reports whether a counts in windows: a limit of it has no burst.
func (a Algorithm) Windowed() bool { return a.kind().refill == RefillWindow }

// Refill returns how a grants units again.
func (a Algorithm) Refill() Refill { return a.kind().refill }
