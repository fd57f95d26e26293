package replay

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/headgate/headgate"
)

// policyReplay is the replay of all requests under one policy, with a separate store.
type policyReplay struct {
	policy    headgate.Policy
	algorithm headgate.Algorithm // in the report; several names if the limits have different algorithms
	store     headgate.Store
	limiter   *headgate.Limiter
	meters    []*meter            // one for each limit; none if nothing is measured
	decisions []headgate.Decision // the decision on each request of the current batch
	turns     [][]int32           // batch indexes in lists, one key's all in one list; nil if InFlight is 1
	holds     *logHolds
	outcomes  sync.Map // the outcome of each operation of the current batch, by its index
	err       error

	admitted, denied, never int64
	differs                 int64   // number of decisions that differ from those of the sliding log
	deniedBy                []int64 // number of denials by each limit of the policy
	names                   []string
}

func newPolicyReplay(policy headgate.Policy, open func() (headgate.Store, error), o *Options) (*policyReplay, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	l := &policyReplay{policy: policy, algorithm: algorithmOf(&policy), store: store, decisions: make([]headgate.Decision, o.batch())}
	l.holds = newLogHolds(o.Memory / expiredHoldsShare)
	if o.InFlight > 1 {
		l.turns = make([][]int32, o.InFlight)
	}
	if l.limiter, err = headgate.New(store, policy, nil); err != nil {
		_ = closeAll([]*policyReplay{l}) // ignored: an unused store has nothing to lose
		return nil, err
	}
	for _, limit := range policy.Limits {
		l.names = append(l.names, limit.String())
	}
	l.deniedBy = make([]int64, len(l.names))
	return l, nil
}

// algorithmOf returns the algorithm of a policy. A policy that names none has the token
// bucket for limits with a period, and the calendar window for limits without.
func algorithmOf(p *headgate.Policy) headgate.Algorithm {
	if !slices.ContainsFunc(p.Limits, func(l headgate.Limit) bool { return p.Algorithm.For(l) != p.Algorithm }) {
		return p.Algorithm
	}
	var names []string
	for _, l := range p.Limits {
		name := string(cmp.Or(p.Algorithm.For(l), headgate.TokenBucket))
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return headgate.Algorithm(strings.Join(names, ", "))
}

// count counts the decision on request i of the batch and reports whether it is a
// denial.
func (l *policyReplay) count(i int) (denied bool) {
	d := &l.decisions[i]
	if d.Allowed {
		l.admitted++
		return false
	}
	l.denied++
	if d.Never {
		l.never++
	}
	for _, name := range d.DeniedBy {
		for n := range l.names {
			if l.names[n] == name {
				l.deniedBy[n]++
			}
		}
	}
	return true
}

func newPolicyReplays(policies []headgate.Policy, open func() (headgate.Store, error), o *Options) (replays []*policyReplay, err error) {
	for _, policy := range policies {
		l, err := newPolicyReplay(policy, open, o)
		if err == nil {
			replays = append(replays, l)
			if len(policies) > 1 {
				l.meters, err = newMeters(policy, o.Scratch)
			}
		}
		if err != nil {
			_ = closeAll(replays) // ignored: no decision was made
			return nil, err
		}
	}
	return replays, nil
}

func closeAll(replays []*policyReplay) error {
	var errs []error
	for _, l := range replays {
		errs = append(errs, l.store.Close())
		for _, m := range l.meters {
			errs = append(errs, m.store.Close())
		}
	}
	return errors.Join(errs...)
}

// SideBySide returns one policy for each algorithm, all with the same limits. With two
// or more algorithms, it adapts the limits to what an algorithm supports: for an
// algorithm without a queue, it replaces a queue with a burst of the same total
// capacity; for an algorithm with windows, it removes burst and queue. With one
// algorithm the limits are unchanged.
func SideBySide(limits []headgate.Limit, algorithms ...headgate.Algorithm) []headgate.Policy {
	policies := make([]headgate.Policy, len(algorithms))
	for i, algorithm := range algorithms {
		own := slices.Clone(limits)
		for n := range own {
			switch {
			case len(algorithms) == 1:
			case algorithm.Windowed():
				own[n].Queue, own[n].Burst = 0, 0
			case !algorithm.Queues() && own[n].Queue > 0:
				own[n].Queue, own[n].Burst = 0, own[n].Capacity()
			}
		}
		policies[i] = headgate.Policy{Limits: own, Algorithm: algorithm}
	}
	return policies
}
