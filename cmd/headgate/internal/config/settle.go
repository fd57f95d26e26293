package config

import (
	"bytes"
	"time"
)

// incompleteSettleTime is the time for which changed content that may be incomplete must
// stay unchanged before it takes effect.
const incompleteSettleTime = 5 * time.Second

// Settling delays the effect of files that may be incomplete, because the program that
// writes them may pause at the end of a line. The zero value is ready for use.
type Settling struct {
	content []byte    // last content that must settle; nil if there is none
	since   time.Time // when it was first read
}

// Wait reports whether content that may be incomplete must not take effect yet at the
// time now, and whether it was first read at this time.
func (s *Settling) Wait(content []byte, now time.Time) (wait, first bool) {
	if s.content == nil || !bytes.Equal(s.content, content) {
		s.content, s.since, first = content, now, true
	}
	return now.Sub(s.since) < incompleteSettleTime, first
}

// Done forgets the content, because it has taken effect or was replaced.
func (s *Settling) Done() { *s = Settling{} }

// Again returns the time from now until the content can take effect, or 0 if there is
// none.
func (s *Settling) Again(now time.Time) time.Duration {
	if s.content == nil {
		return 0
	}
	return max(time.Millisecond, incompleteSettleTime-now.Sub(s.since))
}

// IsTruncated reports whether a text may be the beginning of a file that replaces the
// file with the effective text: it is a shorter prefix of that text, or less than half as
// long.
func IsTruncated(text, effective []byte) bool {
	return len(text) < len(effective) && bytes.HasPrefix(effective, text) || len(text) < len(effective)/2
}

// mayBeIncomplete reports whether a file may still be being written. The beginning of a
// file is often valid, but without routes. A file may be incomplete if it is truncated,
// has fewer policies, or has fewer routes than the effective file.
func mayBeIncomplete(next, effective *Config) bool {
	return IsTruncated(next.text, effective.text) ||
		len(next.Policies) < len(effective.Policies) || len(next.Routes) < len(effective.Routes)
}
