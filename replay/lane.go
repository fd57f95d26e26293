package replay

import (
	"errors"
	"slices"

	"github.com/headgate/headgate"
)

// lane is one policy over its own store, side by side with others on the same requests.
type lane struct {
	policy    headgate.Policy
	store     headgate.Store
	limiter   *headgate.Limiter
	decisions []headgate.Decision // on the batch at hand
	turns     [][]int32           // requests of the batch, each list to be decided in order; nil if all are
	err       error

	admitted, denied, never int64
	differs                 int64   // decisions that are not those of the exact lane
	deniedBy                []int64 // by the policy's limits
	names                   []string
}

func newLane(policy headgate.Policy, open func() (headgate.Store, error), o *Options) (*lane, error) {
	store, err := open()
	if err != nil {
		return nil, err
	}
	l := &lane{policy: policy, store: store, decisions: make([]headgate.Decision, o.batch())}
	if o.InFlight > 1 {
		l.turns = make([][]int32, o.InFlight)
	}
	if l.limiter, err = headgate.New(store, policy, nil); err != nil {
		_ = store.Close() // it holds nothing yet
		return nil, err
	}
	for _, limit := range policy.Limits {
		l.names = append(l.names, limit.String())
	}
	l.deniedBy = make([]int64, len(l.names))
	return l, nil
}

// count adds up the decision on request i of the batch.
func (l *lane) count(i int) (denied bool) {
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

func newLanes(policies []headgate.Policy, open func() (headgate.Store, error), o *Options) (lanes []*lane, err error) {
	for _, policy := range policies {
		l, err := newLane(policy, open, o)
		if err != nil {
			_ = closeLanes(lanes) // nothing was decided
			return nil, err
		}
		lanes = append(lanes, l)
	}
	return lanes, nil
}

func closeLanes(lanes []*lane) error {
	var errs []error
	for _, l := range lanes {
		errs = append(errs, l.store.Close())
	}
	return errors.Join(errs...)
}

// SideBySide returns one policy with the same limits for each algorithm. With several
// algorithms, each gets what it uses of a limit: an algorithm that does not queue gets a burst
// of the queue's capacity in place of the queue, and a window gets neither.
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
