package memcachedstore

import (
	"time"

	"github.com/headgate/headgate/algo"
)

// giveBack undoes what the jobs took from a cell and then did not spend after all, when somebody else has spent there since: as
// much as is certain. What is taken under limits that differ, or at several instants, stays spent, and so does what a server that
// does not answer keeps.
func (r *round) giveBack(c *cell) {
	n := c.spent.n - c.next.n
	if !c.moved || c.left == nil || n <= 0 || c.spent.mixed || r.earliest != r.latest {
		return
	}
	for try := range r.store.options.MaxTries {
		if try > 0 && !r.store.pause(try) {
			return
		}
		now, err := r.present(c)
		if err != nil || now.raw == nil || now.decode(c.log != nil) != nil {
			return
		}
		if !r.undo(c, now, n) || !conflict(r.put(now, now.value())) {
			return
		}
	}
}

// undo takes n units of what the round left in a cell out of what is there now; it reports whether that changed anything.
func (r *round) undo(c, now *cell, n int64) bool {
	after, was := &cell{raw: c.left}, &cell{raw: c.before()}
	if after.decode(c.log != nil) != nil || was.decode(c.log != nil) != nil {
		return false
	}
	if c.next.n > 0 { // some of what was taken is spent
		was = c
	}
	if c.log != nil {
		step, counted := c.spent.by.log, now.log.Counted()
		step.Undo(now.log, newest(after.log), n)
		now.keepLog(now.log.Counted() != counted, step.ResetAt(now.log))
		return now.dirty
	}
	step, t := c.spent.by.step, r.earliest
	if !r.passedIn {
		t = time.Now().UnixMicro()
	}
	next := step.Undo(now.state, was.state, after.state, r.earliest, t, n)
	if next == now.state {
		return false
	}
	now.keep(next, step.ResetAt(next))
	return true
}

// newest is the instant of the newest entry of a log, 0 if it has none.
func newest(log *algo.Log) (at int64) {
	log.Units(func(entry, _ int64) bool {
		at = entry
		return true
	})
	return at
}
