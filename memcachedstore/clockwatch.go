package memcachedstore

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate/internal/micros"
)

const (
	// minClockSkew is the smallest difference that is reported: a quarter of the second
	// in which the bucket of a limit per second fills.
	minClockSkew = 250 * time.Millisecond
	// clockReportInterval is the minimum time between two reports of one direction.
	clockReportInterval = time.Minute
	// A clock check is due at a random time between these after the previous one. If it
	// were not random, processes could check in a fixed order and never find a difference
	// that is smaller than the time between their checks.
	minClockCheckInterval = time.Second
	maxClockCheckInterval = 3 * time.Second
	// clockTTL is the TTL in seconds of the item with the clock.
	clockTTL = 60 * 60
)

// formatClock is the first byte of the item with the clock. The other bytes are 8 for
// the ID of the store that wrote the item, and 8 for its clock in µs since the Unix
// epoch, both big endian.
const (
	formatClock = byte(0xb3)
	clockLength = headLength + 8
)

// clockKey returns the key of the item with the clock in a namespace. It differs from
// the keys of all rules, because no algorithm has the name “clock”.
func clockKey(namespace string) digest {
	s := newScope(namespace, "clock", "")
	return s.digest("")
}

// clockReading is the content of the item with the clock.
type clockReading struct {
	writer uint64 // the ID of a store
	clock  int64
}

func (c clockReading) encode() []byte {
	b := append(make([]byte, 0, clockLength), formatClock)
	b = binary.BigEndian.AppendUint64(b, c.writer)
	return binary.BigEndian.AppendUint64(b, uint64(c.clock))
}

// decodeClock returns errForeign for a value that this package has not written.
func decodeClock(b []byte) (clockReading, error) {
	if len(b) != clockLength || b[0] != formatClock {
		return clockReading{}, errForeign
	}
	c := clockReading{writer: binary.BigEndian.Uint64(b[1:])}
	clock := binary.BigEndian.Uint64(b[headLength:])
	if clock > maxUnusedAt {
		return clockReading{}, errForeign
	}
	c.clock = int64(clock)
	return c, nil
}

// aheadOf returns by how much the clock of c is ahead of clock, which is negative if it
// is behind.
func (c clockReading) aheadOf(clock int64) time.Duration {
	const longest = math.MaxInt64 / int64(time.Microsecond)
	return micros.Duration(max(-longest, min(c.clock-clock, longest)))
}

// localTime is a reading of the clocks of this process.
type localTime struct {
	wall    int64 // the wall clock, in µs since the Unix epoch
	elapsed int64 // the monotonic clock, in µs since processStart
}

func readLocalTime() localTime {
	now := time.Now()
	return localTime{now.UnixMicro(), now.Sub(processStart).Microseconds()}
}

// clockWatch detects that the clock of this process differs from the clocks of other
// processes that use the same servers and namespace.
//
// The stores overwrite one item with their clocks. A store reads the item, then its
// clock, and writes its clock by cas or add. The write fails if another store has
// written the item in the meantime. So the clocks in successive items were read one
// after another, and each difference that is found is a lower bound:
//
//   - An item that is later than the clock was written by a clock that is ahead.
//   - An item of another store that is earlier than the last item of this store was
//     written after it, by a clock that is behind.
type clockWatch struct {
	key digest
	id  uint64 // random
	now func() localTime

	// next is the time at which the next check is due, in ns since processStart. It is
	// math.MaxInt64 during a check. Only the check uses the fields below.
	next atomic.Int64

	// written is the clock in the last item that this store has certainly written. If
	// there is none, it is zero, which is earlier than every item.
	written localTime
	// The earliest times of the next reports, in µs since processStart.
	nextBehind, nextAhead int64
}

func (w *clockWatch) init(namespace string) {
	w.key, w.id, w.now = clockKey(namespace), rand.Uint64(), readLocalTime
}

// start reports whether a check is due, and reserves it for the caller.
func (w *clockWatch) start(elapsed time.Duration) bool {
	next := w.next.Load()
	return int64(elapsed) >= next && w.next.CompareAndSwap(next, math.MaxInt64)
}

func (w *clockWatch) finish(elapsed time.Duration) {
	w.next.Store(int64(elapsed + minClockCheckInterval + rand.N(maxClockCheckInterval-minClockCheckInterval)))
}

// observe compares the clock with an item that was read before. It returns the skew to
// report, or 0: at least by how much the clock is ahead of another clock, or minus at
// least by how much it is behind.
func (w *clockWatch) observe(item clockReading, now localTime) time.Duration {
	skew, next := -item.aheadOf(now.wall), &w.nextBehind
	if skew > -minClockSkew {
		skew, next = w.aheadOfWriter(item, now), &w.nextAhead
	}
	if skew.Abs() < minClockSkew || now.elapsed < *next {
		return 0
	}
	*next = now.elapsed + clockReportInterval.Microseconds()
	return skew
}

// aheadOfWriter returns a lower bound of the difference between the clock and the clock
// of the store that wrote item, or 0 if nothing is known. The wall clock may have been
// set since the last write of this store, and the monotonic clock may have stood still
// while the machine was suspended. So it uses the earlier of two times of that write: by
// the clock then, and by the clock now.
func (w *clockWatch) aheadOfWriter(item clockReading, now localTime) time.Duration {
	if item.writer == w.id {
		return 0
	}
	byClockNow := now.wall - (now.elapsed - w.written.elapsed)
	return max(0, -item.aheadOf(min(w.written.wall, byClockNow)))
}

// watchClock starts a clock check in the background if one is due.
func (s *Store) watchClock() {
	if s.options.OnClockSkew == nil || !s.clocks.start(time.Since(processStart)) {
		return
	}
	s.goInBackground(func() {
		s.checkClock()
		s.clocks.finish(time.Since(processStart))
	})
}

// checkClock compares the clock with the item, overwrites the item and reports a
// difference. It uses no semaphore, batch or pipeline that decisions wait for. After an
// error it does nothing; the next check tries again. An item that this package has not
// written is not changed.
func (s *Store) checkClock() {
	w := &s.clocks
	item, err := s.client.Get(w.key.name())
	now := w.now()
	missing := errors.Is(err, memcache.ErrCacheMiss)
	if s.isClosed() || err != nil && !missing {
		return
	}
	written := &memcache.Item{Key: w.key.name(), Expiration: clockTTL, Value: clockReading{w.id, now.wall}.encode()}
	skew, write := time.Duration(0), s.client.Add
	if !missing {
		found, err := decodeClock(item.Value)
		if err != nil || item.CasID == 0 {
			return
		}
		skew, write = w.observe(found, now), s.client.CompareAndSwap
		written.CasID = item.CasID
	}
	s.written.add(w.key)
	if write(written) == nil {
		w.written = now
	}
	if skew != 0 {
		s.options.OnClockSkew(skew)
	}
}
