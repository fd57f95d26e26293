package memcachedstore

import (
	"encoding/binary"
	"errors"

	"github.com/headgate/headgate/algo"
)

// What lies under a key begins with its format, a byte that no text begins with, and the instant at which it is as if never used:
// 8 bytes, as under the limit of whoever wrote it. A state follows as A in 8 bytes, B and C in 4 each; 25 bytes in all. A log
// follows as its entries, oldest first: the µs since the entry before (or the epoch) and the units, each as a varint. All numbers
// of a fixed length are big endian.
const (
	formatState byte = 0xb1
	formatLog   byte = 0xb2

	headLength  = 9
	stateLength = headLength + 16

	maxA     = 1<<53 - 1
	maxBC    = 1<<30 - 1
	maxUntil = 1<<54 - 1
	maxUnits = 1 << 30 // in a whole log
)

// maxEntries is how many entries a log may have, so that it always fits into the 1 MiB that memcached takes: they lie within 366
// days and hold at most 1e9 units, so each has 7 bytes at most, but for those few that are far from the one before.
const maxEntries = 1 << 17

// errForeign: a value that no store of this package wrote.
var errForeign = errors.New("the value under one of this store's keys is not of its making")

// cell is what one key holds while an operation is made: as read, and as it is to be.
type cell struct {
	key  digest
	name string

	raw     []byte // as read; nil if there was nothing
	casID   uint64
	written bool   // something was written in this operation already
	left    []byte // what that was; nil if what lies there now is not known
	spent   spent  // in it
	moved   bool   // somebody else has changed it since

	state algo.State
	log   *algo.Log // instead of the state, for a sliding log
	until int64     // the instant at which it is as if never used
	dirty bool      // any of these may have changed
	next  spent     // in what is to be kept
}

// spent is what the jobs of a round take from a cell.
type spent struct {
	n     int64
	by    *bound // the last of them
	mixed bool   // under several bounds, whose limits may differ
}

func (s *spent) add(by *bound, n int64) {
	s.mixed = s.mixed || s.by != nil && s.by != by
	s.n, s.by = s.n+n, by
}

// decode takes apart what was read. A cell may be decoded again.
func (c *cell) decode(isLog bool) error {
	c.state, c.log, c.until, c.dirty, c.next = algo.State{}, nil, 0, false, spent{}
	if isLog {
		c.log = &algo.Log{}
	}
	if c.raw == nil {
		return nil
	}
	format := formatState
	if isLog {
		format = formatLog
	}
	if len(c.raw) < headLength || c.raw[0] != format {
		return errForeign
	}
	until := binary.BigEndian.Uint64(c.raw[1:])
	if until > maxUntil {
		return errForeign
	}
	c.until = int64(until)
	if isLog {
		return decodeLog(c.log, c.raw[headLength:])
	}
	return c.decodeState()
}

func (c *cell) decodeState() error {
	if len(c.raw) != stateLength {
		return errForeign
	}
	rest := c.raw[headLength:]
	a, b, d := binary.BigEndian.Uint64(rest), binary.BigEndian.Uint32(rest[8:]), binary.BigEndian.Uint32(rest[12:])
	if a > maxA || b > maxBC || d > maxBC {
		return errForeign
	}
	c.state = algo.State{A: int64(a), B: int64(b), C: int64(d)}
	return nil
}

func decodeLog(log *algo.Log, b []byte) error {
	at, total := uint64(0), uint64(0)
	for len(b) > 0 {
		step, n := binary.Uvarint(b)
		if n <= 0 {
			return errForeign
		}
		units, m := binary.Uvarint(b[n:])
		if m <= 0 {
			return errForeign
		}
		b = b[n+m:]
		first := log.Len() == 0
		if step > maxA || at+step > maxA || step == 0 && !first || units == 0 || units > maxUnits || total+units > maxUnits {
			return errForeign
		}
		at, total = at+step, total+units
		log.Append(int64(at), int64(units))
	}
	return nil
}

// value is what is to lie under the key.
func (c *cell) value() []byte {
	if c.log == nil {
		b := append(make([]byte, 0, stateLength), formatState)
		b = binary.BigEndian.AppendUint64(b, uint64(c.until))
		b = binary.BigEndian.AppendUint64(b, uint64(c.state.A))
		b = binary.BigEndian.AppendUint32(b, uint32(c.state.B))
		return binary.BigEndian.AppendUint32(b, uint32(c.state.C))
	}
	b := append(make([]byte, 0, len(c.raw)+headLength+16), formatLog)
	b = binary.BigEndian.AppendUint64(b, uint64(c.until))
	before := int64(0)
	c.log.Units(func(at, units int64) bool {
		b = binary.AppendUvarint(b, uint64(at-before))
		b = binary.AppendUvarint(b, uint64(units))
		before = at
		return true
	})
	return b
}

// keep makes next the state, which is as if never used at resetAt. A state that stays may have to be kept for longer, if the
// limit was changed.
func (c *cell) keep(next algo.State, resetAt int64) {
	switch {
	case next != c.state:
		c.state, c.until, c.dirty = next, resetAt, true
	case resetAt > c.until:
		c.until, c.dirty = resetAt, true
	}
}

// keepLog is keep for a log; changed says whether it has changed.
func (c *cell) keepLog(changed bool, resetAt int64) {
	if changed || resetAt > c.until {
		c.until, c.dirty = resetAt, true
	}
}

// trim counts the newest entries of a log that has too many as one, at the last instant of them: such units age out later than
// they should, never earlier.
func (c *cell) trim(most int) {
	excess := c.log.Len() - most
	if excess <= 0 {
		return
	}
	short, i, merged, newest := &algo.Log{}, 0, int64(0), int64(0)
	c.log.Units(func(at, units int64) bool {
		if i++; i < most {
			short.Append(at, units)
		} else {
			merged, newest = merged+units, at
		}
		return true
	})
	short.Append(newest, merged)
	c.log = short
}
