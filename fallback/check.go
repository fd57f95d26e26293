package fallback

import (
	"errors"
	"time"

	"github.com/headgate/headgate"
)

// check asks in the background, with a whole budget, what a caller had too little time for. Where all callers are in a hurry (a proxy
// gives 20 ms, say) nobody else would find out that the store hangs. One check runs at a time, and once one had an answer the next
// begins no sooner than a probe would.
func (b *breaker) check(q question) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.checking || time.Since(b.checked) < b.every {
		return
	}
	b.checking = true
	q = q.kept()
	b.done.Go(func() {
		answered := b.checkNow(q)
		b.mu.Lock()
		defer b.mu.Unlock()
		if b.checking = false; answered {
			b.checked = time.Now()
		}
	})
}

// checkNow counts as a call does, and reports whether there was an answer.
func (b *breaker) checkNow(q question) bool {
	p, ok := b.admit()
	if !ok {
		return true // it is away, and probed
	}
	start := time.Now()
	err := b.ask(q)
	switch {
	case err == nil:
		if p.done != nil {
			b.noteDecided()
		}
		p.end(nil)
	case b.ctx.Err() != nil: // closed
		p.end(errSaysNothing)
	default:
		b.failed(p, start, verdict{troubleOf(err), err}, q)
	}
	return err == nil
}

// troubleOf is why there was no answer.
func troubleOf(err error) headgate.StoreErrorReason {
	var known *headgate.StoreError
	if errors.As(err, &known) {
		return known.Reason
	}
	return headgate.ReasonTimedOut
}
