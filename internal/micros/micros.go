// Package micros converts microseconds, the time unit of all states, to durations.
package micros

import "time"

// Duration returns a duration of us microseconds. It is exact for every wait that an
// accepted limit can cause.
func Duration(us int64) time.Duration { return time.Duration(us) * time.Microsecond }
