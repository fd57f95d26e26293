package respapi

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// call is a request with several checks, or about holds.
type call struct {
	operation engine.Operation
	checks    []engine.Check // not used for Commit and Extend
	ttl       time.Duration
	opened    engine.ClientHold   // hold that Hold opens
	holds     []engine.ClientHold // holds of the tokens in the request
	actual    []int64             // actual costs; nil cancels the hold
}

// submitCall makes the decision of a call. If it has several keys, all earlier decisions
// are made first.
func (w *worker) submitCall(c *call) {
	j := w.newJob()
	j.style, j.call = headgateStyle, c
	key, single := c.key()
	if w.h.networked && single {
		j.key = key
		w.queue(j)
		return
	}
	w.flush()
	j.err = w.traced(w.nextSpan(), func(ctx context.Context) error { return c.run(ctx, w.h.engine.ActiveConfig(), &j.answer) })
	w.writeReply(j)
	if w.h.networked {
		w.release(j)
	}
}

// key returns the only key of a call. single is false if it has several.
func (c *call) key() (key string, single bool) {
	checks := c.checks
	if len(c.holds) > 0 {
		checks = c.holds[0].Checks
	}
	return checks[0].Key, len(checks) == 1 && len(c.holds) < 2
}

// run makes the decision.
func (c *call) run(ctx context.Context, active *engine.ActiveConfig, a *engine.Answer) error {
	const now = headgate.StoreClock
	switch c.operation {
	case engine.Hold:
		c.opened.Checks = c.checks
		return active.Hold(ctx, now, c.ttl, &c.opened, a)
	case engine.Commit:
		if c.actual == nil {
			return active.Cancel(ctx, now, &c.holds[0], a)
		}
		return active.Commit(ctx, now, &c.holds[0], c.actual, a)
	case engine.Extend:
		return active.Extend(ctx, now, c.ttl, c.holds, a)
	case engine.Debit:
		return active.Debit(ctx, now, c.checks, a)
	case engine.TakeUpTo:
		return active.TakeUpTo(ctx, now, c.checks, a)
	}
	return active.Decide(ctx, headgate.Verb(c.operation), c.checks, a)
}

// hgHold runs HG.HOLD id ttl policy key [cost], or with several checks. The id * or an
// empty one is replaced by a random one.
func (w *worker) hgHold() {
	text := w.textOf(w.arg(1))
	if text == "*" {
		text = ""
	}
	id, err := engine.NewHoldID(text)
	if err != nil {
		w.reject("ERR " + engine.Reason(err))
		return
	}
	ttl, ok := w.durationAt(2)
	if !ok {
		return
	}
	checks, ok := w.checksFrom(3, "hg.hold")
	if !ok {
		return
	}
	h := engine.ClientHold{ID: id, Checks: checks}
	if err := h.CheckSize(w.h.maxCommit); err != nil {
		w.reject("ERR " + engine.Reason(err))
		return
	}
	w.submitCall(&call{operation: engine.Hold, checks: checks, ttl: ttl, opened: h})
}

// hgCommit runs HG.COMMIT hold actual [actual …].
func (w *worker) hgCommit() {
	actual := make([]int64, w.args()-2)
	for i := range actual {
		var ok bool
		if actual[i], ok = w.costAt(i + 2); !ok {
			return
		}
	}
	w.submitHolds(&call{operation: engine.Commit, actual: actual}, 1, 2)
}

// hgCancel runs HG.CANCEL hold.
func (w *worker) hgCancel() { w.submitHolds(&call{operation: engine.Commit}, 1, 2) }

// hgExtend runs HG.EXTEND ttl hold [hold …].
func (w *worker) hgExtend() {
	if ttl, ok := w.durationAt(1); ok {
		w.submitHolds(&call{operation: engine.Extend, ttl: ttl}, 2, w.args())
	}
}

// hgDebit runs HG.DEBIT policy key [cost], or with several checks.
func (w *worker) hgDebit() {
	if checks, ok := w.checksFrom(1, "hg.debit"); ok {
		w.submitCall(&call{operation: engine.Debit, checks: checks})
	}
}

// hgUpTo runs HG.UPTO policy key [cost], or with several checks.
func (w *worker) hgUpTo() {
	if checks, ok := w.checksFrom(1, "hg.upto"); ok {
		w.submitCall(&call{operation: engine.TakeUpTo, checks: checks})
	}
}

// submitHolds submits a call on the holds whose tokens are the arguments from, …, to-1.
func (w *worker) submitHolds(c *call, from, to int) {
	maxChecks := w.h.engine.ActiveConfig().MaxHoldChecks()
	for i := from; i < to; i++ {
		h, err := engine.ParseHold(string(w.arg(i)), maxChecks)
		if err != nil {
			w.reject("ERR " + engine.Reason(err))
			return
		}
		c.holds = append(c.holds, h)
	}
	w.submitCall(c)
}

// durationAt parses argument i as a duration. If it is not one, durationAt replies with
// an error and returns false.
func (w *worker) durationAt(i int) (time.Duration, bool) {
	d, err := time.ParseDuration(string(w.arg(i)))
	if err != nil {
		w.reject("ERR ttl is " + truncate(w.arg(i)) + "; must be a duration such as 30s, 10m or 1h")
	}
	return d, err == nil
}

// writeReply writes the reply to a call: the decision, the results of the checks, and the
// fields that only this operation has.
func (c *call) writeReply(w *worker, a *engine.Answer) {
	more := 1
	switch c.operation {
	case engine.Hold:
		if more = 2; a.Allowed {
			more = 4
		}
	case engine.Commit, engine.Extend, engine.TakeUpTo:
		if more = 2; a.Uncounted > 0 {
			more = 3
		}
	}
	w.writeDecision(a, more)
	w.writeResults(a, w.h.now())
	switch c.operation {
	case engine.Hold, engine.Commit:
		w.bulk("replayed")
		w.boolean(a.Replayed)
		switch more {
		case 3:
			w.bulk("uncounted")
			w.number(a.Uncounted)
		case 4:
			w.writeHold(&c.opened)
		}
	case engine.Extend:
		w.writeExtended(c.holds)
	case engine.TakeUpTo:
		w.bulk("granted")
		w.number(a.Granted)
	}
}

// writeExtended writes the result for each hold.
func (w *worker) writeExtended(holds []engine.ClientHold) {
	w.bulk("holds")
	w.array(len(holds))
	for i := range holds {
		h := &holds[i]
		if h.Err == nil {
			w.fields(3)
			w.bulk("extended")
			w.boolean(true)
			w.writeHold(h)
			continue
		}
		w.fields(2)
		w.bulk("extended")
		w.boolean(false)
		w.bulk("error")
		w.bulk(h.ErrorName())
	}
}

// writeHold writes the token and the deadline of a hold.
func (w *worker) writeHold(h *engine.ClientHold) {
	w.bulk("hold")
	w.bulk(h.Token())
	w.bulk("expires_at")
	w.time(h.Expires.Time())
}
