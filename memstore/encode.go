package memstore

import (
	"encoding/binary"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// This file writes the state of a store in records, and replay.go reads them. The last
// record of a slot, of a log and of the holds of a key applies. All numbers are stored
// with the least significant byte first.

// The kinds of record in the frames of a state file.
const (
	// savedShard precedes the slots of a shard: 0 for keys or 1 for overflow buckets (1
	// byte), the index of the shard (2), and the number of slots in its table (4). If
	// the table had another number of slots, the slots of the shard are empty first.
	savedShard = iota + 1
	// savedSlot: the index of the slot (4 bytes), the digest (16), and the words of the
	// state (16). The digest is freeDigest if the slot is free.
	savedSlot
	// savedLog: 1 for an overflow log or 0 (1 byte), the digest (16), the instant of
	// expiry (8), oldest and from of [algo.Log.Changes] (16), the number of entries
	// (4), and the instant and the units of each (16). A log without entries is
	// removed.
	savedLog
	// savedLogShard: the index of a shard (2 bytes), whose logs are removed; the index
	// after the last one selects the overflow logs.
	savedLogShard
	// savedHolds: 1 for the holds of a sliding log or 0 (1 byte), the digest (16), the
	// unit of the ledger (16), the numbers of holds, of changes of the limit, and of
	// records of ended holds (4 each), and these. The record of a key's state in the
	// same group is that of the same moment.
	savedHolds
	// savedDocument: the length of the name (1 byte) and the name, the version (8), and
	// the length of the content (4) and the content. The version is 0 if the document
	// was removed. Without a name, all documents were removed.
	savedDocument
)

const (
	savedSlotBytes = 37
	savedLogBytes  = 62 // of a log with one entry
	// savedEntries is the maximum number of entries in one record of a log.
	savedEntries = 1 << 16
)

func appendUint64s(b []byte, n ...uint64) []byte {
	for _, v := range n {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

func appendShard(b []byte, region, index, slots int) []byte {
	b = append(b, savedShard, byte(region))
	b = binary.LittleEndian.AppendUint16(b, uint16(index))
	return binary.LittleEndian.AppendUint32(b, uint32(slots))
}

func appendSlot(b []byte, index int, d digest, w words) []byte {
	b = binary.LittleEndian.AppendUint32(append(b, savedSlot), uint32(index))
	return appendUint64s(b, d.hi, d.lo, w.at, w.rest)
}

func appendLogShard(b []byte, index int) []byte {
	return binary.LittleEndian.AppendUint16(append(b, savedLogShard), uint16(index))
}

// appendSingle adds the record of a log with at most one entry.
func appendSingle(b []byte, d digest, one single) []byte {
	if one.units() == 0 {
		return appendNoLog(b, d)
	}
	b = appendLogHeader(b, false, d, one.resetAt(), one.at, 0, 1)
	return appendUint64s(b, uint64(one.at), uint64(one.units()))
}

// appendNoLog adds the record of a key whose log was removed.
func appendNoLog(b []byte, d digest) []byte { return appendLogHeader(b, false, d, 0, 0, 0, 0) }

func appendLogHeader(b []byte, overflow bool, d digest, resetAt, oldest, from int64, entries int) []byte {
	b = append(b, savedLog, boolByte(overflow))
	b = appendUint64s(b, d.hi, d.lo, uint64(resetAt), uint64(oldest), uint64(from))
	return binary.LittleEndian.AppendUint32(b, uint32(entries))
}

func boolByte(b bool) byte {
	if b {
		return 1
	}
	return 0
}

// appendLog adds the records of the entries that have changed since the instant from,
// of a log that expires at resetAt.
func appendLog(b []byte, overflow bool, d digest, resetAt int64, log *algo.Log, from int64) []byte {
	oldest, _ := log.Changes()
	if log.Len() == 0 {
		return appendLogHeader(b, overflow, d, resetAt, oldest, 0, 0)
	}
	b = appendLogHeader(b, overflow, d, resetAt, oldest, from, 0)
	count, entries := len(b)-4, 0
	for at, units := range func(yield func(at, units int64) bool) { log.UnitsFrom(from, yield) } {
		if entries == savedEntries {
			b = appendLogHeader(b, overflow, d, resetAt, oldest, at, 0)
			count, entries = len(b)-4, 0
		}
		b = appendUint64s(b, uint64(at), uint64(units))
		entries++
		binary.LittleEndian.PutUint32(b[count:], uint32(entries))
	}
	return b
}

// appendHolds adds the record of the holds of a key, which may be nil, and of its ended
// holds.
func appendHolds(b []byte, isLog bool, d digest, l *algo.Ledger, ended algo.Ended) []byte {
	if l == nil {
		l = new(algo.Ledger)
	}
	b = append(b, savedHolds, boolByte(isLog))
	b = appendUint64s(b, d.hi, d.lo, uint64(l.Unit.P), uint64(l.Unit.D))
	for _, n := range [...]int{len(l.Holds), len(l.Changes), len(ended)} {
		b = binary.LittleEndian.AppendUint32(b, uint32(n))
	}
	for i := range l.Holds {
		h := &l.Holds[i]
		b = append(append(b, h.ID[:]...), byte(h.Kind()))
		b = appendUint64s(b, uint64(h.Units()), uint64(h.ChargedAt), uint64(h.Deadline), uint64(h.Least.Whole), uint64(h.Least.Rest))
	}
	for i := range l.Changes {
		c := &l.Changes[i]
		b = appendUint64s(b, uint64(c.HoldsBefore), uint64(c.Unit.P), uint64(c.Unit.D), uint64(c.Cut), uint64(c.Least.Whole), uint64(c.Least.Rest))
	}
	for i := range ended {
		b = appendUint64s(append(b, ended[i].ID[:]...), uint64(ended[i].Deadline))
	}
	return b
}

// appendDocument adds the record of a document, or of its removal.
func appendDocument(b []byte, name string, d headgate.Document) []byte {
	b = append(append(b, savedDocument, byte(len(name))), name...)
	b = appendUint64s(b, uint64(d.Version))
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(d.Content))), d.Content...)
}
