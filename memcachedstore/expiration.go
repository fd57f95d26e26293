package memcachedstore

import (
	"math"
	"time"
)

const (
	microsPerSecond = int64(time.Second / time.Microsecond)
	secondsPerDay   = int64(24 * 60 * 60)

	// maxRelative is the longest expiration in seconds that memcached takes as
	// relative: 30 days. A larger number is an instant.
	maxRelative = 30 * secondsPerDay
	// maxAbsolute is the last instant of the protocol: 2038-01-19 03:14:07 UTC.
	maxAbsolute = math.MaxInt32
	// clockSlack is added for the server's clock, which ticks once a second: an
	// expiration of 1 s may end immediately. The other second covers a late tick.
	clockSlack = 2
)

// expiration returns the expiration to send, so that a state is kept for at least ttl
// µs as far as the protocol allows. wall is the current time in seconds since the
// epoch.
//
// The result is never in the past, and never 0, which would mean no expiration. Above
// 30 days it is an instant, which depends on both clocks, so a day is added for their
// difference. No key can be kept beyond January 2038: it is kept until then, or from
// December 2037 on for 30 days after each write.
func expiration(ttl, wall int64) int32 {
	seconds := max(0, ttl)/microsPerSecond + 1 + clockSlack
	if seconds <= maxRelative {
		return int32(seconds)
	}
	if at := min(wall+seconds+secondsPerDay, maxAbsolute); at-wall > maxRelative {
		return int32(at)
	}
	return int32(maxRelative)
}

// requiredTTL returns for how long, in µs, a state must be kept that is unused at
// unusedAt and was written at t. The server measures the TTL by its own clock. If the
// caller passed the instant, it is independent of that clock, so the TTL is a day
// longer.
func requiredTTL(unusedAt, t int64, callerInstant bool) int64 {
	ttl := max(0, unusedAt-t)
	if callerInstant && unusedAt > 0 {
		ttl += secondsPerDay * microsPerSecond
	}
	return ttl
}
