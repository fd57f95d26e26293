package headgate

import (
	"fmt"
	"strconv"
	"time"

	"github.com/headgate/headgate/internal/calendar"
)

// Calendar describes the windows of a limit under [CalendarWindow], for example the days
// of a time zone. The zero value means that the limit has a period instead.
//
// [ParseLimit] sets both Period (7 days) and Unit (CalendarWeek) for “10000/week”.
// CalendarWindow uses the Unit: weeks in UTC that begin on Monday. All other algorithms
// use the Period. Hours and days in UTC are equal in both, so “hour” and “day” set only
// the Period.
type Calendar struct {
	// Unit is the length of a window.
	Unit CalendarUnit
	// Zone is the name of a time zone in the zone database, such as Europe/Berlin. Empty
	// means UTC.
	Zone string
	// From shifts the start of the windows: 0 to 1439 minutes after midnight for a day, 0
	// to 6 days after Monday for a week, 0 to 30 days after the 1st for a month. In a
	// month without that day, the window begins on its last day. From must be 0 for other
	// units.
	From int
}

// CalendarUnit is the length of a window of the calendar. The zero value means none.
type CalendarUnit uint8

// The values of [CalendarUnit]. A quarter begins in January, April, July or October.
const (
	CalendarHour CalendarUnit = iota + 1
	CalendarDay
	CalendarWeek
	CalendarMonth
	CalendarQuarter
	CalendarYear
)

var calendarNames = [...]string{"", "hour", "day", "week", "month", "quarter", "year"}

// weekdays begins with Monday, the first day of a week.
var weekdays = [...]string{"monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"}

// maxFrom is the maximum of From for each unit.
var maxFrom = [...]int{CalendarDay: 1439, CalendarWeek: 6, CalendarMonth: 30, CalendarYear: 0}

// String returns the name of the unit: hour, day, week, month, quarter or year, or "" for
// the zero value.
func (u CalendarUnit) String() string {
	if int(u) < len(calendarNames) {
		return calendarNames[u]
	}
	return "unknown"
}

// text returns c as it is written after the slash of a limit.
func (c Calendar) text() string {
	text := c.Unit.String()
	switch {
	case c.Zone != "":
		text += " in " + c.Zone
	case c.Unit < CalendarMonth && c.From == 0:
		text += " in UTC" // without it, the word is also a period
	}
	if c.From == 0 {
		return text
	}
	switch c.Unit {
	case CalendarDay:
		return text + fmt.Sprintf(" from %02d:%02d", c.From/60, c.From%60)
	case CalendarWeek:
		return text + " from " + weekdays[c.From]
	default:
		return text + " from " + strconv.Itoa(c.From+1)
	}
}

// isOnlyCalendar reports whether the limit has no period, so that only an algorithm
// with a calendar accepts it.
func (l Limit) isOnlyCalendar() bool { return l.Calendar.Unit != 0 && l.Period == 0 }

// week is the period of a limit such as “10000/week”.
const week = 7 * 24 * time.Hour

// validateCalendar returns an error for a limit with a calendar that is invalid or has
// fields that only a limit with a period has.
func (l Limit) validateCalendar() error {
	c := l.Calendar
	switch {
	case c.Unit == 0 || c.Unit > CalendarYear:
		return &LimitError{"calendar unit", strconv.Itoa(int(c.Unit)), "must be CalendarHour to CalendarYear"}
	case c.From < 0 || c.From > maxFrom[c.Unit]:
		bound := fmt.Sprintf("must be 0 to %d for a %s", maxFrom[c.Unit], c.Unit)
		return &LimitError{"calendar start", strconv.Itoa(c.From), bound}
	case l.Period == week && c == Calendar{Unit: CalendarWeek}:
		return nil
	case l.Period != 0:
		return &LimitError{"period", l.Period.String(), "must be 0 for a limit with a calendar"}
	case l.Burst != 0:
		return &LimitError{"burst", strconv.FormatInt(l.Burst, 10), "must be 0 for a limit with a calendar"}
	case l.Queue != 0:
		return &LimitError{"queue", strconv.FormatInt(l.Queue, 10), "must be 0 for a limit with a calendar"}
	}
	if _, err := calendar.Zone(c.Zone); err != nil {
		return &LimitError{"time zone", strconv.Quote(clip(c.Zone)), err.Error()}
	}
	return nil
}
