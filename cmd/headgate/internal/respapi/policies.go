package respapi

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

func (w *worker) hgCheck()  { w.hgCommand(headgate.Take) }
func (w *worker) hgPeek()   { w.hgCommand(headgate.Peek) }
func (w *worker) hgRefund() { w.hgCommand(headgate.Refund) }
func (w *worker) hgReset()  { w.hgCommand(headgate.Reset) }

// hgCommand runs the command HG.CHECK, HG.PEEK, HG.REFUND or HG.RESET with the
// arguments policy key [cost].
func (w *worker) hgCommand(verb headgate.Verb) {
	cost := int64(1)
	if w.args() > 4 {
		w.wrongArity([...]string{"hg.check", "hg.peek", "hg.refund", "hg.reset"}[verb])
		return
	}
	if w.args() == 4 {
		var ok bool
		if cost, ok = parseInt(w.arg(3)); !ok {
			w.reject(errNotAnInteger)
			return
		}
	}
	if len(w.arg(1)) == 0 {
		w.reject("NOPOLICY policy name is empty")
		return
	}
	j := w.newJob()
	j.style, j.verb, j.cost = headgateStyle, verb, cost
	j.policy, j.key = w.textOf(w.arg(1)), w.textOf(w.arg(2))
	w.submit(j)
}

// writeDecision writes a decision with the same fields, in the same order, as the HTTP
// API. Times are in milliseconds, rounded up.
func (w *worker) writeDecision(a *engine.Answer) {
	w.fields(10)
	w.bulk("allowed")
	w.boolean(a.Allowed)
	w.bulk("limit")
	w.number(a.Limit)
	w.bulk("remaining")
	w.number(a.Remaining)
	w.bulk("retry_after_ms")
	w.number(millis(a.RetryAfter))
	w.bulk("reset_after_ms")
	w.number(millis(a.ResetAfter))
	w.bulk("delay_ms")
	w.number(millis(a.Delay))
	w.bulk("never")
	w.boolean(a.Never)
	w.bulk("policy")
	w.bulk(a.Policy)
	w.bulk("denied_by")
	w.bulks(a.DeniedBy)
	w.bulk("degraded")
	w.boolean(a.Degraded != headgate.ReasonNone)
}

// millis returns d in whole milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
