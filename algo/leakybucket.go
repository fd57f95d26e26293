package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
)

//go:embed leakybucket.lua
var queueLua string

// leakyBucketLua returns the Lua text of the token bucket, followed by the text of the
// leaky bucket.
func leakyBucketLua() string { return LuaLocal("bucket", tokenBucketLua) + queueLua }

// newLeakyBucket returns a leaky bucket: a queue that drains at L units per P and in
// which Q units may wait. The arithmetic is that of the token bucket with B = Q + 1.
// Its decisions contain a delay, so that requests proceed evenly spaced.
func newLeakyBucket(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.LeakyBucket); err != nil {
		return nil, err
	}
	return makeBucket(l, true), nil
}
