package replay

import (
	"errors"
	"slices"

	"github.com/headgate/headgate"
)

// policyReplay is one policy with its own store. All of them decide the same requests.
type policyReplay struct {
	policy    headgate.Policy
	store     headgate.Store
	limiter   *headgate.Limiter
	decisions []headgate.Decision // decisions about the current batch
	turns     [][]int32           // indexes of requests by key, each list decided in order; nil if all requests are
	err       error

	admitted, denied, never int64
	differs                 int64   // decisions that differ from the sliding log
	deniedBy                []int64 // by limit of the policy
	names                   []string
}

func newPolicyReplay(policy headgate.Policy, open func() (headgate.Store, error), o *Options) (*policyReplay, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	l := &policyReplay{policy: policy, store: store, decisions: make([]headgate.Decision, o.batch())}
	if o.InFlight > 1 {
		l.turns = make([][]int32, o.InFlight)
	}
	if l.limiter, err = headgate.New(store, policy, nil); err != nil {
		_ = store.Close() // it is empty
		return nil, err
	}
	for _, limit := range policy.Limits {
		l.names = append(l.names, limit.String())
	}
	l.deniedBy = make([]int64, len(l.names))
	return l, nil
}

// count counts the decision about request i of the batch.
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
		if err != nil {
			_ = closeAll(replays) // no decision was made
			return nil, err
		}
		replays = append(replays, l)
	}
	return replays, nil
}

func closeAll(replays []*policyReplay) error {
	var errs []error
	for _, l := range replays {
		errs = append(errs, l.store.Close())
	}
	return errors.Join(errs...)
}

// SideBySide returns one policy with the same limits for each algorithm. With several
// algorithms, each gets what it uses of a limit: an algorithm that does not queue gets
// a burst of the queue's capacity in place of the queue, and a window gets neither.
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
