package memcachedstore

import (
	"math"
	"time"
)

const (
	microsPerSecond = int64(time.Second / time.Microsecond)
	secondsPerDay   = int64(24 * 60 * 60)

	// maxRelative is the longest expiration, in seconds, that memcached interprets as a
	// duration: 30 days. It interprets a larger number as a Unix time.
	maxRelative = 30 * secondsPerDay
	// maxAbsolute is the last Unix time that the protocol can express: 2038-01-19
	// 03:14:07 UTC.
	maxAbsolute = math.MaxInt32
	// clockSlack is added because the server's clock ticks once a second: an expiration
	// of 1 s may end immediately. One second of it covers that, the other one a late
	// tick.
	clockSlack = 2
)

// expiration returns the expiration, in the form of the protocol, with which a state is
// kept for at least ttl µs as far as the protocol allows. wall is the current Unix time
// in seconds.
//
// The result is never in the past, and never 0, which would mean no expiration. For
// more than 30 days the result is a Unix time. Its effect depends on the clocks of this
// process and of the server, so a day is added for their difference. No key can be kept
// beyond January 2038. A key that must be kept longer expires then; a key that is
// written from December 2037 on expires 30 days after its last write.
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

// requiredTTL returns the time in µs for which the server must keep a state that was
// written at t and is unused from unusedAt on. The server measures the TTL by its own
// clock. If the caller passed the instant t, that instant is independent of the
// server's clock, so the TTL is a day longer.
func requiredTTL(unusedAt, t int64, callerInstant bool) int64 {
	ttl := max(0, unusedAt-t)
	if callerInstant && unusedAt > 0 {
		ttl += secondsPerDay * microsPerSecond
	}
	return ttl
}
