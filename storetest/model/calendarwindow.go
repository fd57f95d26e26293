package model

import (
	"fmt"
	"sync"
	"time"
	_ "time/tzdata" // so that the tests of a store do not depend on the machine

	"github.com/headgate/headgate"
)

// calendarWindow counts the units that were spent in the current window. A window is
// identified by its start.
type calendarWindow struct {
	begin    int64 // begin of the current window, in µs
	count    int64
	limit    int64 // units in a window: L
	period   int64 // length of a window in µs, if there is no calendar
	calendar headgate.Calendar
}

func (w *calendarWindow) clone() state {
	c := *w
	return &c
}

// carry keeps the count under the new limit. It does not count if the window of the new
// limit has another start.
func (w *calendarWindow) carry(l headgate.Limit, _ int64) {
	w.limit, w.period, w.calendar = l.Rate, l.Period.Microseconds(), l.Calendar
}

// advance starts the window that contains t. If the clock has gone backwards, the current
// window stays, because its count must not be forgotten.
func (w *calendarWindow) advance(t int64) {
	if begin, _ := w.window(t); w.count == 0 || w.begin != begin && w.begin <= t {
		w.begin, w.count = begin, 0
	}
}

func (w *calendarWindow) capacity() int64 { return w.limit }

func (w *calendarWindow) admits(_, n int64) bool { return w.count+n <= w.limit }

func (w *calendarWindow) spend(_, n int64) { w.count += n }

func (w *calendarWindow) refund(_, n int64) { w.count -= min(n, w.count) }

func (w *calendarWindow) remaining(int64) int64 { return max(0, w.limit-w.count) }

// admittedAt returns the end of the current window. A window of another calendar is
// replaced at its start, which is after t.
func (w *calendarWindow) admittedAt(int64, int64) int64 {
	begin, end := w.window(w.begin)
	if begin != w.begin {
		return w.begin
	}
	return end
}

func (w *calendarWindow) unusedAt(t int64) int64 {
	if w.count == 0 {
		return t
	}
	return w.admittedAt(t, 0)
}

func (w *calendarWindow) delay(int64) int64 { return 0 }

func (w *calendarWindow) text() string {
	if w.count == 0 {
		return "unused"
	}
	return fmt.Sprintf("%d in the window from %d", w.count, w.begin)
}

// window returns the window that contains t.
func (w *calendarWindow) window(t int64) (begin, end int64) {
	if w.calendar.Unit == 0 {
		begin = t / w.period * w.period
		return begin, begin + w.period
	}
	return calendarAt(w.calendar, t)
}

// calendarAt returns the window of c that contains t, in µs. It looks at the edges near
// t, from the earliest one, until an edge is after t.
func calendarAt(c headgate.Calendar, t int64) (begin, end int64) {
	zone := zoneOf(c.Zone)
	local := time.UnixMicro(t).In(zone)
	for n := -2; ; n++ {
		edge := firstShowing(zone, edgeOf(c, local, n)) * 1_000_000
		if edge > t {
			return max(0, begin), edge
		}
		begin = edge
	}
}

// zones has the time zones that were loaded, by name.
var zones sync.Map

func zoneOf(name string) *time.Location {
	if zone, ok := zones.Load(name); ok {
		return zone.(*time.Location)
	}
	zone, err := time.LoadLocation(name)
	if err != nil {
		panic("model: " + err.Error()) // a mistake in a test
	}
	zones.Store(name, zone)
	return zone
}

// edgeOf returns the local time at which a window begins, as a time in UTC. Window 0 is
// near the local time.
func edgeOf(c headgate.Calendar, local time.Time, n int) time.Time {
	year, month, day := local.Date()
	switch c.Unit {
	case headgate.CalendarHour:
		return time.Date(year, month, day, local.Hour()+n, 0, 0, 0, time.UTC)
	case headgate.CalendarDay:
		return time.Date(year, month, day+n, 0, c.From, 0, 0, time.UTC)
	case headgate.CalendarWeek:
		monday := day - (int(local.Weekday())+6)%7
		return time.Date(year, month, monday+7*n+c.From, 0, 0, 0, 0, time.UTC)
	case headgate.CalendarMonth:
		last := time.Date(year, month+time.Month(n)+1, 0, 0, 0, 0, 0, time.UTC)
		return time.Date(year, month+time.Month(n), min(c.From+1, last.Day()), 0, 0, 0, 0, time.UTC)
	case headgate.CalendarQuarter:
		return time.Date(year, (month-1)/3*3+1+time.Month(3*n), 1, 0, 0, 0, 0, time.UTC)
	default:
		return time.Date(year+n, 1, 1, 0, 0, 0, 0, time.UTC)
	}
}

// firstShowing returns the first Unix time in seconds at which the clock of the zone
// shows the local time or a later one. It looks at each hour, and at each second of an
// hour in which the clock changes.
func firstShowing(zone *time.Location, local time.Time) int64 {
	const near = 36 * 3600
	want := local.Unix()
	shown := func(at int64) int64 {
		_, offset := time.Unix(at, 0).In(zone).Zone()
		return at + int64(offset)
	}
	for at := want - near; ; at += 3600 {
		begin, end := shown(at), shown(at+3600)
		if end-begin == 3600 {
			if begin <= want && want <= end {
				return at + want - begin
			}
			continue
		}
		for second := at; second <= at+3600; second++ {
			if shown(second) >= want {
				return second
			}
		}
	}
}
