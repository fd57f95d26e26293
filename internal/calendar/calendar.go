// Package calendar computes the windows of a calendar: the hours, days, weeks, months,
// quarters and years of a time zone.
//
// A boundary of a window is a local time, such as 2026-03-29 00:00. The boundary's
// instant is the first one at which the zone's clock shows this local time or a later
// one. So a local time that a clock moved forward skips is the first instant after the
// gap, and of a local time that occurs twice the first occurrence counts. Boundaries in
// this sense never decrease, so the windows have neither gaps nor overlaps in any zone.
//
// Instants are in whole µs since the Unix epoch.
package calendar

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Unit is the length of a window. The values are those of headgate.CalendarUnit.
type Unit uint8

// The units. A quarter begins in January, April, July or October.
const (
	None Unit = iota
	Hour
	Day
	Week
	Month
	Quarter
	Year
)

const (
	second    = int64(1_000_000)
	daySecs   = int64(86_400)
	firstWeek = 4 // days from the epoch, a Thursday, to the first Monday
	// maxShift is above the difference in seconds between any local time and UTC, which
	// is at most 16 hours.
	maxShift = 24 * 3600
	// maxInstant is the latest instant of a window: doubles represent every whole number
	// up to it.
	maxInstant = 1<<53 - 1
)

// Calendar computes windows. It may be used concurrently.
type Calendar struct {
	unit Unit
	// period is the length of all windows in µs if they begin at its multiples; 0 if they
	// are those of a unit.
	period int64
	from   int64 // shift of the first window: seconds of a day, days of a week or a month
	zone   *time.Location

	last           atomic.Pointer[window] // window that was computed last
	lastBoundaries atomic.Pointer[boundaryList]
}

type window struct{ begin, end int64 }

// boundaryList has the result of Boundaries for all instants of a window.
type boundaryList struct {
	window
	boundaries []int64
}

// New returns the calendar of a unit in the zone with the given name; see [Zone]. from
// shifts the start of windows: minutes after midnight for a day, days after Monday for a
// week, days after the 1st for a month. It must be 0 for other units.
func New(unit Unit, zone string, from int) (*Calendar, error) {
	location, err := Zone(zone)
	if err != nil {
		return nil, err
	}
	c := &Calendar{unit: unit, from: int64(from), zone: location}
	if unit == Day {
		c.from *= 60
	}
	return c, nil
}

// Aligned returns the windows that begin at the multiples of a period in µs.
func Aligned(period int64) *Calendar { return &Calendar{period: period} }

// Zone returns the zone with a name of the zone database, such as Europe/Berlin. The
// empty name means UTC. A name that is valid only on some machines, such as Local or a
// path, is an error.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	if location, ok := zones.Load(name); ok {
		return location.(*time.Location), nil
	}
	if strings.EqualFold(name, "UTC") {
		return nil, errors.New("is in capital letters; write UTC")
	}
	if !isName(name) {
		return nil, errors.New("is not a name of the zone database; write a name such as Europe/Berlin")
	}
	location, err := time.LoadLocation(name)
	if err != nil {
		return nil, errors.New("is unknown; write a name such as Europe/Berlin, " +
			"and if the name is right, install tzdata or import time/tzdata")
	}
	zones.Store(strings.Clone(name), location)
	return location, nil
}

// zones has the zones that were loaded, by name. The database has about 600.
var zones sync.Map

// isName reports whether name has the form of a name in the zone database. Local is a
// zone of this machine, and the zones in the folder right count leap seconds.
func isName(name string) bool {
	if len(name) > 64 || slices.Contains([]string{"Local", "localtime", "posixrules", "Factory"}, name) || strings.HasPrefix(name, "right/") || strings.HasPrefix(name, "posix/") {
		return false
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "" || strings.Trim(part, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+-") != "" {
			return false
		}
	}
	return true
}

// Window returns the window [begin, end) that contains t. The start of the window that
// contains the epoch is 0. Window allocates only if t is not in the same window as in the
// previous call.
func (c *Calendar) Window(t int64) (begin, end int64) {
	if w := c.last.Load(); w != nil && w.begin <= t && t < w.end {
		return w.begin, w.end
	}
	begin, end = c.find(t)
	c.last.Store(&window{begin, end})
	return begin, end
}

// Boundaries returns the boundaries of the window before the one that contains t, of that
// window and of the window after it, in ascending order. The first window has no previous
// boundary. The slice must not be modified. Boundaries allocates only if t is not in the
// same window as in the previous call.
func (c *Calendar) Boundaries(t int64) []int64 {
	if e := c.lastBoundaries.Load(); e != nil && e.begin <= t && t < e.end {
		return e.boundaries
	}
	begin, end := c.Window(t)
	var boundaries []int64
	if begin > 0 {
		before, _ := c.find(begin - 1)
		boundaries = append(boundaries, before)
	}
	boundaries = append(boundaries, begin, end)
	if end < maxInstant {
		_, after := c.find(end)
		boundaries = append(boundaries, after)
	}
	c.lastBoundaries.Store(&boundaryList{window{begin, end}, boundaries})
	return boundaries
}

// Longest returns an upper bound on the length of a window in µs.
func (c *Calendar) Longest() int64 {
	if c.period > 0 {
		return c.period
	}
	days := [...]int64{Hour: 1, Day: 1, Week: 7, Month: 31, Quarter: 92, Year: 366}[c.unit]
	return (days + 2) * daySecs * second // at most 32 hours of shifts
}

// Shortest returns a lower bound on the time in µs between the starts of a window and of
// the n-th window after it.
func (c *Calendar) Shortest(n int64) int64 {
	length, shifts := c.period, int64(0)
	if length == 0 {
		days := [...]int64{Day: 1, Week: 7, Month: 28, Quarter: 90, Year: 365}[c.unit]
		length = days * daySecs * second
		if c.unit == Hour {
			length = 3600 * second
		}
		shifts = 32 * 3600 * second // between the lowest and the highest difference from UTC
	}
	if n > maxInstant/length {
		return maxInstant
	}
	return max(0, n*length-shifts)
}

// find computes the window that contains t. The local time at t gives a first guess; near
// a change of the clock it can be wrong by some windows.
func (c *Calendar) find(t int64) (begin, end int64) {
	if c.period > 0 {
		begin = t - t%c.period
		return begin, min(begin+c.period, maxInstant)
	}
	at := floorDiv(t, second)
	_, shift := time.Unix(at, 0).In(c.zone).Zone()
	n := c.number(at + int64(shift))
	for c.boundary(n)*second > t {
		n--
	}
	next := c.boundary(n + 1)
	for next*second <= t {
		n++
		next = c.boundary(n + 1)
	}
	return max(0, c.boundary(n)*second), min(next*second, maxInstant)
}

// number returns the number of the window in which the local time is, in local seconds
// since 1970-01-01 00:00. It may be too high by one.
func (c *Calendar) number(local int64) int64 {
	days := floorDiv(local, daySecs)
	switch c.unit {
	case Hour:
		return floorDiv(local, 3600)
	case Day:
		return floorDiv(local-c.from, daySecs)
	case Week:
		return floorDiv(days-firstWeek-c.from, 7)
	}
	year, month, _ := time.Unix(days*daySecs, 0).UTC().Date()
	switch c.unit {
	case Month:
		return int64(year)*12 + int64(month) - 1
	case Quarter:
		return int64(year)*4 + (int64(month)-1)/3
	default:
		return int64(year)
	}
}

// boundary returns the Unix time in seconds at which window n begins.
func (c *Calendar) boundary(n int64) int64 { return c.firstAt(c.local(n)) }

// local returns the local time at which window n begins, in local seconds since
// 1970-01-01 00:00.
func (c *Calendar) local(n int64) int64 {
	switch c.unit {
	case Hour:
		return n * 3600
	case Day:
		return n*daySecs + c.from
	case Week:
		return (n*7 + firstWeek + c.from) * daySecs
	case Month:
		first, next := dateSeconds(0, n), dateSeconds(0, n+1)
		return min(first+c.from*daySecs, next-daySecs)
	case Quarter:
		return dateSeconds(0, n*3)
	default:
		return dateSeconds(n, 0)
	}
}

// dateSeconds returns the seconds from 1970-01-01 to the first day of a month, which is
// counted from January of the year.
func dateSeconds(year, month int64) int64 {
	return time.Date(int(year), time.Month(month+1), 1, 0, 0, 0, 0, time.UTC).Unix()
}

// firstAt returns the first Unix time in seconds at which the zone's clock shows local or
// later. Between two changes of the clock the difference from UTC is constant.
func (c *Calendar) firstAt(local int64) int64 {
	from := local - maxShift // the clock shows an earlier time here and before
	for {
		at := time.Unix(from, 0).In(c.zone)
		_, shift := at.Zone()
		first := max(from, local-int64(shift))
		_, bound := at.ZoneBounds()
		end := bound.Unix()
		if !bound.IsZero() && end <= from {
			end = from + 3600 // on the last day of a leap year, ZoneBounds returns an earlier time
		}
		if bound.IsZero() || first < end {
			return first
		}
		from = end
	}
}

func floorDiv(a, b int64) int64 {
	q := a / b
	if q*b > a {
		q--
	}
	return q
}
