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

// snapshotMagic begins a snapshot. After it come the store's secret, records, an end mark and a CRC-32C of all before it; all
// numbers are of 8 bytes, the least significant first.
const snapshotMagic = "headgate memstore snapshot 1\n"

// The kinds of record in a snapshot.
const (
	recordEnd   = iota
	recordShard // 0 for keys or 1 for spare buckets, place of the shard, slots of its table and of its largest
	recordKey   // place in the table, digest (2), words (2)
	recordSpare // the same, of a spare bucket
	recordLog   // digest (2), reset instant, number of entries, and for each its instant and units
	recordSpareLog
)

// ErrSnapshot: what was to be restored is no whole snapshot of this format.
var ErrSnapshot = errors.New("memstore: not a valid snapshot")

// Snapshot writes the state of all keys that are not as if never used, so that a restart need not forget them: [Restore] reads
// it. It may be called while the store is in use; each key is written as it is at one moment, not all at the same. It holds one
// shard's lock at a time. The snapshot contains the store's secret: whoever reads it can test which keys it holds.
func (s *Store) Snapshot(w io.Writer) error { return s.snapshot(w, headgate.StoreClock) }

// SnapshotAt is [Store.Snapshot] at the time at: keys that have recovered by then are left out.
func (s *Store) SnapshotAt(w io.Writer, at time.Time) error {
	return s.snapshot(w, headgate.InstantOf(at))
}

func (s *Store) snapshot(w io.Writer, at headgate.Instant) error {
	out := &snapshotWriter{crc: crc32.New(crc32.MakeTable(crc32.Castagnoli))}
	out.buf = bufio.NewWriterSize(io.MultiWriter(w, out.crc), 1<<16)
	out.bytes([]byte(snapshotMagic))
	out.numbers(s.secret.k0, s.secret.k1)
	now := s.instant(at)
	for i := range s.keys.shards {
		s.keys.shards[i].snapshot(out, 0, i, now)
	}
	for i := range s.spare.shards {
		s.spare.shards[i].snapshot(out, 1, i, now)
	}
	for i := range s.logs.shards {
		s.logs.shards[i].snapshot(out, recordLog, now)
	}
	s.logs.spare.snapshot(out, recordSpareLog, now)
	out.numbers(recordEnd)
	return out.finish(w)
}

func (sh *shard) snapshot(out *snapshotWriter, region, place int, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	slots := sh.table.Load().slots
	out.numbers(recordShard, uint64(region), uint64(place), uint64(len(slots)), uint64(sh.most))
	kind := uint64(recordKey + region)
	for i := range slots {
		d, w := slots[i].steady()
		if d.hi != 0 && w.expiry() > now {
			out.numbers(kind, uint64(i), d.hi, d.lo, w.at&^(versions|lockBit), w.rest)
		}
	}
}

func (sh *logShard) snapshot(out *snapshotWriter, kind uint64, now int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
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

// finish writes the checksum, straight to where the snapshot goes.
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

// Restore makes a store from what [Store.Snapshot] wrote. The state counts on from then: time that has passed refills, and
// policies find their keys again by name. The bound may differ; a snapshot that does not fit it is refused with
// [headgate.ErrStoreFull], since dropping a part would forget debts. What is not a whole snapshot is refused with
// [ErrSnapshot].
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
	case recordKey, recordSpare:
		return s.restoreSlot(in, kind)
	case recordLog, recordSpareLog:
		return s.restoreLog(in, kind)
	default:
		return fmt.Errorf("%w: a record of unknown kind %d", ErrSnapshot, kind)
	}
}

// restoreShard prepares for the keys of a shard. Those of a table of the largest size go to the places they had, if this store
// has the same bound: a crowded table could be too full to be filled in another order.
func (s *Store) restoreShard(in *snapshotReader) error {
	region, place, slots, most := in.number(), in.number(), in.number(), in.number()
	if in.err != nil {
		return in.err
	}
	shards := s.keys.shards
	if region == 1 {
		shards = s.spare.shards
	}
	in.exact = nil
	if slots == most && place < uint64(len(shards)) && uint64(shards[place].most) == most && shards[place].used == 0 {
		in.exact = &shards[place]
		in.exact.growFor(int(most), 0)
		in.exact.fill()
	}
	return nil
}

// fill leaves no slot empty, since a search would end there.
func (sh *shard) fill() {
	slots := sh.table.Load().slots
	for i := range slots {
		slots[i].assign(nobody, words{}, words{})
	}
	sh.used = len(slots)
}

func (s *Store) restoreSlot(in *snapshotReader, kind uint64) error {
	place, d := in.number(), digest{in.number(), in.number()}
	w := words{at: in.number(), rest: in.number()}.bare()
	if in.err != nil || d.hi == 0 {
		return errors.Join(ErrSnapshot, in.err)
	}
	sh := s.keys.shard(d)
	if kind == recordSpare {
		sh = s.spare.shard(d)
		s.spilled.Store(1)
	}
	if sh == in.exact {
		return sh.restoreAt(place, d, w)
	}
	if sh.table.Load().find(d) != nil {
		return fmt.Errorf("%w: a key stands in it twice", ErrSnapshot)
	}
	to, seen := sh.place(d, 0)
	if to == nil {
		return errFull()
	}
	to.assign(d, seen, w)
	return nil
}

func (sh *shard) restoreAt(place uint64, d digest, w words) error {
	t := sh.table.Load()
	first, _ := t.bucket(d, false)
	second, _ := t.bucket(d, true)
	if place >= uint64(len(t.slots)) || !within(first, &t.slots[place]) && !within(second, &t.slots[place]) || t.slots[place].hi.Load() != nobody.hi {
		return fmt.Errorf("%w: a key stands where it cannot be", ErrSnapshot)
	}
	t.slots[place].assign(d, words{}, w)
	return nil
}

func (s *Store) restoreLog(in *snapshotReader, kind uint64) error {
	d := digest{in.number(), in.number()}
	resetAt, entries := int64(in.number()), in.number()
	if kind == recordSpareLog && entries > firstEntries {
		return fmt.Errorf("%w: a spare log of %d entries", ErrSnapshot, entries)
	}
	sh := s.logs.shard(d)
	var k *logKey
	if kind == recordSpareLog {
		s.logs.shared.Store(true)
		k = s.logs.openSpare(d, 0)
	} else {
		k = s.logs.open(sh, d, 0)
	}
	if k == nil {
		return errFull()
	}
	k.resetAt = resetAt
	for range entries {
		at, units := int64(in.number()), int64(in.number())
		if in.err != nil {
			return in.err
		}
		before := k.log.Cap()
		k.log.Append(at, units)
		if grown := k.log.Cap() - max(before, firstEntries); grown > 0 && kind == recordLog {
			if s.logs.bytes.Add(int64(grown)*logEntryBytes) > s.logs.budget {
				return errFull()
			}
		}
	}
	return nil
}

type snapshotReader struct {
	buf   *bufio.Reader
	crc   hash.Hash32
	err   error
	exact *shard // whose keys go to the places they had
}

func (r *snapshotReader) magic() {
	b := make([]byte, len(snapshotMagic))
	if r.read(b); r.err == nil && string(b) != snapshotMagic {
		r.err = fmt.Errorf("%w: it does not begin with %q", ErrSnapshot, snapshotMagic)
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
		r.err = fmt.Errorf("%w: it ends too early: %w", ErrSnapshot, err)
		return
	}
	r.crc.Write(b)
}

// finish compares the checksum of what was read with the one that comes now.
func (r *snapshotReader) finish() error {
	want := uint64(r.crc.Sum32())
	if got := r.number(); r.err == nil && got != want {
		return fmt.Errorf("%w: its checksum does not match", ErrSnapshot)
	}
	return r.err
}

// steady is peek that waits for whoever writes. The shard's lock is held, so no slot is given away.
func (s *slot) steady() (digest, words) {
	for spins := 0; ; spins++ {
		if d, w, ok := s.peek(); ok {
			return d, w
		}
		pause(spins)
	}
}
