package replay

import (
	"cmp"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// Recommendation is the result of a comparison of several algorithms. An algorithm that
// delays requests is never recommended, because a log does not show whether clients
// wait.
type Recommendation struct {
	// Algorithm denied the fewest keys, and of those the fewest requests.
	Algorithm headgate.Algorithm `json:"algorithm"`
	// Strict is chosen like Algorithm, from the algorithms that never admitted more than
	// the rate of a limit in any one period. Of equal ones it is the sliding log, which
	// guarantees that for all traffic. It is empty if there is none.
	Strict headgate.Algorithm `json:"strict,omitempty"`
}

// advise returns the recommendation. It is nil unless the policies are of different
// algorithms, and all of them that do not delay requests were measured.
func (r *Report) advise() *Recommendation {
	var fit []PolicyReport
	for i, p := range r.Policies {
		same := func(other PolicyReport) bool { return other.Algorithm == p.Algorithm }
		if slices.ContainsFunc(r.Policies[:i], same) || !p.measured() && !p.Algorithm.Queues() {
			return nil
		}
		if p.measured() {
			fit = append(fit, p)
		}
	}
	if len(fit) == 0 {
		return nil
	}
	best := slices.MinFunc(fit, byKeys)
	if best.strict() {
		return &Recommendation{best.Algorithm, best.Algorithm}
	}
	fit = slices.DeleteFunc(fit, func(p PolicyReport) bool { return !p.strict() })
	if len(fit) == 0 {
		return &Recommendation{Algorithm: best.Algorithm}
	}
	logFirst := func(a, b PolicyReport) int { return cmp.Or(byDenials(a, b), cmp.Compare(sliding(b), sliding(a))) }
	return &Recommendation{best.Algorithm, slices.MinFunc(fit, logFirst).Algorithm}
}

// measured reports whether the most units in any one period are known for every limit.
func (p *PolicyReport) measured() bool {
	return !slices.ContainsFunc(p.Limits, func(l LimitReport) bool { return l.MostInPeriod == nil })
}

// strict reports whether the policy never admitted more than the rate of a limit in any
// one period. The policy must be measured.
func (p *PolicyReport) strict() bool {
	return !slices.ContainsFunc(p.Limits, func(l LimitReport) bool { return *l.MostInPeriod > l.Rate })
}

// byDenials orders policies by the number of keys that they denied, then by denials.
func byDenials(a, b PolicyReport) int {
	return cmp.Or(cmp.Compare(a.KeysTouched, b.KeysTouched), cmp.Compare(a.Denied, b.Denied))
}

// byKeys is like byDenials. Of equal policies the sliding log is last, because it needs
// memory for every request.
func byKeys(a, b PolicyReport) int {
	return cmp.Or(byDenials(a, b), cmp.Compare(sliding(a), sliding(b)))
}

// sliding returns 1 for the sliding log and 0 for all others.
func sliding(p PolicyReport) int {
	if p.Algorithm == headgate.SlidingLog {
		return 1
	}
	return 0
}

// under returns the result of an algorithm, or nil if it was not replayed.
func (r *Report) under(a headgate.Algorithm) *PolicyReport {
	i := slices.IndexFunc(r.Policies, func(p PolicyReport) bool { return p.Algorithm == a })
	if i < 0 {
		return nil
	}
	return &r.Policies[i]
}

// recommended returns the index of the recommended policy, or 0 if there is none.
func (r *Report) recommended() int {
	return max(0, slices.IndexFunc(r.Policies, func(p PolicyReport) bool { return r.Advice != nil && p.Algorithm == r.Advice.Algorithm }))
}

// comparison states how much the denials of the algorithms differ.
func (r *Report) comparison() string {
	byDenied := func(a, b PolicyReport) int { return cmp.Compare(a.Denied, b.Denied) }
	least, most := slices.MinFunc(r.Policies, byDenied), slices.MaxFunc(r.Policies, byDenied)
	fewest, widest := slices.MinFunc(r.Policies, byKeys), slices.MaxFunc(r.Policies, byKeys)
	touched := count(widest.KeysTouched)
	if fewest.KeysTouched != widest.KeysTouched {
		touched = count(fewest.KeysTouched) + " to " + touched
	}
	return "The algorithms deny " + count(least.Denied) + " (" + percent(least.DeniedShare) + ") to " +
		count(most.Denied) + " (" + percent(most.DeniedShare) + ") of the requests, and affect " +
		touched + " of " + count(r.Keys) + " keys."
}

// adviceText states the recommendation and its reasons. It is empty if there is none.
func (r *Report) adviceText() string {
	if r.Advice == nil {
		return ""
	}
	best := r.under(r.Advice.Algorithm)
	text := "Choose the " + inSentence(best.Algorithm) + ": it denied " + r.keysText(best) + ", and "
	switch strict := r.under(r.Advice.Strict); {
	case strict == best:
		return text + "never admitted more than " + best.ratesText() + " for one key."
	case strict == nil:
		return text + "admitted up to " + best.mostText() + " for one key."
	default:
		return text + "admitted up to " + best.mostText() + " for one key. If it must never be more than " + best.ratesText() +
			", choose the " + inSentence(strict.Algorithm) + ": it denied " + r.keysText(strict) + "."
	}
}

// keysText returns how many keys a policy denied, such as “100 of 1,753 keys (5.70 %)”.
func (r *Report) keysText(p *PolicyReport) string {
	if p.KeysTouched == 0 {
		return "none of " + count(r.Keys) + " keys"
	}
	return count(p.KeysTouched) + " of " + count(r.Keys) + " keys (" + percent(p.KeysTouchedShare) + ")"
}

// ratesText returns the rates of the limits, such as “5 in any 1m and 20 in any 1d”.
func (p *PolicyReport) ratesText() string {
	return p.periodsText(func(l LimitReport) int64 { return l.Rate })
}

// mostText is like ratesText for the most units that the policy admitted.
func (p *PolicyReport) mostText() string {
	return p.periodsText(func(l LimitReport) int64 { return *l.MostInPeriod })
}

func (p *PolicyReport) periodsText(units func(LimitReport) int64) string {
	var parts []string
	for _, l := range p.Limits {
		parts = append(parts, count(units(l))+" in any "+span(l.PeriodUS))
	}
	return strings.Join(parts, " and ")
}

// inSentence returns the name of an algorithm as it is written within a sentence.
func inSentence(a headgate.Algorithm) string { return strings.ToLower(title(a)) }
