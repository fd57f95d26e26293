package httpfields

import (
	"slices"
	"time"

	"github.com/headgate/headgate/internal/calendar"
)

// A window of the calendar has no fixed length: a month has 28 to 31 days, and a day of a
// time zone has 23 to 25 hours. The fields contain the length of the present window, so
// their text is computed again when a window ends.

// setAt is a set whose text applies in the time from begin to end, in µs since the epoch.
type setAt struct {
	begin, end int64
	set        *Set
}

// calendarOf returns the calendar of a limit, or nil if all windows have the same length.
func calendarOf(l Limit) *calendar.Calendar {
	c := l.Limit.Calendar
	if c.Unit == 0 || !l.Algorithm.HasCalendar() {
		return nil
	}
	windows, err := calendar.New(calendar.Unit(c.Unit), c.Zone, c.From)
	if err != nil {
		panic("httpfields: time zone " + c.Zone + " " + err.Error()) // never happens, because the limit is valid
	}
	return windows
}

// during returns the set with the text that applies at now; the zero value means the
// present. It allocates only in the first call in a window.
func (s *Set) during(w *Writer, now time.Time) *Set {
	if now.IsZero() {
		now = time.Now()
	}
	t := max(0, now.UnixMicro())
	if at := s.at.Load(); at != nil && at.begin <= t && t < at.end {
		return at.set
	}
	at := &setAt{begin: 0, end: 1<<63 - 1, set: &Set{limits: slices.Clone(s.limits), hasDuplicates: s.hasDuplicates, hasUnreported: s.hasUnreported}}
	for i := range at.set.limits {
		l := &at.set.limits[i]
		if l.calendar == nil {
			continue
		}
		begin, end := l.calendar.Window(t)
		at.begin, at.end = max(at.begin, begin), min(at.end, end)
		l.setWindow(l.quota, (end-begin+999_999)/1_000_000)
	}
	at.set.serialize(w)
	s.at.Store(at)
	return at.set
}
