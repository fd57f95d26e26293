package memstore

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"time"

	"github.com/headgate/headgate"
)

// snapshotHeader is the beginning of a snapshot. After it come the store's secret, the
// records, an end mark, and the CRC-32C of everything before. Every number has 8 bytes,
// least significant byte first.
const snapshotHeader = "headgate memstore snapshot 1\n"

// The kinds of record in a snapshot.
const (
	recordEnd = iota
	// recordShard is followed by four numbers: 0 for keys or 1 for overflow buckets,
	// the index of the shard, the number of slots in its table, and the number of slots
	// in its largest table.
	recordShard
	recordKey      // followed by: index of the slot, digest (2 numbers), words (2 numbers)
	recordOverflow // like recordKey, for an overflow bucket
	// recordLog is followed by: the digest (2 numbers), the instant of expiry, the
	// number of entries, and the instant and the units of each entry.
	recordLog
	recordOverflowLog
)

// maxResetAt is the latest instant, in µs, at which a sliding log can expire.
var maxResetAt = int64(headgate.MaxInstant) + headgate.MaxPeriod.Microseconds()

// ErrSnapshot is matched by the error of [Restore] for an input that is not a complete
// snapshot in this format.
var ErrSnapshot = errors.New("memstore: not a valid snapshot")

// Snapshot writes the state of all keys that have not expired, so that state survives a
// restart. [Restore] reads it. Open holds are not written: their units stay spent, and a
// commit after the restart returns [headgate.ErrUnknownHold]. Leases are not written
// either: their units stay spent, and refill from the restart on. Snapshot may be called
// while the store is in use: each key is written as it is at one moment, but the moments
// of different keys differ. Snapshot locks one shard at a time. The snapshot contains the
// store's secret: anyone who can read the snapshot can test whether the store contains a
// given key.
func (s *Store) Snapshot(w io.Writer) error { return s.snapshot(w, headgate.StoreClock) }

// SnapshotAt is like [Store.Snapshot], but leaves out the keys that have expired by the
// time at.
func (s *Store) SnapshotAt(w io.Writer, at time.Time) error {
	now := headgate.InstantOf(at)
	if !now.Valid() {
		return fmt.Errorf("memstore: %w: %v; must be from 1970 to 2155", headgate.ErrInvalidInstant, at)
	}
	return s.snapshot(w, now)
}

func (s *Store) snapshot(w io.Writer, at headgate.Instant) error {
	out := &snapshotWriter{crc: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	out.buf = bufio.NewWriterSize(io.MultiWriter(w, out.crc), 1<<16)
	out.bytes([]byte(snapshotHeader))
	out.numbers(s.secret.k0, s.secret.k1)
	now := s.instant(at)
	for i := range s.keys.shards {
		s.snapshotSlots(&s.keys.shards[i], out, 0, i, now)
	}
	for i := range s.overflow.shards {
		s.snapshotSlots(&s.overflow.shards[i], out, 1, i, now)
	}
	for i := range s.logs.shards {
		s.logs.shards[i].snapshot(out, recordLog, now)
	}
	s.logs.overflow.snapshot(out, recordOverflowLog, now)
	out.numbers(recordEnd)
	return out.finish(w)
}

func (s *Store) snapshotSlots(sh *shard, out *snapshotWriter, region, index int, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := sh.table.Load().slots
	out.numbers(recordShard, uint64(region), uint64(index), uint64(len(slots)), uint64(sh.maxSlots))
	kind := uint64(recordKey + region)
	for i := range slots {
		d, w := s.readPlain(&slots[i])
		if d.hi != 0 && w.expiry() > now {
			w = w.withoutVersion()
			out.numbers(kind, uint64(i), d.hi, d.lo, w.at, w.rest)
		}
	}
}

// readPlain is like readAny and, for a key with open holds, returns the words of its
// state without the holds.
func (s *Store) readPlain(slot *slot) (digest, words) {
	for {
		d, w := slot.readAny()
		if !w.held() {
			return d, w
		}
		holds := s.holds.shard(d)
		holds.mu.Lock()
		k := holds.keys.get(d)
		if k != nil {
			w = k.plainWords()
		}
		holds.mu.Unlock()
		if k != nil { // otherwise its last hold has ended in the meantime
			return d, w
		}
	}
}

func (sh *logShard) snapshot(out *snapshotWriter, kind uint64, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	for d, one := range sh.singles {
		if one.units() > 0 && one.resetAt() > now {
			out.numbers(kind, d.hi, d.lo, uint64(min(one.resetAt(), maxResetAt)), 1, uint64(one.at), uint64(one.units()))
		}
	}
	for d, k := range sh.keys {
		if k.resetAt <= now {
			continue
		}
		out.numbers(kind, d.hi, d.lo, uint64(k.resetAt), uint64(k.log.Len()))
		for at, units := range k.log.Units {
			out.numbers(uint64(at), uint64(units))
		}
	}
}

type snapshotWriter struct {
	buf *bufio.Writer
	crc hash.Hash32
	err error
}

func (w *snapshotWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.buf.Write(b)
	}
}

func (w *snapshotWriter) numbers(n ...uint64) {
	var b [8]byte
	for _, v := range n {
		binary.LittleEndian.PutUint64(b[:], v)
		w.bytes(b[:])
	}
}

// finish flushes the buffer and writes the checksum directly to the destination.
func (w *snapshotWriter) finish(to io.Writer) error {
	if w.err == nil {
		w.err = w.buf.Flush()
	}
	if w.err == nil {
		w.err = binary.Write(to, binary.LittleEndian, uint64(w.crc.Sum32()))
	}
	if w.err != nil {
		return fmt.Errorf("memstore: write snapshot: %w", w.err)
	}
	return nil
}

// Restore returns a store with the state that [Store.Snapshot] wrote. Units are
// refilled for the time that has passed since the snapshot. A policy finds its keys
// again if it has the same name as before. The options may differ from those of the
// original store. If the state does not fit in the new bounds, Restore returns
// [headgate.ErrStoreFull], because dropping part of the state would forget spent units.
// For incomplete or invalid input, for example a sliding log that no sequence of
// requests can produce, it returns [ErrSnapshot].
func Restore(r io.Reader, opts *Options) (*Store, error) {
	in := &snapshotReader{buf: bufio.NewReaderSize(r, 1<<16), crc: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	in.magic()
	s := newStore(opts, hashKey{in.number(), in.number()})
	for {
		kind := in.number()
		if in.err != nil {
			return nil, in.err
		}
		if kind == recordEnd {
			break
		}
		if err := s.restore(in, kind); err != nil {
			return nil, err
		}
	}
	if err := in.finish(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Store) restore(in *snapshotReader, kind uint64) error {
	switch kind {
	case recordShard:
		return s.restoreShard(in)
	case recordKey, recordOverflow:
		return s.restoreSlot(in, kind)
	case recordLog, recordOverflowLog:
		return s.restoreLog(in, kind)
	default:
		return fmt.Errorf("%w: unknown record kind %d", ErrSnapshot, kind)
	}
}

// restoreShard reads a record that precedes the keys of a shard. If the shard's table
// had its maximum size and this store has the same bounds, every key is restored to the
// slot that it had. Otherwise the keys of a crowded table might not all find room,
// because they are inserted in another order.
func (s *Store) restoreShard(in *snapshotReader) error {
	region, index, slots, maxSlots := in.number(), in.number(), in.number(), in.number()
	if in.err != nil {
		return in.err
	}
	shards := s.keys.shards
	if region == 1 {
		shards = s.overflow.shards
	}
	in.sameLayout = nil
	if slots == maxSlots && index < uint64(len(shards)) && uint64(shards[index].maxSlots) == maxSlots && shards[index].used == 0 {
		in.sameLayout = &shards[index]
		in.sameLayout.growFor(int(maxSlots), 0)
		in.sameLayout.fillSlots()
	}
	return nil
}

// fillSlots marks all slots as free but not empty, because a search ends at an empty
// slot.
func (sh *shard) fillSlots() {
	slots := sh.table.Load().slots
	for i := range slots {
		slots[i].assign(freeDigest, words{}, words{})
	}
	sh.used = len(slots)
}

func (s *Store) restoreSlot(in *snapshotReader, kind uint64) error {
	index, d := in.number(), digest{in.number(), in.number()}
	w := words{at: in.number(), rest: in.number()}.withoutVersion()
	if in.err != nil || d.hi == 0 || w.held() {
		return errors.Join(ErrSnapshot, in.err)
	}
	sh := s.keys.shard(d)
	if kind == recordOverflow {
		sh = s.overflow.shard(d)
		s.overflowed.Store(1)
	}
	if sh == in.sameLayout {
		return sh.restoreAt(index, d, w)
	}
	if sh.table.Load().find(d) != nil {
		return fmt.Errorf("%w: a key occurs twice", ErrSnapshot)
	}
	to, seen := sh.allocate(d, 0)
	if to == nil {
		return errFull()
	}
	to.assign(d, seen, w)
	return nil
}

func (sh *shard) restoreAt(index uint64, d digest, w words) error {
	t := sh.table.Load()
	first, _ := t.bucket(d, false)
	second, _ := t.bucket(d, true)
	if index >= uint64(len(t.slots)) || !contains(first, &t.slots[index]) && !contains(second, &t.slots[index]) || t.slots[index].hi.Load() != freeDigest.hi {
		return fmt.Errorf("%w: the key of slot %d does not belong in that slot", ErrSnapshot, index)
	}
	t.slots[index].assign(d, words{}, w)
	return nil
}

func (s *Store) restoreLog(in *snapshotReader, kind uint64) error {
	d := digest{in.number(), in.number()}
	resetAt, entries := int64(in.number()), in.number()
	if in.err != nil {
		return in.err
	}
	if kind == recordOverflowLog && entries > firstEntries {
		return fmt.Errorf("%w: an overflow record of a sliding log has %d entries; the maximum is %d", ErrSnapshot, entries, firstEntries)
	}
	k, err := s.createRestoredLog(d, kind, entries)
	if err != nil {
		return err
	}
	newest := int64(-1)
	for range entries {
		at, units := int64(in.number()), int64(in.number())
		if in.err != nil {
			return in.err
		}
		if err := checkLogEntry(newest, at, units, k.log.Counted()); err != nil {
			return err
		}
		newest = at
		before := k.log.Cap()
		k.log.Append(at, units)
		if grown := k.log.Cap() - max(before, firstEntries); grown > 0 && kind == recordLog {
			if s.logs.bytes.Add(int64(grown)*logEntryBytes) > s.logs.budget {
				return errFull()
			}
		}
	}
	if resetAt <= newest || resetAt > maxResetAt {
		return fmt.Errorf("%w: a sliding log expires at %d; must be after its newest entry and at most one period of 366 days after the latest instant", ErrSnapshot, resetAt)
	}
	if k.resetAt = resetAt; kind == recordLog {
		s.logs.save(s.logs.shard(d), d, k)
	}
	return nil
}

// createRestoredLog returns an empty log for a record of the given kind with the given
// number of entries. The digest d must not have a log of this kind yet.
func (s *Store) createRestoredLog(d digest, kind, entries uint64) (*keyLog, error) {
	sh := s.logs.shard(d)
	if kind == recordOverflowLog {
		sh = &s.logs.overflow
		s.logs.overflowUsed.Store(true)
	}
	if sh.find(d, new(keyLog)) != nil {
		return nil, fmt.Errorf("%w: a sliding log occurs twice", ErrSnapshot)
	}
	var k *keyLog
	switch {
	case kind == recordOverflowLog:
		k = s.logs.createOverflow(d, 0)
	case entries <= 1:
		k = s.logs.create(sh, d, 0, new(keyLog))
	case s.logs.reserveBytes(sh, newLogBytes, 0):
		k = sh.add(d, 0)
	}
	if k == nil {
		return nil, errFull()
	}
	return k, nil
}

// checkLogEntry returns an error for an entry that no log can contain. The parameter
// newest is the instant of the previous entry and counted the number of units so far.
func checkLogEntry(newest, at, units, counted int64) error {
	switch {
	case at <= newest || at > int64(headgate.MaxInstant):
		return fmt.Errorf("%w: a sliding log has an entry at %d after one at %d; instants must increase and be at most %d", ErrSnapshot, at, newest, headgate.MaxInstant)
	case units < 1 || units > headgate.MaxUnits-counted:
		return fmt.Errorf("%w: a sliding log has an entry of %d units after %d units; must be at least 1, and at most %d together", ErrSnapshot, units, counted, headgate.MaxUnits)
	}
	return nil
}

type snapshotReader struct {
	buf        *bufio.Reader
	crc        hash.Hash32
	err        error
	sameLayout *shard // shard whose keys are restored to the slots that they had; may be nil
}

func (r *snapshotReader) magic() {
	b := make([]byte, len(snapshotHeader))
	if r.read(b); r.err == nil && string(b) != snapshotHeader {
		r.err = fmt.Errorf("%w: the header is not %q", ErrSnapshot, snapshotHeader)
	}
}

func (r *snapshotReader) number() uint64 {
	var b [8]byte
	r.read(b[:])
	return binary.LittleEndian.Uint64(b[:])
}

func (r *snapshotReader) read(b []byte) {
	if r.err != nil {
		return
	}
	if _, err := io.ReadFull(r.buf, b); err != nil {
		r.err = fmt.Errorf("%w: unexpected end of input: %w", ErrSnapshot, err)
		return
	}
	r.crc.Write(b)
}

// finish compares the checksum of the input with the checksum at the end of the
// snapshot.
func (r *snapshotReader) finish() error {
	want := uint64(r.crc.Sum32())
	if got := r.number(); r.err == nil && got != want {
		return fmt.Errorf("%w: checksum mismatch", ErrSnapshot)
	}
	return r.err
}

// readAny is like tryReadAny but waits while another goroutine is writing the slot. The
// caller holds the mutex of the shard, so the slot is not reassigned.
func (s *slot) readAny() (digest, words) {
	for spins := 0; ; spins++ {
		if d, w, ok := s.tryReadAny(); ok {
			return d, w
		}
		backOff(spins)
	}
}
