package replay

import (
	"context"
	"fmt"
	"slices"

	"github.com/headgate/headgate"
)

// meter measures the most units of one key that a policy admitted in any one period of
// a limit. It charges what the policy admitted to a sliding log that never denies and
// reads the units of the last period from the log's decision.
type meter struct {
	store   headgate.Store
	limiter *headgate.Limiter
	most    int64
	inexact bool // whether a charge was denied, or an operation changed what is spent
}

// newMeters returns a meter for each limit of the policy, or none if open is nil, a limit
// has no period, or the algorithm delays requests: a delayed request does not proceed at
// its time in the log.
func newMeters(policy headgate.Policy, open func() (headgate.Store, error)) (meters []*meter, err error) {
	if open == nil || policy.Algorithm.Queues() || slices.ContainsFunc(policy.Limits, func(l headgate.Limit) bool { return l.Period == 0 }) {
		return nil, nil
	}
	for _, limit := range policy.Limits {
		store, err := open()
		if err != nil {
			return meters, err
		}
		m := &meter{store: store}
		meters = append(meters, m)
		unlimited := headgate.Policy{
			Limits: []headgate.Limit{{Rate: headgate.MaxUnits, Period: limit.Period}}, Algorithm: headgate.SlidingLog,
		}
		if m.limiter, err = headgate.New(store, unlimited, nil); err != nil {
			return meters, err
		}
	}
	return meters, nil
}

// measure charges the requests of the batch that the policy admitted to its meters, in
// time order. It sets l.err on an error.
func (l *policyReplay) measure(ctx context.Context, batch []request) {
	if l.err != nil || len(l.meters) == 0 {
		return
	}
	for i := range batch {
		q := &batch[i]
		if q.op != nil {
			l.stopMeasuring()
			return
		}
		if !l.decisions[i].Allowed || q.cost == 0 {
			continue
		}
		for _, m := range l.meters {
			d, err := m.limiter.AllowAt(ctx, headgate.Instant(q.at).Time(), q.key, q.cost)
			if err != nil {
				l.err = fmt.Errorf("replay: measure %s at %d µs: %w", l.policy.Algorithm, q.at, err)
				return
			}
			m.most = max(m.most, d.Limit-d.Remaining)
			m.inexact = m.inexact || !d.Allowed
		}
	}
}

// stopMeasuring ends the measurement: an operation such as a refund was decided, after
// which an admitted unit may no longer be spent.
func (l *policyReplay) stopMeasuring() {
	for _, m := range l.meters {
		m.inexact = true
	}
}

// mostInPeriod returns the most units in any one period of limit n, or nil if they were
// not measured exactly: the store was full, they are too many, or there are operations.
func (l *policyReplay) mostInPeriod(n int, o *Options) *int64 {
	if len(l.meters) == 0 || l.meters[n].inexact || o.statsOf(l.meters[n].store).Overflowed > 0 {
		return nil
	}
	return &l.meters[n].most
}
