package rlsapi

import "time"

// exactInterval is the minimum time between two exact calculations in waitingSince. In
// between, waitingSince returns its last result, which may be earlier than the exact
// time.
const exactInterval = 100 * time.Millisecond

// maxProgress is the maximum time for which a client that sends bytes does not count as
// slow although it has not completed a request. The frames of many long requests are
// interleaved, so that each of them takes a long time.
const maxProgress = 5 * time.Second

// slowSince returns the time since which the client has sent nothing, or has not
// completed a request for maxProgress.
func (c *connection) slowSince(now time.Time) time.Time {
	since := c.waitingSince(now)
	latest := since.Add(maxProgress)
	if c.lastRead.Before(latest) {
		latest = c.lastRead
	}
	if since.Before(latest) {
		return latest
	}
	return since
}

// waitingSince returns the time since which the connection waits for its client.
func (c *connection) waitingSince(now time.Time) time.Time {
	switch {
	case c.since.IsZero():
		c.since, c.exactAt = now, now
	case now.Sub(c.exactAt) >= exactInterval:
		read, write := c.oldest()
		c.since, c.exactAt = earliest(read, write), now
	}
	return c.since
}

// oldest returns the times since which the connection waits for the rest of a request,
// and for the client to read a response. A zero time means that it does not wait.
func (c *connection) oldest() (read, write time.Time) {
	read, write = c.partial, c.writing
	for _, s := range c.streams {
		if s.reading() {
			read = earliest(read, s.readSince)
		}
		if s.writing() {
			write = earliest(write, s.writeSince)
		}
	}
	return read, write
}

// earliest returns the earlier of two times; a zero time does not count.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// arm makes check run at the given time at the latest.
func (c *connection) arm(at time.Time) {
	if !c.closed && (c.checkAt.IsZero() || at.Before(c.checkAt)) {
		c.checkAt = at
		c.timer.Reset(time.Until(at))
	}
}

// check closes the connection if a timeout has passed. Otherwise it sets the timer for
// the next timeout, if there is one.
func (c *connection) check() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.checkAt = time.Time{}
	now := time.Now()
	read, write := c.oldest()
	if c.blocked {
		read = time.Time{} // awaitRoom sets the timer again
	}
	for _, one := range []struct {
		since   time.Time
		timeout time.Duration
	}{{read, c.limits.read}, {write, c.limits.write}} {
		if one.since.IsZero() {
			continue
		}
		end := one.since.Add(one.timeout)
		if !end.After(now) {
			_ = c.raw.Close() // the reading goroutine of package grpc ends the connection
			return
		}
		c.arm(end)
	}
}
