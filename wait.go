package headgate

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/turn"
)

// Wait blocks until one unit of key is available, spends it and returns nil; see
// [Limiter.WaitN].
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN blocks until cost units of key are available, spends them and returns nil.
// Callers in this process that wait for the same key are served in FIFO order. Cost 0
// spends nothing and does not wait. WaitN returns immediately and spends nothing if
// cost is above the limit ([ErrNeverAllowed]), or if the units cannot be available
// before the deadline of the context ([ErrWouldExceedDeadline]). If the context ends
// during the wait, WaitN returns the error of the context. It first cancels its
// reservation; see [Reservation.Cancel].
//
// WaitN never polls. If the algorithm can reserve, each waiting caller costs the store
// one operation. Otherwise it costs one operation each time the RetryAfter of
// the previous decision has passed. Callers in other processes on the same store may be
// served in between.
func (l *Limiter) WaitN(ctx context.Context, key string, cost int64) error {
	err := l.wait(ctx, key, cost)
	l.observeWait(ctx, cost, err)
	return err
}

func (l *Limiter) observeWait(ctx context.Context, cost int64, err error) {
	if l.observer != nil {
		observe(ctx, l.observer, Event{Policy: l.policy.Name, Verb: "wait", Cost: cost, Decision: Decision{Allowed: err == nil}, Err: err})
	}
}

func (l *Limiter) wait(ctx context.Context, key string, cost int64) error {
	if err := l.checkWait(ctx, cost); err != nil {
		return err
	}
	if cost == 0 {
		_, err := l.decide(ctx, StoreClock, key, Take, 0)
		return err
	}
	return l.waitFirst(ctx, key, cost, func(w *waiter) error {
		if l.bound != nil && l.bound.CanReserve() {
			return l.waitReserved(ctx, w)
		}
		return l.waitRetry(ctx, w)
	})
}

// checkWait returns an error if a caller cannot wait for cost units.
func (l *Limiter) checkWait(ctx context.Context, cost int64) error {
	if err := checkRequest(StoreClock, cost); err != nil {
		return err
	}
	if err := l.checkNoHold("wait"); err != nil {
		return err
	}
	if cost > l.maxCost() {
		return ErrNeverAllowed
	}
	return ctx.Err()
}

// waitFirst blocks until the caller is the first waiter of the queue of key. It then
// calls serve, during which the caller stays the first.
func (l *Limiter) waitFirst(ctx context.Context, key string, cost int64, serve func(w *waiter) error) error {
	w, err := l.queues.join(ctx, key, cost, l.spacing)
	if err != nil {
		return err
	}
	defer l.queues.remove(w)
	select {
	case <-w.isFirst:
	case <-w.refused:
		return ErrWouldExceedDeadline
	case <-ctx.Done():
		return ctx.Err()
	}
	return serve(w)
}

// waitReserved serves the first waiter of a queue if the algorithm can reserve. If the
// context ends before the units are due, the reservation is cancelled.
func (l *Limiter) waitReserved(ctx context.Context, w *waiter) error {
	r, err := l.reserve(ctx, StoreClock, w.key, w.cost, w.timeLeft())
	if err != nil {
		return err
	}
	if !r.OK() {
		return refusal(r.decision)
	}
	err = l.await(ctx, w, r.Delay())
	if err != nil {
		ctx, done := turn.Detached(ctx)
		defer done()
		_ = r.Cancel(ctx) // after an error, the units stay spent
	}
	return err
}

// waitRetry serves the first waiter of a queue if the limits cannot reserve. After each
// denial it waits for RetryAfter and tries again. A policy with several leaky buckets can
// allow a request with a delay. If the context ends during this delay, the places in the
// queues stay taken, because later requests have already been given their delays.
func (l *Limiter) waitRetry(ctx context.Context, w *waiter) error {
	decisions := make([]Decision, len(l.bounds))
	d, err := l.retry(ctx, w, func() (Decision, error) { return l.takeInTime(ctx, w, decisions) })
	if err != nil {
		return err
	}
	return l.await(ctx, w, d.Delay)
}

// retry calls take until it allows the request, after the RetryAfter of each denial.
func (l *Limiter) retry(ctx context.Context, w *waiter, take func() (Decision, error)) (Decision, error) {
	for {
		d, err := take()
		switch {
		case err != nil || d.Allowed:
			return d, err
		case d.Never || d.RetryAfter > w.timeLeft():
			return d, refusal(d)
		}
		if err := l.await(ctx, w, d.RetryAfter); err != nil {
			return d, err
		}
	}
}

// takeInTime takes from all limits or from none. What was queued in a leaky bucket
// cannot be refunded, so a waiter with a deadline first peeks and takes only if the
// delay ends before the deadline.
func (l *Limiter) takeInTime(ctx context.Context, w *waiter, decisions []Decision) (Decision, error) {
	if l.policy.Algorithm.Queues() && !w.deadline.IsZero() {
		d, err := l.decideEach(ctx, StoreClock, w.key, Peek, w.cost, decisions)
		if err != nil || !d.Allowed {
			return d, err
		}
		if d.Delay > w.timeLeft() {
			return Decision{RetryAfter: d.Delay}, nil
		}
	}
	return l.decideEach(ctx, StoreClock, w.key, Take, w.cost, decisions)
}

func refusal(d Decision) error {
	if d.Never {
		return ErrNeverAllowed
	}
	return ErrWouldExceedDeadline
}

// await blocks for d, and records that the first waiter w will be granted then.
func (l *Limiter) await(ctx context.Context, w *waiter, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	due := time.Now().Add(d)
	l.queues.setFirstDue(w, due, l.spacing)
	err := turn.Await(ctx, due)
	if err != nil && ctx.Err() == nil {
		return ErrWouldExceedDeadline
	}
	return err
}

// spacing returns a lower bound on the time between the grant of the first waiter and
// the grant of a later waiter. The first requests head units, the later own units, and
// the waiters between them request between units in total. A leaky bucket grants a
// request when all earlier units have drained, whatever its own cost is.
func (l *Limiter) spacing(head, between, own int64) time.Duration {
	switch {
	case l.bound == nil:
		return 0
	case l.policy.Algorithm.Queues():
		return l.bound.Spacing(head + between)
	default:
		return l.bound.Spacing(between + own)
	}
}

func (l *Limiter) maxCost() int64 {
	most := l.bounds[0].Limit()
	for _, b := range l.bounds[1:] {
		most = min(most, b.Limit())
	}
	return most
}

// spacingFunc is the type of [Limiter.spacing].
type spacingFunc func(head, between, own int64) time.Duration

// waitQueues has a FIFO queue of waiters for each key that has at least one waiter. The
// zero value is ready for use.
type waitQueues struct {
	mu     sync.Mutex
	queues map[string]*waitQueue
}

// waitQueue contains the waiters of one key in FIFO order. Only the first waiter calls
// the store.
type waitQueue struct {
	waiters      list.List
	waitingUnits int64     // units requested by all waiters except the first
	firstDue     time.Time // time at which the first waiter is granted; zero until it has called the store
	unchecked    bool      // true if a waiter joined while firstDue was zero, so that its deadline was not checked
}

// waiter is one call of WaitN.
type waiter struct {
	key      string
	cost     int64
	deadline time.Time // zero if the caller has no deadline
	queue    *waitQueue
	element  *list.Element // nil after the waiter was removed; guarded by the mutex of waitQueues
	isFirst  chan struct{} // closed when this waiter becomes the first
	refused  chan struct{} // closed when this waiter cannot be granted before its deadline
}

// join appends a caller to the queue of key. It returns an error if the caller would
// certainly exceed its deadline.
func (r *waitQueues) join(ctx context.Context, key string, cost int64, spacing spacingFunc) (*waiter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := r.queues[key]
	if q == nil {
		q = &waitQueue{}
		if r.queues == nil {
			r.queues = make(map[string]*waitQueue)
		}
		r.queues[key] = q
	}
	w := &waiter{key: key, cost: cost, queue: q, isFirst: make(chan struct{}), refused: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	if q.waiters.Len() == 0 {
		close(w.isFirst)
	} else {
		if w.late(q, q.waitingUnits, spacing) {
			return nil, ErrWouldExceedDeadline
		}
		q.waitingUnits += cost
		q.unchecked = q.unchecked || q.firstDue.IsZero()
	}
	w.element = q.waiters.PushBack(w)
	return w, nil
}

// remove removes a waiter from its queue. If it was the first, remove wakes the next
// waiter.
func (r *waitQueues) remove(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := w.queue
	if w.element == nil {
		return // refused and already removed by setFirstDue
	}
	if q.waiters.Front() != w.element {
		q.removeLater(w)
		return
	}
	q.waiters.Remove(w.element)
	q.firstDue = time.Time{}
	if q.waiters.Len() == 0 {
		delete(r.queues, w.key)
		return
	}
	next := q.first()
	q.waitingUnits -= next.cost
	close(next.isFirst)
}

// setFirstDue records when the first waiter is granted. It refuses the later waiters
// that, given this time, would certainly exceed their deadlines.
func (r *waitQueues) setFirstDue(head *waiter, due time.Time, spacing spacingFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := head.queue
	q.firstDue = due
	if !q.unchecked {
		return
	}
	q.unchecked = false
	var between int64
	for e := q.waiters.Front().Next(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.late(q, between, spacing) {
			q.removeLater(w)
			close(w.refused)
		} else {
			between += w.cost
		}
	}
}

func (q *waitQueue) first() *waiter { return q.waiters.Front().Value.(*waiter) }

// removeLater removes a waiter that is not the first of its queue.
func (q *waitQueue) removeLater(w *waiter) {
	q.waiters.Remove(w.element)
	w.element = nil
	q.waitingUnits -= w.cost
}

// late reports whether w would certainly exceed its deadline. The parameter between is
// the number of units requested by the waiters between the first waiter and w.
func (w *waiter) late(q *waitQueue, between int64, spacing spacingFunc) bool {
	if w.deadline.IsZero() || q.firstDue.IsZero() {
		return false
	}
	return q.firstDue.Add(spacing(q.first().cost, between, w.cost)).After(w.deadline)
}

// timeLeft returns the time until the waiter's deadline, or MaxFillTime if there is no
// deadline.
func (w *waiter) timeLeft() time.Duration {
	if w.deadline.IsZero() {
		return MaxFillTime
	}
	return nonNegative(time.Until(w.deadline))
}
