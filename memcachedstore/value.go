package memcachedstore

import (
	"encoding/binary"
	"errors"

	"github.com/headgate/headgate/algo"
)

// A value starts with its format, a byte that no text starts with, and the instant from
// which it is unused: 8 bytes, under the limit of the last writer. A state follows as A
// in 8 bytes, and B and C in 4 each; 25 bytes in total. A log follows as its entries,
// oldest first: the µs since the previous entry (or the epoch) and the units, each as a
// varint. All numbers of a fixed length are big endian.
const (
	formatState byte = 0xb1
	formatLog   byte = 0xb2

	headLength  = 9
	stateLength = headLength + 16

	maxA        = 1<<53 - 1
	maxBC       = 1<<30 - 1
	maxUnusedAt = 1<<54 - 1
	maxUnits    = 1 << 30 // in a whole log
)

// maxEntries is the maximum number of entries in a log, so that it always fits into the
// default item size of memcached, 1 MiB. The entries are within 366 days and have at
// most 1e9 units in total. So each takes at most 7 bytes, except for the few that are
// long after the previous one.
const maxEntries = 1 << 17

// errForeign is the error for a value that this package did not write.
var errForeign = errors.New("the value under a key was not written by this store")

// cell is the value of one key during an operation: as read, and as it is to be
// written.
type cell struct {
	key  digest
	name string

	raw          []byte // as read; nil if there was none
	casID        uint64
	written      bool   // the round has written the key
	writtenValue []byte // the last value written; nil if the current value is unknown
	debited      debit  // what it contains
	changed      bool   // another process has changed the value since

	state        algo.State
	log          *algo.Log // for a sliding log, in place of state
	unusedAt     int64     // the instant from which it is unused
	dirty        bool      // the value may have to be written
	pendingDebit debit     // in the value to write
}

// debit is what the jobs of a round take from a cell.
type debit struct {
	units int64
	bound *bound // of the last job
	mixed bool   // taken under several bounds, whose limits may differ
}

func (d *debit) add(b *bound, n int64) {
	d.mixed = d.mixed || d.bound != nil && d.bound != b
	d.units, d.bound = d.units+n, b
}

// decode decodes what was read. A cell may be decoded again.
func (c *cell) decode(isLog bool) error {
	c.state, c.log, c.unusedAt, c.dirty, c.pendingDebit = algo.State{}, nil, 0, false, debit{}
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
	unusedAt := binary.BigEndian.Uint64(c.raw[1:])
	if unusedAt > maxUnusedAt {
		return errForeign
	}
	c.unusedAt = int64(unusedAt)
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

// value encodes the value to write.
func (c *cell) value() []byte {
	if c.log == nil {
		b := append(make([]byte, 0, stateLength), formatState)
		b = binary.BigEndian.AppendUint64(b, uint64(c.unusedAt))
		b = binary.BigEndian.AppendUint64(b, uint64(c.state.A))
		b = binary.BigEndian.AppendUint32(b, uint32(c.state.B))
		return binary.BigEndian.AppendUint32(b, uint32(c.state.C))
	}
	b := append(make([]byte, 0, len(c.raw)+headLength+16), formatLog)
	b = binary.BigEndian.AppendUint64(b, uint64(c.unusedAt))
	previous := int64(0)
	c.log.Units(func(at, units int64) bool {
		b = binary.AppendUvarint(b, uint64(at-previous))
		b = binary.AppendUvarint(b, uint64(units))
		previous = at
		return true
	})
	return b
}

// keep sets the state, which is unused from resetAt on. Even an unchanged state may
// have to be kept for longer if the limit was changed.
func (c *cell) keep(next algo.State, resetAt int64) {
	switch {
	case next != c.state:
		c.state, c.unusedAt, c.dirty = next, resetAt, true
	case resetAt > c.unusedAt:
		c.unusedAt, c.dirty = resetAt, true
	}
}

// keepLog is keep for a log; changed reports whether the log has changed.
func (c *cell) keepLog(changed bool, resetAt int64) {
	if changed || resetAt > c.unusedAt {
		c.unusedAt, c.dirty = resetAt, true
	}
}

// trim merges the newest entries of a log that has too many, at the last of their
// instants. Merged units expire later than they should, never earlier.
func (c *cell) trim(maxEntries int) {
	excess := c.log.Len() - maxEntries
	if excess <= 0 {
		return
	}
	short, i, merged, newest := &algo.Log{}, 0, int64(0), int64(0)
	c.log.Units(func(at, units int64) bool {
		if i++; i < maxEntries {
			short.Append(at, units)
		} else {
			merged, newest = merged+units, at
		}
		return true
	})
	short.Append(newest, merged)
	c.log = short
}
