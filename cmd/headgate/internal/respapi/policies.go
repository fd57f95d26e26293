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
// arguments policy key [cost], or policy key cost for each of several checks.
func (w *worker) hgCommand(verb headgate.Verb) {
	name := [...]string{"hg.check", "hg.peek", "hg.refund", "hg.reset"}[verb]
	if w.args() > 4 {
		if checks, ok := w.checksFrom(1, name); ok {
			w.submitCall(&call{operation: engine.Operation(verb), checks: checks})
		}
		return
	}
	cost, ok := w.costAt(3)
	if !ok {
		return
	}
	if len(w.arg(1)) == 0 {
		w.reject(errNoPolicy)
		return
	}
	j := w.newJob()
	j.style, j.verb, j.cost = headgateStyle, verb, cost
	j.policy, j.key = w.textOf(w.arg(1)), w.textOf(w.arg(2))
	w.submit(j)
}

const errNoPolicy = "NOPOLICY policy name is empty"

// costAt parses argument i as a cost; a missing argument means 1. If it is not an
// integer, costAt replies with an error and returns false.
func (w *worker) costAt(i int) (cost int64, ok bool) {
	if i >= w.args() {
		return 1, true
	}
	if cost, ok = parseInt(w.arg(i)); !ok {
		w.reject(errNotAnInteger)
	}
	return cost, ok
}

// checksFrom parses the arguments from index i on as policy key [cost], or as policy key
// cost for each of several checks. For other arguments, it replies with an error, in
// which name is the command, and returns false.
func (w *worker) checksFrom(i int, name string) (checks []engine.Check, ok bool) {
	if n := w.args() - i; n < 2 || n > 2 && n%3 != 0 {
		w.wrongArity(name)
		return nil, false
	}
	for ; i < w.args(); i += 3 {
		if len(w.arg(i)) == 0 {
			w.reject(errNoPolicy)
			return nil, false
		}
		cost, ok := w.costAt(i + 2)
		if !ok {
			return nil, false
		}
		checks = append(checks, engine.Check{Policy: w.textOf(w.arg(i)), Key: w.textOf(w.arg(i + 1)), Cost: cost})
	}
	return checks, true
}

// writeDecision writes a decision with the same fields, in the same order, as the HTTP
// API, without the results. Times are in milliseconds, rounded up. The caller writes
// further fields, more of them in number.
func (w *worker) writeDecision(a *engine.Answer, more int) {
	w.fields(10 + leasedFields(a.Leased) + more)
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
	w.leased(a.Leased)
}

// leasedFields returns the number of fields that leased writes.
func leasedFields(leased bool) int {
	if leased {
		return 1
	}
	return 0
}

// leased writes the field leased, which only a decision from memory has.
func (w *worker) leased(leased bool) {
	if leased {
		w.bulk("leased")
		w.boolean(true)
	}
}

// writeResults writes the result of each check, with the same fields, in the same order,
// as the HTTP API. now is the time of the answer.
func (w *worker) writeResults(a *engine.Answer, now time.Time) {
	results := a.AppendResults(nil)
	w.bulk("results")
	w.array(len(results))
	for i := range results {
		w.writeResult(&results[i], now)
	}
}

func (w *worker) writeResult(r *engine.Result, now time.Time) {
	w.fields(10 + leasedFields(r.Leased))
	w.bulk("policy")
	w.bulk(r.Policy)
	w.bulk("allowed")
	w.boolean(r.Allowed)
	w.bulk("limit")
	w.bulk(r.Rule.Text())
	w.bulk("capacity")
	w.number(r.Limit)
	w.bulk("remaining")
	w.number(r.Remaining)
	w.bulk("retry_after_ms")
	w.number(millis(r.RetryAfter))
	w.bulk("reset_after_ms")
	w.number(millis(r.ResetAfter))
	w.bulk("reset_at")
	w.time(r.ResetAt(now))
	w.bulk("denied")
	w.boolean(!r.Allowed)
	w.bulk("denied_by")
	w.bulks(r.DeniedBy)
	w.leased(r.Leased)
}

// time writes t as in RFC 3339, in UTC, rounded up to a millisecond.
func (w *worker) time(t time.Time) {
	w.bulk(t.Add(time.Millisecond - 1).UTC().Format("2006-01-02T15:04:05.000Z"))
}

// millis returns d in whole milliseconds, rounded up.
func millis(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
