package headgate

import (
	"container/list"
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/internal/turn"
)

// Wait blocks until one unit of key is there and has been spent, and returns nil; see [Limiter.WaitN].
func (l *Limiter) Wait(ctx context.Context, key string) error { return l.WaitN(ctx, key, 1) }

// WaitN blocks until cost units of key are there and have been spent. Callers of one key in this process are served in the
// order they came; cost 0 peeks and does not wait. WaitN returns immediately, and spends nothing, with [ErrNeverAllowed] if cost
// is above the limit and with [ErrWouldExceedDeadline] if the units cannot be granted before the context's deadline. If the context
// ends during the wait, WaitN cancels or refunds what it took, unless that would grant it twice, and returns the context's error.
//
// WaitN never polls: a waiter costs the store one operation if the algorithm can reserve, else one for each time that units were
// due. Other processes on the same store may be served in between.
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
	if cost > l.mostAtOnce() {
		return ErrNeverAllowed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if cost == 0 {
		_, err := l.decide(ctx, StoreClock, key, Take, 0)
		return err
	}
	w, err := l.waiters.join(ctx, key, cost, l.spacing)
	if err != nil {
		return err
	}
	defer l.waiters.leave(w)
	select {
	case <-w.turn:
	case <-w.refused:
		return ErrWouldExceedDeadline
	case <-ctx.Done():
		return ctx.Err()
	}
	if l.bound != nil && l.bound.CanReserve() {
		return l.waitBooked(ctx, w)
	}
	return l.waitRetrying(ctx, w)
}

// waitBooked is the head of a line with an algorithm that books ahead.
func (l *Limiter) waitBooked(ctx context.Context, w *waiter) error {
	began := time.Now()
	r, err := l.reserve(ctx, StoreClock, w.key, w.cost, w.patience())
	if err != nil {
		return err
	}
	if !r.OK() {
		return refusal(r.decision)
	}
	cancel := func(ctx context.Context) { _ = r.Cancel(ctx) } // what cannot be cancelled stays spent
	release := func(ctx context.Context) { l.release(ctx, w, began, []Decision{r.decision}) }
	return l.hold(ctx, w, r.Delay(), cancel, release)
}

// waitRetrying is the head of a line with limits that cannot book: it asks again when the store said to. Leaky buckets that admit a
// request together hold it back.
func (l *Limiter) waitRetrying(ctx context.Context, w *waiter) error {
	decisions := make([]Decision, len(l.bounds))
	for {
		began := time.Now()
		d, err := l.takeInTime(ctx, w, decisions)
		switch {
		case err != nil:
			return err
		case d.Allowed:
			release := func(ctx context.Context) { l.release(ctx, w, began, decisions) }
			return l.hold(ctx, w, d.Delay, release, release)
		case d.Never || d.RetryAfter > w.patience():
			return refusal(d)
		}
		if err := l.await(ctx, w, d.RetryAfter); err != nil {
			return err
		}
	}
}

// takeInTime takes from all limits or from none. A place in a queue stays taken, so a waiter with a deadline looks first whether its
// turn comes in time.
func (l *Limiter) takeInTime(ctx context.Context, w *waiter, decisions []Decision) (Decision, error) {
	if l.policy.Algorithm.Queues() && !w.deadline.IsZero() {
		d, err := l.askEach(ctx, StoreClock, w.key, Peek, w.cost, decisions)
		if err != nil || !d.Allowed {
			return d, err
		}
		if d.Delay > w.patience() {
			return Decision{RetryAfter: d.Delay}, nil
		}
	}
	return l.askEach(ctx, StoreClock, w.key, Take, w.cost, decisions)
}

// hold blocks the head of a line, which has what it asked for, until its turn. If it leaves before, it calls leave; if its context has
// a receipt, undo is noted there.
func (l *Limiter) hold(ctx context.Context, w *waiter, delay time.Duration, leave, undo func(context.Context)) error {
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

// release refunds what w took at began, limit by limit, unless that would grant it twice. It drops errors: units that cannot be
// refunded stay spent.
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

// await blocks the head of a line for d.
func (l *Limiter) await(ctx context.Context, w *waiter, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	due := time.Now().Add(d)
	l.waiters.announce(w, due, l.spacing)
	err := turn.Await(ctx, due)
	if err != nil && ctx.Err() == nil {
		return ErrWouldExceedDeadline
	}
	return err
}

// spacing is a lower bound of the time between the head's grant and that of a waiter for own units with between units in line
// before it. What a leaky bucket admits goes out when all before it has, however much it is itself.
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

func (l *Limiter) mostAtOnce() int64 {
	most := l.bounds[0].Limit()
	for _, b := range l.bounds[1:] {
		most = min(most, b.Limit())
	}
	return most
}

// pace is [Limiter.spacing].
type pace func(head, between, own int64) time.Duration

// waitingRoom holds a line of waiters for each key that has any. The zero value is empty and ready.
type waitingRoom struct {
	mu    sync.Mutex
	lines map[string]*line
}

// line is the waiters of one key, in the order they came; the first is the head and is the only one to ask the store.
type line struct {
	waiters list.List
	behind  int64     // units wanted by all but the head
	headDue time.Time // when the head will be served; zero while it has not asked yet
	unsure  bool      // somebody joined while headDue was zero, so whether it will be in time is unknown
}

// waiter is one caller of WaitN.
type waiter struct {
	key      string
	cost     int64
	deadline time.Time // zero: none
	line     *line
	place    *list.Element // nil once it was dropped; guarded by the room's mu
	turn     chan struct{} // closed when it is the head
	refused  chan struct{} // closed when it cannot be in time
}

// join puts a caller at the end of its key's line, unless it is already certain to be too late.
func (r *waitingRoom) join(ctx context.Context, key string, cost int64, spacing pace) (*waiter, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := r.lines[key]
	if ln == nil {
		ln = &line{}
		if r.lines == nil {
			r.lines = make(map[string]*line)
		}
		r.lines[key] = ln
	}
	w := &waiter{key: key, cost: cost, line: ln, turn: make(chan struct{}), refused: make(chan struct{})}
	w.deadline, _ = ctx.Deadline()
	if ln.waiters.Len() == 0 {
		close(w.turn)
	} else {
		if w.late(ln, ln.behind, spacing) {
			return nil, ErrWouldExceedDeadline
		}
		ln.behind += cost
		ln.unsure = ln.unsure || ln.headDue.IsZero()
	}
	w.place = ln.waiters.PushBack(w)
	return w, nil
}

// leave takes a waiter out of its line and, if it was the head, calls the next.
func (r *waitingRoom) leave(w *waiter) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := w.line
	if w.place == nil {
		return // it was refused
	}
	if ln.waiters.Front() != w.place {
		ln.drop(w)
		return
	}
	ln.waiters.Remove(w.place)
	ln.headDue = time.Time{}
	if ln.waiters.Len() == 0 {
		delete(r.lines, w.key)
		return
	}
	next := ln.head()
	ln.behind -= next.cost
	close(next.turn)
}

// announce notes when the head will be served, and refuses the waiters behind it that are now certain to be too late.
func (r *waitingRoom) announce(head *waiter, due time.Time, spacing pace) {
	r.mu.Lock()
	defer r.mu.Unlock()
	ln := head.line
	ln.headDue = due
	if !ln.unsure {
		return
	}
	ln.unsure = false
	var between int64
	for e := ln.waiters.Front().Next(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next()
		if w.late(ln, between, spacing) {
			ln.drop(w)
			close(w.refused)
		} else {
			between += w.cost
		}
	}
}

func (ln *line) head() *waiter { return ln.waiters.Front().Value.(*waiter) }

// drop takes a waiter that is not the head out of the line, so that nobody counts it any more.
func (ln *line) drop(w *waiter) {
	ln.waiters.Remove(w.place)
	w.place = nil
	ln.behind -= w.cost
}

// late reports whether w is sure to come too late with between units in line before it and behind the head.
func (w *waiter) late(ln *line, between int64, spacing pace) bool {
	if w.deadline.IsZero() || ln.headDue.IsZero() {
		return false
	}
	return ln.headDue.Add(spacing(ln.head().cost, between, w.cost)).After(w.deadline)
}

// patience returns how long this waiter can still wait.
func (w *waiter) patience() time.Duration {
	if w.deadline.IsZero() {
		return MaxFillTime
	}
	return nonNegative(time.Until(w.deadline))
}
