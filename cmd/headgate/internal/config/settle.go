package config

import (
	"bytes"
	"time"
)

// incompleteSettleTime is the time for which a changed file that may be incomplete must
// stay unchanged before it takes effect.
const incompleteSettleTime = 5 * time.Second

// pending is a valid file that has not taken effect, because it may be incomplete.
type pending struct {
	text  []byte
	since time.Time // when text was first read
}

// mayBeIncomplete reports whether a file may still be being written. The program that
// writes it may pause at the end of a line, and the beginning of a file is often valid,
// but without routes. A file may be incomplete if at least one of these is true: its
// text is a shorter prefix of the effective file's text, it is less than half as long
// as the effective file, it has fewer policies, or it has fewer routes.
func mayBeIncomplete(next, effective *Config) bool {
	return len(next.text) < len(effective.text) && bytes.HasPrefix(effective.text, next.text) ||
		len(next.text) < len(effective.text)/2 ||
		len(next.Policies) < len(effective.Policies) || len(next.Routes) < len(effective.Routes)
}

// mustSettle reports whether the file of c must not take effect yet at the time now,
// and whether the file was first read at this time.
func (l *Live) mustSettle(c *Config, now time.Time) (wait, first bool) {
	if !mayBeIncomplete(c, l.current) {
		return false, false
	}
	if !bytes.Equal(l.pending.text, c.text) {
		l.pending, first = pending{c.text, now}, true
	}
	return now.Sub(l.pending.since) < incompleteSettleTime, first
}

// untilSettled returns the time from now until a pending file can take effect, or 0 if
// there is none.
func (l *Live) untilSettled(now time.Time) time.Duration {
	if l.pending.text == nil {
		return 0
	}
	return max(time.Millisecond, incompleteSettleTime-now.Sub(l.pending.since))
}
