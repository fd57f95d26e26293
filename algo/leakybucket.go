package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
)

//go:embed leakybucket.lua
var queueLua string

// leakyBucketLua returns the text of the token bucket followed by that of the leaky
// bucket.
func leakyBucketLua() string { return LuaLocal("bucket", tokenBucketLua) + queueLua }

// newLeakyBucket returns a queue that drains at L per P and in which Q units may wait.
// It is the token bucket with B = Q + 1. Its decisions contain how long to delay a
// request, so that requests are evenly spaced.
func newLeakyBucket(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.LeakyBucket); err != nil {
		return nil, err
	}
	return makeBucket(l, true), nil
}
