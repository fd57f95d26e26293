package algo

import (
	_ "embed"

	"github.com/headgate/headgate"
)

//go:embed leakybucket.lua
var queueLua string

// leakyBucketLua is the token bucket's text and what makes a queue of it.
func leakyBucketLua() string { return LuaLocal("bucket", tokenBucketLua) + queueLua }

// newLeakyBucket makes a queue that drains at L per P and in which Q may wait: the bucket with B = Q + 1, whose answers say how
// long to hold a request, so that what goes out is evenly spaced.
func newLeakyBucket(l headgate.Limit) (Stepper, error) {
	if err := validate(l, headgate.LeakyBucket); err != nil {
		return nil, err
	}
	return makeBucket(l, true), nil
}
