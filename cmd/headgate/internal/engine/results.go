package engine

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/calendar"
	"github.com/headgate/headgate/internal/root"
)

// Result is the result for one check of a request.
type Result struct {
	// Decision is the combined decision of the check's limits. If the check is in shadow
	// mode, it allows the check.
	headgate.Decision
	// Policy is the name of the check's policy; empty for a check without a policy.
	Policy string
	// Rule is the limit whose Limit, Remaining and ResetAfter are in Decision.
	Rule *Rule
}

// AppendResults appends the result for each check to dst, in the order of the request. It
// must be called before a is used for another request.
func (a *Answer) AppendResults(dst []Result) []Result {
	enforced, shadowed := 0, 0
	for enforced < len(a.enforced.rules) || shadowed < len(a.shadowed.rules) {
		c, from := &a.enforced, &enforced
		if *from == len(c.rules) || shadowed < len(a.shadowed.rules) && a.shadowed.checks[shadowed] < c.checks[*from] {
			c, from = &a.shadowed, &shadowed
		}
		to := c.endOfCheck(c.checks[*from], *from)
		dst = append(dst, c.result(*from, to))
		if c == &a.shadowed {
			forceAllow(&dst[len(dst)-1].Decision)
		}
		*from = to
	}
	return dst
}

// endOfCheck returns the index after the last charge of the check with index i, whose
// first charge has the index from.
func (c *charges) endOfCheck(i, from int) int {
	for from < len(c.checks) && c.checks[from] == i {
		from++
	}
	return from
}

// result returns the result for the check with the charges from, …, to-1.
func (c *charges) result(from, to int) Result {
	decisions := c.Decisions[from:to]
	rule := c.rules[from+root.Tightest(decisions)]
	return Result{Decision: combineDecisions(decisions), Policy: rule.Policy, Rule: rule}
}

// ResetAt returns the time at which the limit is unused if no client spends. now is the
// time of the answer, a little after that of the decision. Under a limit with windows,
// the result is the end of a window exactly.
func (r *Result) ResetAt(now time.Time) time.Time {
	at := now.Add(r.ResetAfter)
	if r.ResetAfter <= 0 || r.Rule.windows == nil {
		return at
	}
	begin, end := r.Rule.windows.Window(at.UnixMicro())
	begins, ends := time.UnixMicro(begin), time.UnixMicro(end)
	if at.Sub(begins) <= ends.Sub(at) {
		return begins
	}
	return ends
}

// windowsOf returns the windows of a limit at whose ends its count begins again, or nil
// if it has none.
func windowsOf(rule *headgate.Rule) *calendar.Calendar {
	dated := rule.Algorithm == headgate.CalendarWindow
	switch c := rule.Limit.Calendar; {
	case dated && c.Unit != 0:
		windows, _ := calendar.New(calendar.Unit(c.Unit), c.Zone, c.From) // the zone is known: the limit is valid
		return windows
	case (dated || rule.Algorithm == headgate.FixedWindow) && rule.Limit.Period > 0:
		return calendar.Aligned(rule.Limit.Period.Microseconds())
	}
	return nil
}
