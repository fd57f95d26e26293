package algo_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

func at(t *testing.T, text string) int64 {
	t.Helper()
	instant, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return instant.UnixMicro()
}

// A limit with a calendar or with a period: the start and the end of the window that
// contains an instant.
func TestCalendarWindowBeginAndEnd(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ limit, at, begin, end string }{
		{"9/month", "2026-02-10T12:00:00Z", "2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"},
		{"9/quarter", "2026-02-10T12:00:00Z", "2026-01-01T00:00:00Z", "2026-04-01T00:00:00Z"},
		{"9/year", "2026-02-10T12:00:00Z", "2026-01-01T00:00:00Z", "2027-01-01T00:00:00Z"},
		{"9/week", "2026-02-10T12:00:00Z", "2026-02-09T00:00:00Z", "2026-02-16T00:00:00Z"},
		{"9/week from monday", "2026-02-10T12:00:00Z", "2026-02-09T00:00:00Z", "2026-02-16T00:00:00Z"},
		{"9/1w", "2026-02-10T12:00:00Z", "2026-02-05T00:00:00Z", "2026-02-12T00:00:00Z"},
		{"9/w", "2026-02-10T12:00:00Z", "2026-02-05T00:00:00Z", "2026-02-12T00:00:00Z"},
		{"9/7d", "2026-02-10T12:00:00Z", "2026-02-05T00:00:00Z", "2026-02-12T00:00:00Z"},
		{"9/day", "2026-02-10T12:00:00Z", "2026-02-10T00:00:00Z", "2026-02-11T00:00:00Z"},
		{"9/hour", "2026-02-10T12:30:00Z", "2026-02-10T12:00:00Z", "2026-02-10T13:00:00Z"},
		{"9/day in America/New_York", "2026-03-08T12:00:00Z", "2026-03-08T05:00:00Z", "2026-03-09T04:00:00Z"},
		{"9/day in Europe/Berlin from 06:00", "2026-02-10T04:59:59Z", "2026-02-09T05:00:00Z", "2026-02-10T05:00:00Z"},
		{"9/hour in Asia/Kolkata", "2026-02-10T12:00:00Z", "2026-02-10T11:30:00Z", "2026-02-10T12:30:00Z"},
		{"9/month from 15", "2026-02-10T12:00:00Z", "2026-01-15T00:00:00Z", "2026-02-15T00:00:00Z"},
		{"9/month from 31", "2026-02-10T12:00:00Z", "2026-01-31T00:00:00Z", "2026-02-28T00:00:00Z"},
		{"9/month from 29", "2028-02-29T12:00:00Z", "2028-02-29T00:00:00Z", "2028-03-29T00:00:00Z"},
	} {
		k := keyOf(t, headgate.CalendarWindow, c.limit)
		now := at(t, c.at)
		k.take(now, 9)
		if got, want := k.state.A, at(t, c.begin); got != want {
			t.Errorf("%s at %s: the window begins at %v want %s", c.limit, c.at, headgate.Instant(got).Time(), c.begin)
		}
		if got, want := k.take(now, 1).RetryAfter.Microseconds(), at(t, c.end)-now; got != want {
			t.Errorf("%s at %s: got retry_after %d want %d, until %s", c.limit, c.at, got, want, c.end)
		}
		if !k.allows(at(t, c.end), 9) || k.allows(at(t, c.end)-1, 1) {
			t.Errorf("%s at %s: the units are not available again exactly at %s", c.limit, c.at, c.end)
		}
	}
}

// A changed limit keeps the count; a changed zone or start begins a new window.
func TestChangedCalendarBeginsNewWindow(t *testing.T) {
	t.Parallel()
	now := at(t, "2026-02-10T12:00:00Z")
	for _, c := range []struct {
		from, to string
		left     int64
	}{
		{"10/month", "20/month", 14},
		{"10/month", "5/month", 0},
		{"10/month", "10/month in Europe/Berlin", 10},
		{"10/month", "10/month from 2", 10},
		{"10/month", "10/day", 10},
		{"10/day in America/New_York", "10/day in America/Detroit", 4}, // the same window
		{"10/week", "10/week from sunday", 10},
		{"10/1d", "10/day in UTC", 4},
	} {
		k := keyOf(t, headgate.CalendarWindow, c.from)
		k.take(now, 6)
		k.setLimit(headgate.MustParseLimit(c.to))
		if got := k.remaining(now); got != c.left {
			t.Errorf("6 of %s, then %s: got %d remaining want %d", c.from, c.to, got, c.left)
		}
	}
}

func TestOtherAlgorithmsRefuseCalendars(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		for limit, nearest := range map[string]string{"5/month": "write 30d", "5/day in Asia/Tokyo": "write 24h", "5/week from sunday": "write 7d", "5/year": "write 365d"} {
			err := a.Check(headgate.MustParseLimit(limit))
			var e *headgate.LimitError
			if a.Name.HasCalendar() {
				if err != nil {
					t.Errorf("%s: got error %v want none", limit, err)
				}
			} else if !errors.As(err, &e) || e.Field != "period" || !strings.Contains(e.Bound, nearest) || !strings.Contains(e.Bound, "calendar_window") {
				t.Errorf("%s: got error %v want one with %q", limit, err, nearest)
			}
		}
		if err := a.Check(headgate.MustParseLimit("5/week")); err != nil {
			t.Errorf("5/week: got error %v want none", err)
		}
	})
}
