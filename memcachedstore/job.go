package memcachedstore

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// job is what one caller asks. It may be tried several times; only the last try counts.
type job struct {
	now   headgate.Instant
	peek  bool // it changes nothing
	stage atomic.Int32
	done  chan struct{} // closed when err, and the answer in what, are there
	err   error

	single  *single  // one of the two
	several *several //
}

// The stages of a job. Whoever moves it from waiting on owns the outcome: its caller, who then leaves and has spent nothing, or
// the round that may write for it.
const (
	waiting int32 = iota
	taken
	withdrawn
)

func (j *job) take() bool     { return j.stage.CompareAndSwap(waiting, taken) }
func (j *job) putBack()       { j.stage.CompareAndSwap(taken, waiting) }
func (j *job) withdraw() bool { return j.stage.CompareAndSwap(waiting, withdrawn) }

// denied says so of a job on several keys that was decided. Once something is written it stays so: what was written might not
// be found as it was left, to add to it.
func (j *job) denied() bool {
	return slices.ContainsFunc(j.several.decisions, func(d headgate.Decision) bool { return !d.Allowed })
}

func (j *job) answer(err error) {
	j.err = err
	close(j.done)
}

// instant is when the job is decided: clock is the present.
func (j *job) instant(clock int64) int64 {
	if j.now == headgate.StoreClock {
		return clock
	}
	return int64(j.now)
}

// apply decides the job on cells, and leaves in them what is to be kept.
func (j *job) apply(cells []*cell, clock int64) {
	t := j.instant(clock)
	switch {
	case j.several != nil:
		j.several.apply(cells, t, j.peek)
	case j.single.bound.log != nil:
		j.single.applyLog(cells[0], t)
	default:
		j.single.apply(cells[0], t)
	}
}

// single is a request on one key.
type single struct {
	bound    *bound
	request  algo.Request
	decision headgate.Decision
	mark     headgate.ReservationToken
}

func (q *single) apply(c *cell, t int64) {
	r, step := &q.request, q.bound.step
	r.T = t
	out := algo.Apply(step, c.state, r)
	if r.Verb != algo.Peek {
		c.keep(out.Next, step.ResetAt(out.Next))
	}
	q.decision = q.bound.named(algo.AnswerTo(step, r, &out))
	q.mark = headgate.ReservationToken{out.Next.A, out.Next.B, out.Next.C}
}

func (q *single) applyLog(c *cell, t int64) {
	step, n, counted := q.bound.log, q.request.N, c.log.Counted()
	asked, allowed, changed := int64(0), true, false
	switch q.request.Verb {
	case algo.Take:
		asked, allowed = n, step.Take(c.log, t, n, c.log.Len() < q.bound.store.mostEntries)
		changed = allowed && n > 0
	case algo.Peek:
		asked, allowed = n, step.Fits(c.log, t, n)
	case algo.Refund:
		step.Refund(c.log, t, n)
		changed = n > 0 && counted > 0
	default: // reset
		*c.log = algo.Log{}
		changed = counted > 0
	}
	if q.request.Verb != algo.Peek {
		c.keepLog(changed, step.ResetAt(c.log))
	}
	q.decision = q.bound.named(step.Answer(c.log, t, asked, allowed))
}

// do has a job done, on the keys of these digests, and waits for it as long as ctx allows.
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
		return j.leave(ctx.Err())
	}
}

// leave is what a caller is told who cannot wait any longer. A job that nobody has taken up is withdrawn, and spends nothing.
func (j *job) leave(cause error) error {
	if j.withdraw() {
		return errLateUnspent(cause)
	}
	select {
	case <-j.done: // just now
		return j.err
	default:
	}
	if j.peek {
		return errLateUnspent(cause)
	}
	return errLate(cause)
}
