package fallback

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// check repeats a request in the background with a whole time budget, after a caller
// had too little time. If all callers have short deadlines, for example 20 ms from a
// proxy, only a check can detect that the store hangs. Only one check runs at a time.
// After a check with a reply, the next one starts after ProbeEvery at the earliest.
func (b *breaker) check(q storeCall) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.checking || time.Since(b.lastCheck) < b.probeEvery {
		return
	}
	b.checking = true
	b.used.Store(b.now())
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

// checkNow repeats the request, counts the outcome like that of a call, and reports
// whether the store replied.
func (b *breaker) checkNow(q storeCall) bool {
	p, ok := b.admit()
	if !ok {
		return true // no check is needed: the breaker is open, so the store is probed
	}
	start := time.Now()
	err := b.repeat(q)
	switch {
	case err == nil:
		if p.done != nil {
			b.noteDecided()
		}
		p.end(nil)
	case b.ctx.Err() != nil: // the store was closed during the check
		p.end(errNoEvidence)
	default:
		b.failed(p, start, verdict{reasonOf(err), err}, q)
	}
	return err == nil
}

// reasonOf returns the reason in the error of a call without a reply; the default is
// ReasonTimedOut.
func reasonOf(err error) headgate.StoreErrorReason {
	var known *headgate.StoreError
	if errors.As(err, &known) {
		return known.Reason
	}
	return headgate.ReasonTimedOut
}
