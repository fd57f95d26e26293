package respapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// What errors of the two commands begin with.
const (
	cellError = "Cell error: Store error: "
	crabError = "ERR Rate limit check failed: "
)

// The two programs keep one state for each key, whatever limits it is asked with; so do the two scopes.
const (
	cellScope = "cl.throttle"
	crabScope = "throttle"
)

const (
	cellUsage = cellError + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	longest   = int64(headgate.MaxPeriod / time.Second)
)

// numbers are what follows the key: max_burst, count, period in seconds, and quantity, which is 1 if it is not there.
type numbers struct{ burst, count, period, quantity int64 }

// numbers reads them. bad is the argument that is none, or 0.
func (w *worker) numbers() (n numbers, bad int) {
	n.quantity = 1
	all := [...]*int64{&n.burst, &n.count, &n.period, &n.quantity}
	for i, to := range all[:w.args()-2] {
		var ok bool
		if *to, ok = parseInt(w.arg(i + 2)); !ok {
			return n, i + 2
		}
	}
	return n, 0
}

// clThrottle is CL.THROTTLE key max_burst count period [quantity].
func (w *worker) clThrottle() {
	if n := w.args(); n != 5 && n != 6 {
		w.refuse(cellUsage)
		return
	}
	n, bad := w.numbers()
	switch {
	case bad > 0:
		w.refuse(cellError + "Couldn't parse as integer: " + clip(w.arg(bad)))
	case n.count == 0 || n.period == 0:
		w.refuse(cellError + "Zero rates are not supported")
	case n.burst < 0:
		w.nothing(n)
	default:
		capacity := n.burst // and one more
		if capacity < headgate.MaxUnits {
			capacity++
		} else {
			capacity = 0
		}
		w.throttle(n, capacity, "max_burst", headgate.MaxUnits-1, cellStyle)
	}
}

// nothing answers for a limit of no units, which a max_burst below 0 means: nothing is admitted and nothing is kept. To ask is
// admitted, and so is to give back, but for max_burst below -1, where redis-cell denies to ask as well.
func (w *worker) nothing(n numbers) {
	w.settle()
	limited := int64(0)
	if n.quantity > 0 || n.quantity == 0 && n.burst < -1 {
		limited = 1
	}
	w.array(5)
	w.number(limited)
	w.number(n.burst + 1)
	w.number(0)
	w.number(-1)
	w.number(0)
}

// crabThrottle is THROTTLE key max_burst count period [quantity].
func (w *worker) crabThrottle() {
	if n := w.args(); n != 5 && n != 6 {
		w.wrongArity("throttle")
		return
	}
	n, bad := w.numbers()
	switch {
	case bad > 0:
		w.refuse("ERR invalid " + [...]string{"max_burst", "count_per_period", "period", "quantity"}[bad-2])
	case n.quantity < 0:
		w.refuse(crabError + "negative quantity: " + strconv.FormatInt(n.quantity, 10))
	case n.burst <= 0 || n.count <= 0 || n.period <= 0:
		w.refuse(crabError + "invalid rate limit parameters")
	default:
		w.throttle(n, n.burst, "max_burst", headgate.MaxUnits, crabStyle)
	}
}

// ready is a limit that was asked with last: mostly it is asked with again.
type ready struct {
	numbers numbers
	limit   headgate.Limit
}

// throttle decides under a limit of so many units at once, if it is one that is accepted.
func (w *worker) throttle(n numbers, capacity int64, burst string, mostBurst int64, s style) {
	last, quantity := &w.last[s], n.quantity
	if n.quantity = 0; last.numbers != n {
		limit, why := limitOf(n, capacity, burst, mostBurst)
		if why != "" {
			w.refuse([...]string{cellStyle: cellError, crabStyle: crabError}[s] + why)
			return
		}
		*last = ready{n, limit}
	}
	j := w.newJob()
	j.style, j.policy, j.key = s, "", w.textOf(w.arg(1))
	j.own.Scope, j.own.Limit = [...]string{cellStyle: cellScope, crabStyle: crabScope}[s], last.limit
	j.verb, j.cost = headgate.Take, quantity
	switch {
	case quantity == 0:
		j.verb = headgate.Peek // a take of nothing would carry a key over to another limit
	case quantity < 0:
		j.verb, j.cost = headgate.Refund, -max(quantity, -1<<63+1)
	}
	w.submit(j)
}

// limitOf is the limit, or what is wrong with it. capacity is 0 where max_burst is too much.
func limitOf(n numbers, capacity int64, burst string, mostBurst int64) (l headgate.Limit, why string) {
	switch {
	case capacity < 1 || capacity > headgate.MaxUnits:
		return l, outside(burst, n.burst, "at most", mostBurst)
	case n.count < 1 || n.count > headgate.MaxUnits:
		return l, outside("count per period", n.count, "1 to", headgate.MaxUnits)
	case n.period < 1 || n.period > longest:
		return l, outside("period", n.period, "1 to", longest)
	}
	l = headgate.Limit{Rate: n.count, Period: time.Duration(n.period) * time.Second, Burst: capacity}
	if err := l.Validate(); err != nil {
		cause := (*headgate.LimitError)(nil)
		errors.As(err, &cause)
		return l, cause.Field + " is " + cause.Value + "; " + cause.Bound
	}
	return l, ""
}

func outside(what string, n int64, accepted string, bound int64) string {
	return what + " is " + strconv.FormatInt(n, 10) + "; accepted are " + accepted + " " + strconv.FormatInt(bound, 10)
}

// refuse replies to a request that makes no sense, behind those that came before it.
func (w *worker) refuse(text string) {
	w.settle()
	w.fail(text)
}

// tellCell is redis-cell's reply: limited or not, limit, remaining, seconds until a retry (-1 if it was allowed or never will be), seconds
// until the key is as if never used.
func (w *worker) tellCell(d *headgate.Decision) {
	w.out = append(w.out, "*5\r\n"...)
	retry := int64(-1)
	if d.Allowed {
		w.out = append(w.out, ":0\r\n"...)
	} else {
		w.out = append(w.out, ":1\r\n"...)
		if !d.Never {
			retry = cellSeconds(d.RetryAfter)
		}
	}
	w.number(d.Limit)
	w.number(d.Remaining)
	w.number(retry)
	w.number(cellSeconds(d.ResetAfter))
}

// cellSeconds is d in whole seconds, rounded up if a whole millisecond and more lies over.
func cellSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		seconds++
	}
	return seconds
}

// tellCrab is throttlecrab's reply: allowed or not, limit, remaining, seconds until the key is as if never used, seconds until a retry;
// both rounded down.
func (w *worker) tellCrab(d *headgate.Decision) {
	w.array(5)
	if d.Allowed {
		w.number(1)
	} else {
		w.number(0)
	}
	w.number(d.Limit)
	w.number(d.Remaining)
	w.number(int64(d.ResetAfter / time.Second))
	w.number(int64(d.RetryAfter / time.Second))
}
