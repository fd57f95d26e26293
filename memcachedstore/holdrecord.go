package memcachedstore

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// A hold that was ended before its deadline is kept until then as a record, so that a
// repeated request has no effect. The records of a key are in another key. The record is
// written before the hold is removed from the value of its key, and is read after that
// value. So if a process stops between these two steps, the hold is open, and every
// request finds the hold or its record. While the hold is open, its record is ignored.

// The value of the records of a key is the format byte, the latest deadline (8 bytes),
// and an id and a deadline for each record.
const (
	formatRecords byte = 0xb5
	recordLength       = len(headgate.HoldID{}) + 8
)

// recordsKey returns the key of the records of the key with the digest d.
func recordsKey(d digest) digest {
	sum := sha256.Sum256(append([]byte("holds "), d[:]...))
	return digest(sum[:16])
}

func encodeRecords(records algo.Ended) []byte {
	b := append(make([]byte, 0, headLength+len(records)*recordLength), formatRecords)
	b = binary.BigEndian.AppendUint64(b, uint64(records[len(records)-1].Deadline))
	for i := range records {
		b = binary.BigEndian.AppendUint64(append(b, records[i].ID[:]...), uint64(records[i].Deadline))
	}
	return b
}

// decodeRecords decodes the records of a key. A nil slice means that the key has none.
func decodeRecords(b []byte) (records algo.Ended, err error) {
	if b == nil {
		return nil, nil
	}
	if len(b) < headLength+recordLength || b[0] != formatRecords || (len(b)-headLength)%recordLength != 0 {
		return nil, errForeign
	}
	for b = b[headLength:]; len(b) > 0; b = b[recordLength:] {
		deadline := binary.BigEndian.Uint64(b[recordLength-8:])
		if deadline > maxUnusedAt {
			return nil, errForeign
		}
		records = append(records, algo.EndedHold{ID: headgate.HoldID(b[:recordLength-8]), Deadline: int64(deadline)})
	}
	return records, nil
}

// addEnded adds the record of a hold that is about to end.
func (c *cell) addEnded(op *holdOp, h algo.Hold) {
	c.ended = append(c.ended, algo.EndedHold{ID: h.ID, Deadline: h.Deadline})
	c.maxEnded = op.bound.maxHolds()
}

// maxHolds returns the maximum number of open holds of a key, and that of its ended ones.
func (b *bound) maxHolds() int { return min(b.holds.MaxOpenOrDefault(), MaxOpenHolds) }

// endedHold returns the record of an op's hold, if its deadline is after t.
func (c *cell) endedHold(op *holdOp, t int64) (algo.EndedHold, bool) {
	if h, ok := c.ended.Find(op.id, t); ok {
		return h, true
	}
	return op.record, op.record.Deadline > t
}

// readRecords reads the records of the holds that the jobs refer to and that are not
// open. A hold may have been opened and ended since the values were read. So if there is
// a record, readRecords reads the values again.
func (r *round) readRecords() error {
	for _, j := range r.claimed {
		for i := range j.holdOps() {
			j.holds.ops[i].record = algo.EndedHold{}
		}
	}
	for {
		found, err := r.readMissingRecords()
		if err != nil || !found {
			return err
		}
		if err := r.read(); err != nil {
			return err
		}
	}
}

// readMissingRecords reads the records that have not been read, and reports whether there
// is one.
func (r *round) readMissingRecords() (found bool, err error) {
	var ops []*holdOp
	var names []string
	for _, j := range r.claimed {
		for i := range j.holdOps() {
			op := &j.holds.ops[i]
			if op.record.Deadline == 0 && j.holds.needsRecord(op) && r.cells[op.cell].ledger.Find(op.id) < 0 {
				ops, names = append(ops, op), append(names, recordsKey(r.cells[op.cell].key).name())
			}
		}
	}
	items, err := r.store.fetch(slices.Compact(slices.Sorted(slices.Values(names))))
	if err != nil {
		return false, err
	}
	for i, op := range ops {
		item := items[names[i]]
		if item == nil {
			continue
		}
		records, err := decodeRecords(item.Value)
		if err != nil {
			return false, errForeignValue()
		}
		if h, ok := records.Find(op.id, 0); ok {
			op.record, found = h, true
		}
	}
	return found, nil
}

// holdOps returns the ops of a request on holds, or nil for any other request.
func (j *job) holdOps() []holdOp {
	if j.holds == nil {
		return nil
	}
	return j.holds.ops
}

// needsRecord reports whether the result for an op whose hold is not open depends on its
// record. A private hold that is opened has a new random id.
func (q *holdRequest) needsRecord(op *holdOp) bool {
	return q.verb == headgate.CommitHold || q.verb == headgate.OpenHold && !op.private
}

// writeRecords adds the holds that the jobs end to the stored records of the key of c.
func (r *round) writeRecords(c *cell) error {
	if len(c.ended) == 0 {
		return nil
	}
	key := recordsKey(c.key)
	for try := range r.store.options.MaxTries {
		if try > 0 && !r.store.waitBeforeRetry(try) {
			return headgate.ErrClosed
		}
		now, err := r.current(&cell{key: key, name: key.name()})
		if err != nil {
			return err
		}
		records, err := decodeRecords(now.raw)
		if err != nil {
			return errForeignValue()
		}
		for _, h := range c.ended {
			records = records.Add(h, r.earliest, c.maxEnded)
		}
		err = r.put(now, encodeRecords(records))
		if err == nil {
			return nil
		}
		if !isConflict(err) {
			return r.store.writeError(err)
		}
	}
	return errContended(r.store.options.MaxTries)
}

// openedHold is a hold that a value contains because of a job of this round.
type openedHold struct {
	id    headgate.HoldID
	bound *bound
}

// cancelUnopened cancels the holds that this round wrote in a cell's key and that its
// jobs did not open after all, if another process has written the key since. The state is
// then as if they had never been opened. If the server does not answer, they expire.
func (r *round) cancelUnopened(c *cell) {
	if !c.changed || c.writtenValue == nil {
		return
	}
	holds := c.unopened()
	for try := 0; len(holds) > 0 && try < r.store.options.MaxTries; try++ {
		if try > 0 && !r.store.waitBeforeRetry(try) {
			return
		}
		now, err := r.current(c)
		if err != nil || now.raw == nil || now.decode(c.log != nil) != nil {
			return
		}
		if !now.cancel(holds, r.latest) || !isConflict(r.put(now, now.value())) {
			return
		}
	}
}

// unopened returns the holds that were written and that no job has opened.
func (c *cell) unopened() (holds []openedHold) {
	pending := map[headgate.HoldID]bool{}
	for _, h := range c.pendingDebit.holds {
		pending[h.id] = true
	}
	for _, h := range c.debited.holds {
		if !pending[h.id] {
			holds = append(holds, h)
		}
	}
	return holds
}

// cancel ends holds as if nothing had been charged. It reports whether one was open.
func (c *cell) cancel(holds []openedHold, t int64) (changed bool) {
	for _, h := range holds {
		if i := c.ledger.Find(h.id); i >= 0 {
			a := c.account(h.bound)
			c.ledger.End(a, t, i, 0, false)
			c.save(h.bound, a)
			changed = true
		}
	}
	return changed
}
