package fallback

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// check repeats a request in the background with a whole budget, because the caller had
// too little time. If all callers have short deadlines (20 ms from a proxy, for
// example), only a check finds out that the store hangs. One check runs at a time.
// After a reply the next check starts no sooner than a probe would.
func (b *breaker) check(q storeCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.checking || time.Since(b.lastCheck) < b.probeEvery {
		return
	}
	b.checking = true
	q = q.clone()
	b.done.Go(func() {
		answered := b.checkNow(q)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.checking = false; answered {
			b.lastCheck = time.Now()
		}
	})
}

// checkNow counts like a call, and reports whether the store replied.
func (b *breaker) checkNow(q storeCall) bool {
	p, ok := b.admit()
	if !ok {
		return true // the breaker is open, so the store is probed
	}
	start := time.Now()
	err := b.repeat(q)
	switch {
	case err == nil:
		if p.done != nil {
			b.noteDecided()
		}
		p.end(nil)
	case b.ctx.Err() != nil: // closed
		p.end(errNoEvidence)
	default:
		b.failed(p, start, verdict{reasonOf(err), err}, q)
	}
	return err == nil
}

// reasonOf returns why there was no reply.
func reasonOf(err error) headgate.StoreErrorReason {
	var known *headgate.StoreError
	if errors.As(err, &known) {
		return known.Reason
	}
	return headgate.ReasonTimedOut
}
