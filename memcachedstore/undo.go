package memcachedstore

import (
	"time"

	"github.com/headgate/headgate/algo"
)

// undoUnspent undoes what the jobs took from a cell and then did not spend, if another
// process has written to the key since. It undoes as much as is certain. What was taken
// under different limits, or at several instants, stays spent. The same applies if the
// server does not answer.
func (r *round) undoUnspent(c *cell) {
	n := c.debited.units - c.pendingDebit.units
	if !c.changed || c.writtenValue == nil || n <= 0 || c.debited.mixed || r.earliest != r.latest {
		return
	}
	for try := range r.store.options.MaxTries {
		if try > 0 && !r.store.waitBeforeRetry(try) {
			return
		}
		now, err := r.current(c)
		if err != nil || now.raw == nil || now.decode(c.log != nil) != nil {
			return
		}
		if !r.undo(c, now, n) || !isConflict(r.put(now, now.value())) {
			return
		}
	}
}

// undo removes n units that the round wrote to a cell from the current value of the
// key. It reports whether that changed anything.
func (r *round) undo(c, now *cell, n int64) bool {
	after, before := &cell{raw: c.writtenValue}, &cell{raw: c.previousValue()}
	if after.decode(c.log != nil) != nil || before.decode(c.log != nil) != nil {
		return false
	}
	if c.pendingDebit.units > 0 { // some of what was taken is spent
		before = c
	}
	if c.log != nil {
		step, counted := c.debited.bound.log, now.log.Counted()
		step.Undo(now.log, newestEntry(after.log), n)
		now.keepLog(now.log.Counted() != counted, step.ResetAt(now.log))
		return now.dirty
	}
	step, t := c.debited.bound.step, r.earliest
	if !r.callerInstant {
		t = time.Now().UnixMicro()
	}
	next := step.Undo(now.state, before.state, after.state, r.earliest, t, n)
	if next == now.state {
		return false
	}
	now.keep(next, step.ResetAt(next))
	return true
}

// newestEntry returns the instant of the newest entry of a log, or 0 for an empty log.
func newestEntry(log *algo.Log) (at int64) {
	log.Units(func(entry, _ int64) bool {
		at = entry
		return true
	})
	return at
}
