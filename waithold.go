package headgate

import (
	"context"
	"errors"
	"time"
)

// waitHold is like [Limiter.WaitN], and opens a hold that expires after ttl. The limiter
// must not have a queue. The hold is nil if the units were spent without one, because the
// key has too many open holds, or there is no memory for another one.
func (l *Limiter) waitHold(ctx context.Context, key string, cost int64, ttl time.Duration) (*Hold, error) {
	h := &Hold{id: NewHoldID(), private: true}
	h.checks = append(h.first[:0], Check{l, key, cost})
	opened, err := l.openInTurn(ctx, h, ttl)
	if !errors.Is(err, ErrUnsupported) { // otherwise the caller can use WaitN
		l.observeWait(ctx, cost, err)
	}
	if err != nil || !opened {
		return nil, err
	}
	return h, nil
}

// openInTurn opens h when its units are available. It reports false if it has spent them
// without a hold.
func (l *Limiter) openInTurn(ctx context.Context, h *Hold, ttl time.Duration) (opened bool, err error) {
	c := &h.checks[0]
	if err := l.checkWait(ctx, c.Cost); err != nil {
		return false, err
	}
	if c.Cost == 0 {
		return true, h.open(ctx, ttl)
	}
	err = l.waitFirst(ctx, c.Key, c.Cost, func(w *waiter) error {
		_, err := l.retry(ctx, w, func() (Decision, error) {
			err := h.open(ctx, ttl)
			return h.decision, err
		})
		if opened = err == nil; errors.Is(err, ErrTooManyHolds) || errors.Is(err, ErrStoreFull) {
			return l.waitRetry(ctx, w)
		}
		return err
	})
	return opened, err
}

// open opens h, without an event for the observer.
func (h *Hold) open(ctx context.Context, ttl time.Duration) error {
	ops, err := opsOf(StoreClock, h.checks)
	if err != nil {
		return err
	}
	results := make([]HoldResult, len(ops))
	at, err := applyHoldOps(ctx, h.checks[0].Limiter.store, StoreClock, OpenHold, ttl, h.ops(ops), results)
	if err != nil {
		return err
	}
	result := combineResults(results)
	h.decision = result.Decision
	h.setExpires(result.Deadline, at, ttl)
	return nil
}

// settle ends holds of one store with the amounts that they have charged, without an
// event for the observer. It makes one store operation. After an error, the units stay
// spent, or are released if the policy releases expired holds.
func settle(ctx context.Context, holds []*Hold) {
	var all []HoldOp
	for _, h := range holds {
		ops, err := opsOf(StoreClock, h.checks)
		if err != nil {
			return // impossible: the holds were opened with these checks
		}
		all = append(all, h.ops(ops)...)
	}
	if len(all) > 0 {
		_, _ = applyHoldOps(ctx, holds[0].checks[0].Limiter.store, StoreClock, CommitHold, 0, all, make([]HoldResult, len(all)))
	}
}

// takeNow takes the costs of all checks, or of none, and reports whether it has taken
// them. It takes nothing if a caller of [Limiter.WaitN] waits for one of the keys, or if
// an algorithm has a queue or requires a hold. The observers receive the events of
// WaitN if the costs were taken, and none otherwise.
func takeNow(ctx context.Context, checks []Check) bool {
	for i := range checks {
		c := &checks[i]
		if l := c.Limiter; l.onlyHolds || l.policy.Algorithm.Queues() || l.queues.hasWaiters(c.Key) {
			return false
		}
	}
	ops, err := opsOf(StoreClock, checks)
	if err != nil {
		return false
	}
	decisions := make([]Decision, len(ops))
	err = applyOps(ctx, checks[0].Limiter.store, StoreClock, ops, false, decisions)
	if err != nil || !combine(decisions).Allowed {
		return false
	}
	for i := range checks {
		checks[i].Limiter.observeWait(ctx, checks[i].Cost, nil)
	}
	return true
}

// hasWaiters reports whether a caller waits for key.
func (r *waitQueues) hasWaiters(key string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.queues[key] != nil
}
