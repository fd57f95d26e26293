package memcachedstore

import (
	"encoding/binary"
	"errors"

	"github.com/headgate/headgate/algo"
)

// A value starts with a format byte, with which no text starts, and 8 bytes for the
// instant from which the value is unused, under the limit of the last writer. After
// these 9 bytes, a state contains A in 8 bytes, B in 4 and C in 4; in total it has 25
// bytes. A log contains its entries, oldest first. Each entry is two varints: the µs
// since the previous entry (or since the Unix epoch) and the units. All numbers of a
// fixed length are big endian. A value with open holds has a format of its own; see
// appendHolds.
const (
	formatState byte = 0xb1
	formatLog   byte = 0xb2
	heldFormat  byte = 2 // added to the format of a value with open holds

	headLength  = 9
	stateLength = headLength + 16

	maxA        = 1<<53 - 1
	maxBC       = 1<<30 - 1
	maxUnusedAt = 1<<54 - 1
	maxUnits    = 1 << 30 // maximum number of units in a whole log
)

// maxEntries is the maximum number of entries in a log. With it, a log always fits into
// memcached's default item size, 1 MiB. The entries are within 366 days and have at
// most 1e9 units in total. Therefore an entry takes at most 7 bytes, except for the few
// entries that are much later than the previous entry.
const maxEntries = 1 << 17

// errForeign is the error for a value that this package has not written.
var errForeign = errors.New("the value under a key was not written by this store")

// cell is the value of one key during a round: the value that was read, and the value
// that is to be written.
type cell struct {
	key  digest
	name string

	raw          []byte // the value that was read; nil if the key does not exist
	casID        uint64
	written      bool   // whether the round has written the key
	writtenValue []byte // the value that the round wrote last; nil if it is not known whether a write was executed
	debited      debit  // the debit that writtenValue contains
	changed      bool   // whether another process has changed the value since the round wrote it

	state        algo.State
	log          *algo.Log // for a sliding log, used instead of state
	ledger       algo.Ledger
	ended        algo.Ended // records to write before the value, in any order
	maxEnded     int        // maximum number of records of the key
	unusedAt     int64      // the instant from which the state or log is unused
	dirty        bool       // whether the value may have to be written
	pendingDebit debit      // the debit that the value to write contains
}

// debit is the sum of the units that the jobs of a round take from a cell.
type debit struct {
	units int64
	bound *bound // bound of the last job
	mixed bool   // whether units were taken under several bounds, whose limits may differ
	holds []openedHold
}

func (d *debit) add(b *bound, n int64) {
	d.mixed = d.mixed || d.bound != nil && d.bound != b
	d.units, d.bound = d.units+n, b
}

// decode sets the state or log from the value that was read. It may be called several
// times; each call discards the previous state or log.
func (c *cell) decode(isLog bool) error {
	c.state, c.log, c.unusedAt, c.dirty, c.pendingDebit = algo.State{}, nil, 0, false, debit{}
	c.ledger, c.ended = algo.Ledger{}, nil
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
	if len(c.raw) < headLength || c.raw[0] != format && c.raw[0] != format+heldFormat {
		return errForeign
	}
	unusedAt := binary.BigEndian.Uint64(c.raw[1:])
	if unusedAt > maxUnusedAt {
		return errForeign
	}
	c.unusedAt = int64(unusedAt)
	rest := c.raw[headLength:]
	if c.raw[0] != format {
		var err error
		if c.ledger, rest, err = decodeHolds(rest); err != nil {
			return err
		}
	}
	if isLog {
		return decodeLog(c.log, rest)
	}
	return c.decodeState(rest)
}

func (c *cell) decodeState(rest []byte) error {
	if len(rest) != stateLength-headLength {
		return errForeign
	}
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

// value returns the encoded value to write.
func (c *cell) value() []byte {
	b := c.valueHead()
	if c.log == nil {
		b = binary.BigEndian.AppendUint64(b, uint64(c.state.A))
		b = binary.BigEndian.AppendUint32(b, uint32(c.state.B))
		return binary.BigEndian.AppendUint32(b, uint32(c.state.C))
	}
	previous := int64(0)
	c.log.Units(func(at, units int64) bool {
		b = binary.AppendUvarint(b, uint64(at-previous))
		b = binary.AppendUvarint(b, uint64(units))
		previous = at
		return true
	})
	return b
}

// valueHead returns the value up to the state or the log.
func (c *cell) valueHead() []byte {
	format, size := formatState, stateLength
	if c.log != nil {
		format, size = formatLog, len(c.raw)+headLength+16
	}
	if len(c.ledger.Holds) == 0 {
		return binary.BigEndian.AppendUint64(append(make([]byte, 0, size), format), uint64(c.unusedAt))
	}
	b := append(make([]byte, 0, size+len(c.raw)+64), format+heldFormat)
	return appendHolds(binary.BigEndian.AppendUint64(b, uint64(c.unusedAt)), &c.ledger)
}

// keep sets the state to next, which is unused from resetAt on. A state that has not
// changed may also have to be written, because it matters for longer under another
// limit. It is never kept for less time.
func (c *cell) keep(next algo.State, resetAt int64) {
	switch {
	case next != c.state:
		c.state, c.unusedAt, c.dirty = next, resetAt, true
	case resetAt > c.unusedAt:
		c.unusedAt, c.dirty = resetAt, true
	}
}

// keepLog is like keep for a log. The caller has already applied the operation to the
// log; changed is whether the operation has changed it.
func (c *cell) keepLog(changed bool, resetAt int64) {
	if changed || resetAt > c.unusedAt {
		c.unusedAt, c.dirty = resetAt, true
	}
}

// trim shortens a log that has more than maxEntries entries. It merges the newest
// entries into one entry at the latest of their instants. The merged units expire later
// than they should, never earlier.
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
