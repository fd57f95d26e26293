package memstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// replayer applies the records of a state file to a store that has the same number of
// keys as the one that wrote them. No other goroutine uses the store.
type replayer struct {
	store *Store
	keys  int    // number of keys that the store is for
	shard *shard // shard of the slots that follow
	held  map[digest]*restoredHolds
}

// restoredHolds are the holds of a key in the last record.
type restoredHolds struct {
	isLog  bool
	ledger algo.Ledger
	ended  algo.Ended
}

// newReplayer returns a replayer of the records of a store for the given number of keys.
func newReplayer(keys int, secret hashKey) *replayer {
	return &replayer{store: newSized(keys, 0, secret), keys: keys, held: make(map[digest]*restoredHolds)}
}

// record reads the numbers of a record.
type record struct {
	rest []byte
	err  error
}

var errShortRecord = errors.New("the frame ends within a record")

func (r *record) bytes(n int) []byte {
	if r.err != nil || n > len(r.rest) {
		if r.err == nil {
			r.err, r.rest = errShortRecord, nil
		}
		return make([]byte, min(n, 16))
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *record) byte() byte     { return r.bytes(1)[0] }
func (r *record) uint16() int    { return int(binary.LittleEndian.Uint16(r.bytes(2))) }
func (r *record) uint32() int    { return int(binary.LittleEndian.Uint32(r.bytes(4))) }
func (r *record) uint64() uint64 { return binary.LittleEndian.Uint64(r.bytes(8)) }
func (r *record) digest() digest { return digest{r.uint64(), r.uint64()} }

// int64 returns a number that must not be negative.
func (r *record) int64() int64 {
	n := int64(r.uint64())
	if n < 0 && r.err == nil {
		r.err = fmt.Errorf("a number is %d; must not be negative", n)
	}
	return n
}

// apply applies the records of a frame.
func (p *replayer) apply(payload []byte) error {
	for r := (&record{rest: payload}); len(r.rest) > 0; {
		var err error
		switch kind := r.byte(); kind {
		case savedSlot:
			err = p.slot(r)
		case savedShard:
			err = p.selectShard(r)
		case savedLog:
			err = p.log(r)
		case savedLogShard:
			err = p.clearLogs(r)
		case savedHolds:
			err = p.holds(r)
		case savedDocument:
			err = p.document(r)
		default:
			err = fmt.Errorf("unknown record kind %d", kind)
		}
		if err = errors.Join(r.err, err); err != nil {
			return err
		}
	}
	return nil
}

func (p *replayer) selectShard(r *record) error {
	region, index, slots := r.byte(), r.uint16(), r.uint32()
	shards := p.store.keys.shards
	if region == 1 {
		shards = p.store.overflow.shards
	}
	if r.err != nil {
		return nil
	}
	if region > 1 || index >= len(shards) || !shards[index].resize(slots) {
		return fmt.Errorf("invalid shard %d of region %d with %d slots", index, region, slots)
	}
	p.shard = &shards[index]
	return nil
}

// resize makes the table of the shard have the given number of slots, which are empty if
// it had another number. It returns false if a table never has this size.
func (sh *shard) resize(slots int) bool {
	if len(sh.table.Load().slots) == slots {
		return true
	}
	size := len(newTable(sh.maxSlots / growthFactor / growthFactor).slots)
	for size != slots {
		switch {
		case size >= sh.maxSlots:
			return false
		case size*growthFactor*2 <= sh.maxSlots:
			size *= growthFactor
		default:
			size = sh.maxSlots
		}
	}
	if size == sh.maxSlots {
		part := sh.slab.part(int(sh.index), int(sh.siblings), sh.maxSlots)
		clear(part)
		sh.table.Store(tableOf(part))
	} else {
		sh.table.Store(newTable(size))
	}
	return true
}

func (p *replayer) slot(r *record) error {
	index, d, w := r.uint32(), r.digest(), words{at: r.uint64(), rest: r.uint64()}
	switch {
	case r.err != nil:
		return nil
	case p.shard == nil || index >= len(p.shard.table.Load().slots):
		return fmt.Errorf("slot %d is not in the table", index)
	case d.hi == 0 || w != w.withoutVersion() || w.held():
		return fmt.Errorf("invalid state in slot %d", index)
	}
	s := &p.shard.table.Load().slots[index]
	s.hi.Store(d.hi)
	s.lo.Store(d.lo)
	s.at.Store(w.at)
	s.rest.Store(w.rest)
	return nil
}

func (p *replayer) clearLogs(r *record) error {
	index := r.uint16()
	sh := &p.store.logs.overflow
	switch {
	case index > len(p.store.logs.shards):
		return fmt.Errorf("shard %d of the sliding logs does not exist", index)
	case index < len(p.store.logs.shards):
		sh = &p.store.logs.shards[index]
	}
	if r.err == nil {
		sh.singles, sh.keys = nil, nil
	}
	return nil
}

// log applies the record of a log. Bytes are counted when all records are applied.
func (p *replayer) log(r *record) error {
	overflow, d := r.byte(), r.digest()
	resetAt, oldest, from, n := r.int64(), r.int64(), r.int64(), r.uint32()
	sh := p.store.logs.shard(d)
	if overflow == 1 {
		sh = &p.store.logs.overflow
	}
	if r.err != nil || overflow > 1 || n > len(r.rest)/16 {
		return fmt.Errorf("a sliding log with %d entries does not fit in the frame", n)
	}
	k := sh.takeLog(d)
	k.log.Cut(oldest, from)
	newest := newestOf(&k.log)
	for range n {
		at, units := r.int64(), r.int64()
		if err := checkLogEntry(newest, at, units, k.log.Counted()); err != nil || at < from {
			return errors.Join(err, r.err, errors.New("invalid entry of a sliding log"))
		}
		k.log.Append(at, units)
		newest = at
	}
	if k.log.Len() == 0 {
		return nil
	}
	if resetAt <= newest || resetAt > maxResetAt {
		return fmt.Errorf("a sliding log expires at %d; must be after its newest entry and at most one period after the latest instant", resetAt)
	}
	k.resetAt = resetAt
	sh.putLog(d, k, overflow == 1)
	return nil
}

// newestOf returns the instant of the newest entry, or -1.
func newestOf(log *algo.Log) int64 {
	if log.Len() == 0 {
		return -1
	}
	return (&algo.LogAccount{Log: log}).ChargedAt()
}

// takeLog removes the log of the key with digest d and returns it, or a new one.
func (sh *logShard) takeLog(d digest) *keyLog {
	k := sh.find(d, &keyLog{})
	delete(sh.singles, d)
	delete(sh.keys, d)
	if k == nil {
		return &keyLog{}
	}
	k.isSingle = false
	return k
}

// putLog adds a log that is not empty.
func (sh *logShard) putLog(d digest, k *keyLog, overflow bool) {
	if overflow || k.log.Len() > 1 {
		sh.put(d, k)
		return
	}
	if sh.singles == nil {
		sh.singles = make(map[digest]single)
	}
	for at, units := range k.log.Units {
		sh.singles[d] = newSingle(at, units, k.resetAt)
	}
}

// holds reads the holds of a key.
func (p *replayer) holds(r *record) error {
	isLog, d := r.byte(), r.digest()
	h := &restoredHolds{isLog: isLog == 1}
	h.ledger.Unit = algo.Unit{P: r.int64(), D: r.int64()}
	holds, changes, ended := r.uint32(), r.uint32(), r.uint32()
	if r.err != nil || isLog > 1 || d.hi == 0 || holds > len(r.rest) || changes > holds || ended > len(r.rest) {
		return errors.New("invalid holds of a key")
	}
	for range holds {
		hold := algo.Hold{ID: headgate.HoldID(r.bytes(16))}
		kind, units := algo.HoldKind(r.byte()), r.int64()
		hold.ChargedAt, hold.Deadline = r.int64(), r.int64()
		hold.Least = algo.Debt{Whole: r.int64(), Rest: r.int64()}
		if r.err != nil || kind > algo.ContinuedLease || units < 0 || units > headgate.MaxWindowUnits {
			return fmt.Errorf("invalid hold of kind %d with %d units", kind, units)
		}
		hold.Set(units, kind)
		h.ledger.Add(hold)
	}
	for before := 0; changes > 0; changes-- {
		c := algo.LimitChange{HoldsBefore: int(r.int64()), Unit: algo.Unit{P: r.int64(), D: r.int64()}, Cut: r.int64()}
		c.Least = algo.Debt{Whole: r.int64(), Rest: r.int64()}
		if r.err != nil || c.HoldsBefore <= before || c.HoldsBefore > holds {
			return errors.New("invalid change of a limit")
		}
		before = c.HoldsBefore
		h.ledger.Changes = append(h.ledger.Changes, c)
	}
	for range ended {
		h.ended = append(h.ended, algo.EndedHold{ID: headgate.HoldID(r.bytes(16)), Deadline: r.int64()})
	}
	if delete(p.held, d); holds+ended > 0 && r.err == nil {
		p.held[d] = h
	}
	return nil
}

// document reads a document, or that it was removed.
func (p *replayer) document(r *record) error {
	name := string(r.bytes(int(r.byte())))
	version, content := headgate.DocumentVersion(r.uint64()), bytes.Clone(r.bytes(r.uint32()))
	if r.err != nil {
		return nil
	}
	all := &p.store.documents
	if name == "" {
		clear(all.byName)
		return nil
	}
	if err := headgate.ValidateDocument(name, content); err != nil {
		return err
	}
	if (version == 0) != (len(content) == 0) {
		return fmt.Errorf("document %q has version %d and %d bytes", name, version, len(content))
	}
	all.set(name, headgate.Document{Version: version, Content: content})
	return nil
}
