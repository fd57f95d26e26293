// Package micros converts microseconds, the unit of all state, to durations.
package micros

import "time"

// Duration returns us microseconds. It is exact for every wait that an accepted limit can
// give.
func Duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
