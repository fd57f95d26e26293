package memcachedstore

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// job is the request of one caller. A round may apply a job several times; only the
// result of the last time is returned.
type job struct {
	now   headgate.Instant
	peek  bool // the request must not change any state
	stage atomic.Int32
	done  chan struct{} // closed once err and the result are set
	err   error

	single *singleKey // set for a request on one key
	multi  *multiKey  // set for a request on several keys
	holds  *holdRequest
	lease  *leaseRequest
	list   *listRequest
}

// The stages of a job. A job starts in jobWaiting. A round that will write for the job
// moves it to jobClaimed. A caller that stops waiting moves it to jobAbandoned, and
// returns without spending. Only one of them can succeed.
const (
	jobWaiting int32 = iota
	jobClaimed
	jobAbandoned
)

func (j *job) claim() bool   { return j.stage.CompareAndSwap(jobWaiting, jobClaimed) }
func (j *job) unclaim()      { j.stage.CompareAndSwap(jobClaimed, jobWaiting) }
func (j *job) abandon() bool { return j.stage.CompareAndSwap(jobWaiting, jobAbandoned) }

// denied reports whether a job on several keys was denied. Once a round has written a
// key, a denied job stays denied: another process may have changed that key, so the
// round can no longer charge more to it.
func (j *job) denied() bool {
	if j.holds != nil {
		return j.holds.denied()
	}
	return slices.ContainsFunc(j.multi.decisions, func(d headgate.Decision) bool { return !d.Allowed })
}

func (j *job) complete(err error) {
	j.err = err
	close(j.done)
}

// instant returns the instant at which the job is decided: clock, which is the current
// time, or the instant that the caller passed.
func (j *job) instant(clock int64) int64 {
	if j.now == headgate.StoreClock {
		return clock
	}
	return int64(j.now)
}

// apply decides the job on the values in cells, and stores the new values in cells.
func (j *job) apply(cells []*cell, clock int64) {
	t := j.instant(clock)
	switch {
	case j.multi != nil:
		j.multi.apply(cells, t, j.peek)
	case j.holds != nil:
		j.holds.apply(cells, t)
	case j.lease != nil:
		j.lease.apply(cells[0], t)
	case j.list != nil:
		j.list.apply(cells[0], t)
	case j.single.bound.log != nil:
		j.single.applyLog(cells[0], t)
	default:
		j.single.apply(cells[0], t)
	}
}

// singleKey is a request on one key.
type singleKey struct {
	bound    *bound
	request  algo.Request
	decision headgate.Decision
	token    headgate.ReservationToken
}

func (q *singleKey) apply(c *cell, t int64) {
	r, step := &q.request, q.bound.step
	r.T = t
	if r.Verb == algo.Peek {
		c = c.expired(q.bound, t)
	} else {
		c.expire(q.bound, t)
	}
	out := algo.Apply(step, c.state, r)
	if r.Verb == algo.Reset && len(c.ledger.Holds) > 0 {
		c.reset(q.bound, t)
		out.Next = c.state
	}
	if r.Verb != algo.Peek {
		out.Next = c.set(q.bound, t, out.Next)
	}
	d := algo.AnswerTo(step, r, &out)
	if q.bound.onlyHolds { // the waits depend on deadlines
		d = c.ledger.Answer(step, out.Next, t, out.Asked, out.Spent, out.Allowed)
	}
	q.decision = q.bound.withDeniedBy(d)
	q.token = headgate.ReservationToken{out.Next.A, out.Next.B, out.Next.C}
}

func (q *singleKey) applyLog(c *cell, t int64) {
	if q.request.Verb == algo.Peek {
		c = c.expired(q.bound, t)
	} else {
		c.expire(q.bound, t)
	}
	step, n, counted := q.bound.log, q.request.N, c.log.Counted()
	requested, allowed, changed := int64(0), true, false
	switch q.request.Verb {
	case algo.Take:
		requested, allowed = n, step.Take(c.log, t, n, c.log.Len() < c.maxEntries(q.bound.store))
		changed = allowed && n > 0
	case algo.Peek:
		requested, allowed = n, step.Fits(c.log, t, n)
	case algo.Refund:
		step.Refund(c.log, t, n)
		c.spendLeasedAgain(q.bound, t)
		changed = n > 0 && counted > 0
	default: // reset
		*c.log = algo.Log{}
		c.reset(q.bound, t)
		changed = counted > 0
	}
	if q.request.Verb != algo.Peek {
		c.keepLog(changed, max(c.leasedUntil(q.bound), step.ResetAt(c.log)))
	}
	q.decision = q.bound.withDeniedBy(step.Answer(c.log, t, requested, allowed))
}

// do executes a job on the keys with the given digests, and waits for the result or
// until ctx ends.
func (s *Store) do(ctx context.Context, j *job, keys []digest) error {
	if err := ctx.Err(); err != nil {
		if s.isClosed() {
			return headgate.ErrClosed
		}
		return err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.options.Timeout)
		defer cancel()
	}
	if err := s.submit(j, keys); err != nil {
		return err
	}
	select {
	case <-j.done:
		return j.err
	case <-ctx.Done():
		s.suspect(namesOf(keys))
		return j.abandonError(ctx.Err())
	}
}

func namesOf(keys []digest) []string {
	names := make([]string, len(keys))
	for i, d := range keys {
		names[i] = d.name()
	}
	return names
}

// abandonError returns the error for a caller that stops waiting because of cause. A
// job that no round has claimed is abandoned and spends nothing.
func (j *job) abandonError(cause error) error {
	if j.abandon() {
		return errNotSent(cause)
	}
	select {
	case <-j.done: // the job completed in the meantime
		return j.err
	default:
	}
	if j.peek {
		return errNotSent(cause)
	}
	return errTimedOut(cause)
}
