package replay

import (
	"context"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
)

// Curve is the result of a replay under several scaled limits: how many requests and
// keys each of them denies.
type Curve struct {
	Algorithm headgate.Algorithm `json:"algorithm"`
	Points    []CurvePoint       `json:"points"` // from the lowest to the highest limit
}

// CurvePoint is the result of one limit, or of one set of limits, of a [Curve].
type CurvePoint struct {
	Factor           string   `json:"factor"` // “1” for the limits of the replay, “1/4” for a quarter of them
	Limits           []string `json:"limits"`
	Denied           int64    `json:"denied"`
	DeniedShare      float64  `json:"denied_share"`
	KeysTouched      int64    `json:"keys_touched"` // keys with at least one denial
	KeysTouchedShare float64  `json:"keys_touched_share"`
	// Overflowed is as in [StoreStats]. If it is not 0, the other numbers may be too
	// high.
	Overflowed uint64 `json:"overflowed,omitempty"`
}

// toleratedShare is the share of keys that a limit may deny without being too low: 1 %.
const toleratedShare = 0.01

// tolerated returns the index of the lowest limit that denies at most toleratedShare of
// the keys, as all higher limits do. It returns -1 if the highest limit denies more.
func (c *Curve) tolerated() int {
	for i := len(c.Points) - 1; i >= 0; i-- {
		if c.Points[i].KeysTouchedShare > toleratedShare {
			if i+1 < len(c.Points) {
				return i + 1
			}
			return -1
		}
	}
	return 0
}

// answer states what the given limit denies, and names the tolerated limit.
func (c *Curve) answer() string {
	i := slices.IndexFunc(c.Points, func(p CurvePoint) bool { return p.Factor == given })
	text := c.Points[i].limits() + " denies " + c.Points[i].shares() + ". "
	switch tolerated := c.tolerated(); {
	case tolerated < 0:
		return text + "Each of these limits denies more than 1 % of the keys."
	case tolerated == i:
		return text + "It is the lowest of these limits that denies at most 1 % of the keys."
	default:
		lowest := c.Points[tolerated]
		return text + lowest.limits() + " is the lowest of these limits that denies at most 1 % of the keys: it denies " + lowest.shares() + "."
	}
}

// shares returns the denied shares as text.
func (p *CurvePoint) shares() string {
	return percent(p.KeysTouchedShare) + " of the keys and " + percent(p.DeniedShare) + " of the requests"
}

// tags returns what is notable about point i: whether it has the limits of the replay,
// and whether it is the tolerated one.
func (c *Curve) tags(i int) (tags []string) {
	if c.Points[i].Factor == given {
		tags = append(tags, "given")
	}
	if i == c.tolerated() {
		tags = append(tags, "≤ 1 % of keys")
	}
	return tags
}

func (p *CurvePoint) limits() string { return strings.Join(p.Limits, " and ") }

// factor is a fraction by which limits are scaled.
type factor struct {
	name     string
	num, den int64
}

// factors are the factors of a curve, which costs as many further replays.
var factors = [...]factor{
	{"1/4", 1, 4},
	{"1/2", 1, 2},
	{"3/4", 3, 4},
	{"1", 1, 1},
	{"3/2", 3, 2},
	{"2", 2, 1},
	{"3", 3, 1},
	{"4", 4, 1},
	{"6", 6, 1},
	{"8", 8, 1},
	{"12", 12, 1},
	{"16", 16, 1},
}

// given is the name of the factor with which a limit is unchanged.
const given = "1"

// scale returns the limit with rate, burst and queue multiplied by the factor and
// rounded down, but to no less than 1. If the rate would be below 1, the rate is 1 and
// the period is longer.
func (f factor) scale(l headgate.Limit) headgate.Limit {
	times := func(n int64) int64 { return mulDiv(n, f.num, f.den) }
	scaled := headgate.Limit{Rate: times(l.Rate), Period: l.Period, Calendar: l.Calendar}
	if l.Period == 0 { // a window of the calendar cannot be longer
		scaled.Rate = max(1, scaled.Rate)
	} else if scaled.Rate == 0 {
		us := mulDiv(l.Period.Microseconds(), f.den, f.num*l.Rate)
		scaled.Rate, scaled.Period = 1, time.Duration(us)*time.Microsecond
	}
	if l.Burst > 0 {
		scaled.Burst = max(1, times(l.Burst))
	}
	if l.Queue > 0 {
		scaled.Queue = max(1, times(l.Queue))
	}
	return scaled
}

// mulDiv returns a·b/c rounded down, exactly. The result must fit into 63 bits.
func mulDiv(a, b, c int64) int64 {
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	quotient, _ := bits.Div64(hi, lo, uint64(c))
	return int64(quotient)
}

// scaledPolicy is a policy whose limits were scaled by a factor.
type scaledPolicy struct {
	factor string
	headgate.Policy
}

// scalePolicy returns a policy scaled by each factor, in the order of factors. It leaves
// out limits that are out of range, and limits that another factor gives as well.
func scalePolicy(policy headgate.Policy) (all []scaledPolicy) {
	for _, f := range factors {
		scaled := scaledPolicy{f.name, headgate.Policy{Algorithm: policy.Algorithm, Holds: policy.Holds}}
		for _, l := range policy.Limits {
			scaled.Limits = append(scaled.Limits, f.scale(l))
		}
		invalid := func(l headgate.Limit) bool { return l.Validate() != nil || l.Rate > policy.Algorithm.MaxRate() }
		same := func(other scaledPolicy) bool { return slices.Equal(other.Limits, scaled.Limits) }
		switch {
		case f.name == given:
			all = append(slices.DeleteFunc(all, same), scaled)
		case !slices.ContainsFunc(scaled.Limits, invalid) && !slices.ContainsFunc(all, same):
			all = append(all, scaled)
		}
	}
	return all
}

// addCurve replays the gathered requests under a policy with scaled limits and adds the
// curve to the report. With the given limits, it also counts the denials of the worst
// keys over time.
func (r *Report) addCurve(ctx context.Context, g *gatherer, policy headgate.Policy) error {
	opts := *g.opts
	opts.InFlight, opts.Decisions, opts.Scratch = 0, nil, nil
	scaled, policies := scalePolicy(policy), []headgate.Policy(nil)
	for _, s := range scaled {
		policies = append(policies, s.Policy)
	}
	replays, err := newPolicyReplays(policies, g.opts.Scratch, &opts)
	if err != nil {
		return err
	}
	defer func() { _ = closeAll(replays) }() // an error is ignored: the stores are in memory
	d, err := newDecider(g, replays, &opts)
	if err != nil {
		return err
	}
	d.before = r.Requests
	d.watch(slices.IndexFunc(scaled, func(s scaledPolicy) bool { return s.factor == given }), r.Worst)
	if err := d.decideAll(ctx); err != nil {
		return err
	}
	r.Curve = &Curve{Algorithm: policy.Algorithm}
	for i, s := range scaled {
		r.Curve.Points = append(r.Curve.Points, newCurvePoint(s.factor, r.policy(d, replays[i], i, &opts)))
	}
	return nil
}

func newCurvePoint(factor string, p PolicyReport) CurvePoint {
	point := CurvePoint{
		Factor: factor, Denied: p.Denied, DeniedShare: p.DeniedShare, KeysTouched: p.KeysTouched, KeysTouchedShare: p.KeysTouchedShare,
	}
	for _, l := range p.Limits {
		point.Limits = append(point.Limits, l.Limit)
	}
	if p.Store != nil {
		point.Overflowed = p.Store.Overflowed
	}
	return point
}
