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
