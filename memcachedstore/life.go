package memcachedstore

import (
	"math"
	"time"
)

const (
	second    = int64(time.Second / time.Microsecond)
	daySecond = int64(24 * 60 * 60)

	// maxRelative is the longest time that memcached takes as one from now, in seconds: 30 days. More is an instant.
	maxRelative = 30 * daySecond
	// maxAbsolute is the last instant that its protocol can name: 2038-01-19 03:14:07 UTC.
	maxAbsolute = math.MaxInt32
	// spare is for the server's clock, which moves once a second: what is told a second may live for none. One more if it is late.
	spare = 2
)

// expiration is what memcached is told so that a state is there for at least life µs more, as far as its protocol can say that;
// wall is the present in seconds since the epoch. It is never 0, which would mean for ever, and never past. Above 30 days it is an
// instant, which hangs on both clocks, so a day is added for their difference. Nothing can be told to live past January 2038: it
// is kept until then, or from December 2037 on for 30 days after each write.
func expiration(life, wall int64) int32 {
	seconds := max(0, life)/second + 1 + spare
	if seconds <= maxRelative {
		return int32(seconds)
	}
	if at := min(wall+seconds+daySecond, maxAbsolute); at-wall > maxRelative {
		return int32(at)
	}
	return int32(maxRelative)
}

// lifeOf is for how long a state matters, in µs, that is as if never used at until and was written at t. An instant that the
// caller passed in says nothing of the server's clock, by which what it lives for is measured: such states get a day more.
func lifeOf(until, t int64, passedIn bool) int64 {
	life := max(0, until-t)
	if passedIn && until > 0 {
		life += daySecond * second
	}
	return life
}
