package headgate_test

import (
	"testing"

	"github.com/headgate/headgate"
)

func TestAlgorithmProperties(t *testing.T) {
	type kind struct {
		refill                       headgate.Refill
		windowed, queues, canReserve bool
	}
	bucket := kind{refill: headgate.RefillContinuous, canReserve: true}
	window := kind{refill: headgate.RefillWindow, windowed: true}
	for a, want := range map[headgate.Algorithm]kind{
		"": bucket, headgate.TokenBucket: bucket, headgate.GCRA: bucket,
		headgate.TokenBucketInterval: {refill: headgate.RefillStepped, canReserve: true},
		headgate.FixedWindow:         window, headgate.SlidingLog: window, headgate.SlidingWindow: window,
		headgate.LeakyBucket: {refill: headgate.RefillContinuous, canReserve: true, queues: true},
		"no such thing":      {refill: headgate.RefillUnknown},
	} {
		if got := (kind{a.Refill(), a.Windowed(), a.Queues(), a.CanReserve()}); got != want {
			t.Errorf("%q: got %+v want %+v", a, got, want)
		}
	}
}
