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

// WaitN blocks until cost units of key are available, spends them and returns nil. The
// callers of one key in this process are served in FIFO order. Cost 0 peeks and does
// not wait. WaitN returns immediately, and spends nothing, with [ErrNeverAllowed] if
// cost is above the limit, and with [ErrWouldExceedDeadline] if the units cannot be
// granted before the context's deadline. If the context ends during the wait, WaitN
// cancels or refunds what it took, unless that would grant it twice, and returns the
// context's error.
//
// WaitN never polls. If the algorithm can reserve, a waiter costs the store one
// operation; otherwise it costs one each time that units were due. Other processes on
// the same store may be served in between.
func (l *Limiter) WaitN(ctx context.Context, key string, cost int64) error {
	err := l.wait(ctx, key, cost)
	if l.observer != nil {
		l.observer.Observe(Event{Policy: l.policy.Name, Verb: "wait", Cost: cost, Decision: Decision{Allowed: err == nil}, Err: err})
	}
	return err
}

func (l *Limiter) wait(ctx context.Context, key string, cost int64) error {
	if err := checkRequest(StoreClock, cost); err != nil {
		return err
	}
	if cost > l.maxCost() {
		return ErrNeverAllowed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if cost == 0 {
		_, err := l.decide(ctx, StoreClock, key, Take, 0)
		return err
	}
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
	if l.bound != nil && l.bound.CanReserve() {
		return l.waitReserved(ctx, w)
	}
	return l.waitRetry(ctx, w)
}

// waitReserved serves the first waiter of a queue under an algorithm that can reserve.
func (l *Limiter) waitReserved(ctx context.Context, w *waiter) error {
	began := time.Now()
	r, err := l.reserve(ctx, StoreClock, w.key, w.cost, w.timeLeft())
	if err != nil {
		return err
	}
	if !r.OK() {
		return refusal(r.decision)
	}
	cancel := func(ctx context.Context) { _ = r.Cancel(ctx) } // if it fails the units stay spent
	release := func(ctx context.Context) { l.release(ctx, w, began, []Decision{r.decision}) }
	return l.waitUntilDue(ctx, w, r.Delay(), cancel, release)
}

// waitRetrying serves the first waiter of a queue under limits that cannot reserve: it
// retries when the last decision promised units. Several leaky buckets can
// allow a request with a delay.
func (l *Limiter) waitRetry(ctx context.Context, w *waiter) error {
	decisions := make([]Decision, len(l.bounds))
	for {
		began := time.Now()
		d, err := l.takeInTime(ctx, w, decisions)
		switch {
		case err != nil:
			return err
		case d.Allowed:
			release := func(ctx context.Context) { l.release(ctx, w, began, decisions) }
			return l.waitUntilDue(ctx, w, d.Delay, release, release)
		case d.Never || d.RetryAfter > w.timeLeft():
			return refusal(d)
		}
		if err := l.await(ctx, w, d.RetryAfter); err != nil {
			return err
		}
	}
}

// takeInTime takes from all limits or from none. A reserved place in a leaky bucket
// stays taken, so a waiter with a deadline first peeks whether its delay ends in time.
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

// hold blocks the first waiter, which already has its units, until they are due. If the
// context ends earlier, hold calls leave. If the context has a receipt, hold adds undo
// to it.
func (l *Limiter) waitUntilDue(ctx context.Context, w *waiter, delay time.Duration, leave, undo func(context.Context)) error {
	err := l.await(ctx, w, delay)
	if err != nil {
		ctx, done := turn.Detached(ctx)
		defer done()
		leave(ctx)
	} else if receipt := turn.ReceiptOf(ctx); receipt != nil {
		receipt.Add(undo)
	}
	return err
}

// release refunds what w took at began, limit by limit, unless that would grant it
// twice. It ignores errors: units that cannot be refunded stay spent.
func (l *Limiter) release(ctx context.Context, w *waiter, began time.Time, decisions []Decision) {
	for i, b := range l.bounds {
		taken := turn.Taken{
			Queues: l.policy.Algorithm.Queues(), Age: time.Since(began), ResetAfter: decisions[i].ResetAfter,
		}
		if taken.Undo() == turn.Refund {
			granted := turn.WithSource(ctx, decisions[i].Degraded != ReasonNone)
			_, _ = b.Apply(granted, StoreClock, w.key, Refund, w.cost)
		}
	}
}

func refusal(d Decision) error {
	if d.Never {
		return ErrNeverAllowed
	}
	return ErrWouldExceedDeadline
}

// await blocks the first waiter of a queue for d.
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

// spacing returns a lower bound of the time between the grant of the first waiter and
// the grant of a waiter for own units, with between units queued between them. A leaky
// bucket releases a request when all earlier units have drained, regardless of the
// request's own cost.
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

// waitQueues has a FIFO queue of waiters for each key with at least one waiter. The
// zero value is ready for use.
type waitQueues struct {
	mu     sync.Mutex
	queues map[string]*waitQueue
}

// waitQueue is the waiters of one key in FIFO order. Only the first one calls the
// store.
type waitQueue struct {
	waiters      list.List
	waitingUnits int64     // units requested by all waiters but the first
	firstDue     time.Time // when the first waiter is granted; zero until it has called the store
	unchecked    bool      // a waiter joined while headDue was zero: its deadline is not checked yet
}

// waiter is one call of WaitN.
type waiter struct {
	key      string
	cost     int64
	deadline time.Time // zero if there is none
	queue    *waitQueue
	element  *list.Element // nil after the waiter was removed; guarded by the mutex of waitQueues
	isFirst  chan struct{} // closed when it is the first waiter
	refused  chan struct{} // closed when it cannot be granted in time
}

// join appends a caller to the queue of its key. It returns an error if the caller is
// certain to exceed its deadline.
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

// leave removes a waiter from its queue. If it was the first, leave wakes the next one.
func (r *waitQueues) remove(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q := w.queue
	if w.element == nil {
		return // refused by announce
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

// announce records when the first waiter is granted, and refuses the later waiters that
// are now certain to exceed their deadlines.
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

// drop removes a waiter that is not the first.
func (q *waitQueue) removeLater(w *waiter) {
	q.waiters.Remove(w.element)
	w.element = nil
	q.waitingUnits -= w.cost
}

// late reports whether w is certain to exceed its deadline, with between units queued
// between the first waiter and w.
func (w *waiter) late(q *waitQueue, between int64, spacing spacingFunc) bool {
	if w.deadline.IsZero() || q.firstDue.IsZero() {
		return false
	}
	return q.firstDue.Add(spacing(q.first().cost, between, w.cost)).After(w.deadline)
}

// timeLeft returns the time until the waiter's deadline.
func (w *waiter) timeLeft() time.Duration {
	if w.deadline.IsZero() {
		return MaxFillTime
	}
	return nonNegative(time.Until(w.deadline))
}
