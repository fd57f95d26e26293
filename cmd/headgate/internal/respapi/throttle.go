package respapi

import (
	"errors"
	"strconv"
	"time"

	"github.com/headgate/headgate"
)

// The prefixes of error replies to CL.THROTTLE and THROTTLE.
const (
	redisCellError    = "Cell error: Store error: "
	throttlecrabError = "ERR Rate limit check failed: "
)

// The scopes of the two commands. Both redis-cell and throttlecrab keep one state for
// each key, independent of the limit in the request. So each command has a single
// scope.
const (
	redisCellScope    = "cl.throttle"
	throttlecrabScope = "throttle"
)

const (
	redisCellUsage   = redisCellError + "Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	maxPeriodSeconds = int64(headgate.MaxPeriod / time.Second)
)

// throttleArgs are the arguments after the key: max_burst, count, period in seconds,
// and quantity, which is 1 by default.
type throttleArgs struct{ burst, count, period, quantity int64 }

// parseThrottleArgs parses the arguments after the key. bad is the index of the first
// argument that is not an integer, or 0 if all are integers.
func (w *worker) parseThrottleArgs() (n throttleArgs, bad int) {
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

// clThrottle runs CL.THROTTLE key max_burst count period [quantity].
func (w *worker) clThrottle() {
	if n := w.args(); n != 5 && n != 6 {
		w.reject(redisCellUsage)
		return
	}
	n, bad := w.parseThrottleArgs()
	switch {
	case bad > 0:
		w.reject(redisCellError + "Couldn't parse as integer: " + truncate(w.arg(bad)))
	case n.count == 0 || n.period == 0:
		w.reject(redisCellError + "Zero rates are not supported")
	case n.quantity < 0 && !w.permits(refundScope):
		w.noPermission("cl.throttle")
	case n.burst < 0:
		w.writeNoCapacity(n)
	default:
		capacity := n.burst // 1 is added below
		if capacity < headgate.MaxUnits {
			capacity++
		} else {
			capacity = 0
		}
		w.throttle(n, capacity, "max_burst", headgate.MaxUnits-1, redisCellStyle)
	}
}

// writeNoCapacity replies to a CL.THROTTLE with a max_burst below 0, which is a limit
// without units. It keeps no state. It allows peeks (quantity 0) and refunds (quantity
// below 0), and denies all other requests. With a max_burst below -1 it also denies
// peeks, as redis-cell does.
func (w *worker) writeNoCapacity(n throttleArgs) {
	w.flush()
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

// throttlecrabThrottle runs THROTTLE key max_burst count period [quantity].
func (w *worker) throttlecrabThrottle() {
	if n := w.args(); n != 5 && n != 6 {
		w.wrongArity("throttle")
		return
	}
	n, bad := w.parseThrottleArgs()
	switch {
	case bad > 0:
		w.reject("ERR invalid " + [...]string{"max_burst", "count_per_period", "period", "quantity"}[bad-2])
	case n.quantity < 0:
		w.reject(throttlecrabError + "negative quantity: " + strconv.FormatInt(n.quantity, 10))
	case n.burst <= 0 || n.count <= 0 || n.period <= 0:
		w.reject(throttlecrabError + "invalid rate limit parameters")
	default:
		w.throttle(n, n.burst, "max_burst", headgate.MaxUnits, throttlecrabStyle)
	}
}

// parsedLimit is the limit of the previous request. Most requests have the same limit
// as the previous one.
type parsedLimit struct {
	args  throttleArgs
	limit headgate.Limit
}

// throttle submits a decision under a limit whose capacity is given in units, or
// replies with an error if the limit is invalid. For this error, burst is the name of
// the argument for the capacity, and mostBurst its maximum. s is the format of the
// reply.
func (w *worker) throttle(n throttleArgs, capacity int64, burst string, mostBurst int64, s replyStyle) {
	last, quantity := &w.lastLimits[s], n.quantity
	if n.quantity = 0; last.args != n {
		limit, why := limitOf(n, capacity, burst, mostBurst)
		if why != "" {
			w.reject([...]string{redisCellStyle: redisCellError, throttlecrabStyle: throttlecrabError}[s] + why)
			return
		}
		*last = parsedLimit{n, limit}
	}
	j := w.newJob()
	j.style, j.policy, j.key = s, "", w.textOf(w.arg(1))
	j.inline.Scope, j.inline.Limit = [...]string{redisCellStyle: redisCellScope, throttlecrabStyle: throttlecrabScope}[s], last.limit
	j.verb, j.cost = headgate.Take, quantity
	switch {
	case quantity == 0:
		j.verb = headgate.Peek
	case quantity < 0:
		j.verb, j.cost = headgate.Refund, -max(quantity, -headgate.MaxWindowUnits)
	}
	w.submit(j)
}

// limitOf returns the limit, or the reason why it is invalid in why. capacity is 0 if
// max_burst is too large. The parameters burst and mostBurst are for the reason; see
// throttle.
func limitOf(n throttleArgs, capacity int64, burst string, mostBurst int64) (l headgate.Limit, why string) {
	switch {
	case capacity < 1 || capacity > headgate.MaxUnits:
		return l, outOfRange(burst, n.burst, "at most", mostBurst)
	case n.count < 1 || n.count > headgate.MaxUnits:
		return l, outOfRange("count per period", n.count, "1 to", headgate.MaxUnits)
	case n.period < 1 || n.period > maxPeriodSeconds:
		return l, outOfRange("period", n.period, "1 to", maxPeriodSeconds)
	}
	l = headgate.Limit{Rate: n.count, Period: time.Duration(n.period) * time.Second, Burst: capacity}
	if err := l.Validate(); err != nil {
		cause := (*headgate.LimitError)(nil)
		errors.As(err, &cause)
		return l, cause.Field + " is " + cause.Value + "; " + cause.Bound
	}
	return l, ""
}

func outOfRange(name string, n int64, allowed string, bound int64) string {
	return name + " is " + strconv.FormatInt(n, 10) + "; must be " + allowed + " " + strconv.FormatInt(bound, 10)
}

// reject replies with an error, after the replies to all earlier requests.
func (w *worker) reject(text string) {
	w.flush()
	w.fail(text)
}

// writeRedisCell writes a reply in the format of redis-cell: limited (0 or 1), limit,
// remaining, seconds until a retry, seconds until the key is full. The seconds until a
// retry are -1 if the request was allowed or can never be allowed.
func (w *worker) writeRedisCell(d *headgate.Decision) {
	w.out = append(w.out, "*5\r\n"...)
	retry := int64(-1)
	if d.Allowed {
		w.out = append(w.out, ":0\r\n"...)
	} else {
		w.out = append(w.out, ":1\r\n"...)
		if !d.Never {
			retry = redisCellSeconds(d.RetryAfter)
		}
	}
	w.number(d.Limit)
	w.number(d.Remaining)
	w.number(retry)
	w.number(redisCellSeconds(d.ResetAfter))
}

// redisCellSeconds returns d in whole seconds. It rounds up if the remainder is 1 ms or
// more, and otherwise down.
func redisCellSeconds(d time.Duration) int64 {
	seconds := int64(d / time.Second)
	if d%time.Second >= time.Millisecond {
		seconds++
	}
	return seconds
}

// writeThrottlecrab writes a reply in the format of throttlecrab: allowed (0 or 1),
// limit, remaining, seconds until the key is full, seconds until a retry. Seconds are
// rounded down.
func (w *worker) writeThrottlecrab(d *headgate.Decision) {
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
