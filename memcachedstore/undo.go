package memcachedstore

import (
	"time"

	"github.com/headgate/headgate/algo"
)

// undoUnspent refunds units that this round wrote as spent in a cell's key and that its
// jobs did not spend after all, if another process has written the key since. It
// refunds as many units as are certain. Units that were taken under different limits or
// at several instants stay spent. If the server does not answer, all of these units
// stay spent.
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

// undo refunds n of the units that the round has written as spent to the key of c. It
// changes only the parameter now, a cell with the current value of that key, and reports
// whether it has changed that cell.
func (r *round) undo(c, now *cell, n int64) bool {
	after, before := &cell{raw: c.writtenValue}, &cell{raw: c.previousValue()}
	if after.decode(c.log != nil) != nil || before.decode(c.log != nil) != nil {
		return false
	}
	if len(after.ledger.Holds)+len(before.ledger.Holds)+len(now.ledger.Holds) > 0 {
		return false // later commits depend on the charges since their holds were opened
	}
	if c.pendingDebit.units > 0 { // some of the units that were taken are spent
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
	resetAt := step.ResetAt(next)
	if next == before.state { // it may matter for longer under the limit with which it was written
		resetAt = max(resetAt, before.unusedAt)
	}
	now.keep(next, resetAt)
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
