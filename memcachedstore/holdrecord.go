package memcachedstore

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/bradfitz/gomemcache/memcache"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// A hold that was ended before its deadline is kept until then as a record under a key of
// its own, so that a repeated request has no effect. The record is written before the
// hold is removed from the value of its key, and is read after that value. So a process
// that stops in between leaves an open hold, and a request never finds neither of them.
// While the hold is open, its record is ignored.

// endedHold is the record of a hold that has ended. The id has the checksum of the
// request.
type endedHold struct {
	id       headgate.HoldID
	deadline int64
}

// A record has the format, the deadline in the place of the instant of a state, and the
// id.
const (
	formatRecord byte = 0xb5
	recordLength      = headLength + len(headgate.HoldID{})
)

// recordKey returns the key of the record of a hold on the key with the digest d.
func recordKey(d digest, id headgate.HoldID) digest {
	name := algo.NameOf(id)
	sum := sha256.Sum256(append(append([]byte("hold "), d[:]...), name[:]...))
	return digest(sum[:16])
}

func (e *endedHold) value() []byte {
	b := append(make([]byte, 0, recordLength), formatRecord)
	b = binary.BigEndian.AppendUint64(b, uint64(e.deadline))
	return append(b, e.id[:]...)
}

func decodeRecord(b []byte) (*endedHold, error) {
	if len(b) != recordLength || b[0] != formatRecord {
		return nil, errForeign
	}
	deadline := binary.BigEndian.Uint64(b[1:])
	if deadline > maxUnusedAt {
		return nil, errForeign
	}
	return &endedHold{headgate.HoldID(b[headLength:]), int64(deadline)}, nil
}

// addEnded adds the record of a hold that is about to end.
func (c *cell) addEnded(op *holdOp, h algo.Hold) {
	if c.ended == nil {
		c.ended = map[digest]*endedHold{}
	}
	c.ended[op.recordKey] = &endedHold{h.ID, h.Deadline}
}

// endedHold returns the record of an op's hold if its deadline is after t, or nil.
func (c *cell) endedHold(op *holdOp, t int64) *endedHold {
	for _, e := range []*endedHold{c.ended[op.recordKey], op.record} {
		if e != nil && e.deadline > t {
			return e
		}
	}
	return nil
}

// readRecords reads the records of the holds that the jobs refer to and that are not
// open. A hold may have been opened and ended since the values were read. So if there is
// a record, readRecords reads the values again.
func (r *round) readRecords() error {
	for _, j := range r.claimed {
		for i := range j.holdOps() {
			j.holds.ops[i].record = nil
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
			if op.record == nil && j.holds.needsRecord(op) && r.cells[op.cell].ledger.Find(op.id) < 0 {
				ops, names = append(ops, op), append(names, op.recordKey.name())
			}
		}
	}
	items, err := r.store.fetch(names)
	if err != nil {
		return false, err
	}
	for i, op := range ops {
		if item := items[names[i]]; item != nil {
			if op.record, err = decodeRecord(item.Value); err != nil {
				return false, errForeignValue()
			}
			found = true
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

// writeRecords writes the records of the holds that the jobs end in the key of c.
func (r *round) writeRecords(c *cell) error {
	for key, e := range c.ended {
		r.store.written.add(key)
		err := r.store.writer.Set(&memcache.Item{
			Key: key.name(), Value: e.value(),
			Expiration: expiration(requiredTTL(e.deadline, r.earliest, r.callerInstant), time.Now().Unix()),
		})
		if err != nil {
			return r.store.writeError(err)
		}
	}
	return nil
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
