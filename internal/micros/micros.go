// Package micros converts microseconds, the time unit of all states, to durations, and
// has the sum that does not overflow.
package micros

import (
	"math"
	"time"
)

// Duration returns a duration of us microseconds. It is exact for every wait that an
// accepted limit can cause.
func Duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }

// SaturatingAdd returns a + b, or [math.MaxInt64] if the sum is larger. Neither number
// may be negative.
func SaturatingAdd(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
