package algo

import (
	_ "embed"
	"slices"
	"sort"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

//go:embed slidinglog.lua
var slidingLogLua string

// Log is the state of a sliding log: the instants at which units were spent, oldest
// first. Units that were spent at the same instant share an entry. The zero value is
// the state of an unused key.
type Log struct {
	entries []LogEntry // the entries before index head have aged out
	head    int
	base    int64 // running total of all units before the entry at head
	saved   int64 // entries before this instant have not changed since MarkSaved
}

// LogEntry is an instant at which units were spent. Total is the running total of units
// up to and including this entry. Because of it, a binary search finds in O(log n) the
// instant at which enough units have aged out.
type LogEntry struct{ At, Total int64 }

// slidingLog counts a unit that was spent at t₀ as long as t − t₀ < P.
type slidingLog struct{ limit, period int64 }

func newSlidingLog(l headgate.Limit) (LogStepper, error) {
	if err := validate(l, headgate.SlidingLog); err != nil {
		return nil, err
	}
	return &slidingLog{limit: l.Rate, period: periodMicros(l)}, nil
}

// Take allows a request if and only if counted + n ≤ L. It never inserts an entry
// before the newest one: if the clock goes back, the units are added at the newest
// instant.
func (w *slidingLog) Take(log *Log, t, n int64, room bool) bool {
	if n == 0 {
		return true
	}
	if !w.Fits(log, t, n) {
		return false
	}
	log.age(t - w.period)
	log.add(t, n, room)
	return true
}

// Fits reports whether Take would allow the request: counted + n ≤ L.
func (w *slidingLog) Fits(log *Log, t, n int64) bool {
	_, counted := log.since(t - w.period)
	return n == 0 || n <= w.limit-counted
}

// ResetAt returns the instant at which the newest entry has aged out.
func (w *slidingLog) ResetAt(log *Log) int64 {
	if log.Len() == 0 {
		return 0
	}
	return log.newest() + w.period
}

// Answer calculates retry_after, the wait until enough of the oldest units have aged
// out, and reset_after, the wait until the newest entry has aged out.
func (w *slidingLog) Answer(log *Log, t, asked int64, allowed bool) headgate.Decision {
	aged, counted := log.since(t - w.period)
	d := headgate.Decision{Allowed: allowed, Limit: w.limit, Remaining: max(0, w.limit-counted)}
	if counted > 0 {
		d.ResetAfter = micros.Duration(log.newest() + w.period - t)
	}
	switch {
	case allowed:
	case asked > w.limit:
		return never(d)
	default:
		d.RetryAfter = micros.Duration(log.spentBy(aged+counted+asked-w.limit) + w.period - t)
	}
	return d
}

// Refund removes n units, beginning with the newest entry. A binary search finds the
// newest entry that remains.
func (w *slidingLog) Refund(log *Log, t, n int64) {
	if n == 0 {
		return
	}
	log.age(t - w.period)
	left := log.Counted() - n
	if left <= 0 {
		log.entries, log.saved = log.entries[:log.head], 0
		return
	}
	last := log.find(left)
	log.changedAt(log.entries[last].At)
	log.entries = log.entries[:last+1]
	log.entries[last].Total = log.base + left
}

// Undo removes n units from the entry with the instant at. It does nothing if there is
// no such entry with at least n units.
func (w *slidingLog) Undo(log *Log, at, n int64) {
	if i := log.entryAt(at); i >= 0 && log.unitsOf(i) >= n {
		log.remove(i, n)
	}
}

// Charge adds n units to the log, which counts at most 2^30 − 1 units.
func (w *slidingLog) Charge(log *Log, t, n int64, room bool) {
	if n == 0 {
		return
	}
	log.age(t - w.period)
	if n = min(n, maxCount-log.Counted()); n > 0 {
		log.add(t, n, room)
	}
}

// Correct removes up to n units from the entry with the instant at, if that still counts.
func (w *slidingLog) Correct(log *Log, t, at, n int64) {
	if i := log.entryAt(at); i >= 0 && at > t-w.period {
		log.remove(i, min(n, log.unitsOf(i)))
	}
}

// Spacing returns floor(n/L) periods, as the lower bound of [Stepper.Spacing]. The first
// waiting caller has already spent units in the period in which it is served, so at
// least floor(n/L) further periods must pass before n further units are available.
func (w *slidingLog) Spacing(n int64) int64 {
	return min(saturatingMul(n/w.limit, w.period), maxExact)
}

// Params returns L and P.
func (w *slidingLog) Params() []int64 { return []int64{w.limit, w.period} }

// Counted returns the number of units in the log, including units that have aged out
// but were not yet removed.
func (log *Log) Counted() int64 {
	if log.Len() == 0 {
		return 0
	}
	return log.entries[len(log.entries)-1].Total - log.base
}

// Len returns the number of entries that were not removed.
func (log *Log) Len() int { return len(log.entries) - log.head }

// Cap returns the number of entries for which memory is allocated.
func (log *Log) Cap() int { return cap(log.entries) }

// Full reports whether adding an entry would need more memory.
func (log *Log) Full() bool {
	return len(log.entries) == cap(log.entries) && log.head < max(1, len(log.entries)/2)
}

// Units calls yield with the instant and the units of each entry, oldest first.
func (log *Log) Units(yield func(at, units int64) bool) {
	for i := log.head; i < len(log.entries); i++ {
		if !yield(log.entries[i].At, log.unitsOf(i)) {
			return
		}
	}
}

// entryAt returns the index of the entry with the instant at, or -1.
func (log *Log) entryAt(at int64) int {
	i := log.head + log.agedOut(at) - 1 // index of the last entry that is not later than at
	if i < log.head || log.entries[i].At != at {
		return -1
	}
	return i
}

// unitsOf returns the units of the entry with index i.
func (log *Log) unitsOf(i int) int64 { return log.entries[i].Total - log.totalBefore(i) }

// remove removes n units of the entry with index i, and the entry itself if it is empty.
func (log *Log) remove(i int, n int64) {
	log.changedAt(log.entries[i].At)
	emptied := log.unitsOf(i) == n
	if emptied && i == log.head {
		log.age(log.entries[i].At)
		return
	}
	for j := i; j < len(log.entries); j++ {
		log.entries[j].Total -= n
	}
	if emptied {
		log.entries = slices.Delete(log.entries, i, i+1)
	}
}

// Append adds an entry of units spent at the instant at, which must not be before the
// newest entry. Use it to restore the entries that Units yielded.
func (log *Log) Append(at, units int64) { log.add(at, units, true) }

// Clone returns a copy of the log.
func (log *Log) Clone() *Log {
	c := *log
	c.entries = slices.Clone(log.entries)
	return &c
}

// Clear removes all entries. It keeps their memory for later entries.
func (log *Log) Clear() { *log = Log{entries: log.entries[:0]} }

func (log *Log) newest() int64 { return log.entries[len(log.entries)-1].At }

func (log *Log) totalBefore(i int) int64 {
	if i == log.head {
		return log.base
	}
	return log.entries[i-1].Total
}

// agedOut returns the number of entries whose instants are not later than the parameter
// before.
func (log *Log) agedOut(before int64) int {
	held := log.entries[log.head:]
	if len(held) == 0 || held[0].At > before {
		return 0
	}
	return sort.Search(len(held), func(i int) bool { return held[i].At > before })
}

// since returns the number of units that were spent up to and including the instant
// before, and the number spent later. It does not remove the older entries from the
// log, because after a peek there may be a request at an earlier instant.
func (log *Log) since(before int64) (aged, counted int64) {
	if n := log.agedOut(before); n > 0 {
		aged = log.entries[log.head+n-1].Total - log.base
	}
	return aged, log.Counted() - aged
}

// age removes the entries whose instants are not later than the parameter before.
func (log *Log) age(before int64) {
	n := log.agedOut(before)
	if n == 0 {
		return
	}
	log.base = log.entries[log.head+n-1].Total
	if log.head += n; log.head == len(log.entries) {
		log.entries, log.head, log.base = log.entries[:0], 0, 0
	}
}

func (log *Log) add(t, n int64, room bool) {
	last := len(log.entries) - 1
	if log.Len() > 0 && (t <= log.entries[last].At || !room) {
		log.changedAt(log.entries[last].At)
		log.entries[last].At = max(t, log.entries[last].At)
		log.entries[last].Total += n
		return
	}
	log.changedAt(t)
	total := log.base + log.Counted() + n
	if len(log.entries) == cap(log.entries) && log.head > 0 && (log.head >= len(log.entries)/2 || !room) {
		// Each entry is moved at most once per entry that has aged out.
		live := copy(log.entries, log.entries[log.head:])
		log.entries, log.head = log.entries[:live], 0
	}
	log.entries = append(log.entries, LogEntry{At: t, Total: total})
}

// spentBy returns the instant at which the n-th of the units in the log was spent.
func (log *Log) spentBy(n int64) int64 { return log.entries[log.find(n)].At }

// find returns the index of the entry with the n-th of the units in the log.
func (log *Log) find(n int64) int {
	held := log.entries[log.head:]
	return log.head + sort.Search(len(held), func(i int) bool { return held[i].Total-log.base >= n })
}
