package engine

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// Inspection is the state of a key under one policy, or under one inline limit.
type Inspection struct {
	Policy   string // empty for an inline limit
	Override string // name of the override that applies, as in [ActiveConfig.AppliedOverride]; empty if none does
	Live     bool   // whether it is a live override
	Shadow   bool   // whether the policy is in shadow mode for the key
	Bans     bool   // whether the bans of the policy apply to the key
	Limits   []LimitState
	// Err is the reason why the store has not decided; the decisions are then zero.
	Err error
}

// LimitState is the state of a key under one limit.
type LimitState struct {
	Rule *Rule
	headgate.Decision
	// Holds has the open holds and leases of the key, or is nil if the store or the
	// algorithm has none, or if none were requested.
	Holds *headgate.HoldList
}

// HoldPage selects the holds that [ActiveConfig.Inspect] lists for each limit.
type HoldPage struct {
	List bool // whether to list holds at all
	Skip int  // number of holds to leave out
	Max  int  // maximum number of holds
}

// Inspect returns the state of a key, as a peek with the cost of the check sees it. It
// consumes nothing, and is not reported to the observer. Enforcement and shadow mode do
// not change the decisions. It takes one operation of the store, and one for each limit
// whose holds are listed. The error is a [*CheckError] for an invalid check.
func (s *ActiveConfig) Inspect(ctx context.Context, check *Check, page HoldPage) (Inspection, error) {
	a := &Answer{}
	if field, err := s.resolveOne(0, check, s.sent.keyBytes, a); err != nil {
		return Inspection{}, &CheckError{Index: 0, Field: field, Err: err}
	}
	c := &a.enforced
	if len(a.shadowed.rules) > 0 {
		c = &a.shadowed
	}
	x := Inspection{Policy: check.Policy, Shadow: c == &a.shadowed, Limits: make([]LimitState, len(c.rules))}
	x.Bans = slices.ContainsFunc(c.rules, func(r *Rule) bool { return r.ban != nil })
	x.Override, x.Live = s.AppliedOverride(check.Policy, check.Key)
	x.Err = root.ApplyAll(ctx, s.store, headgate.StoreClock, c.Ops, true, c.Decisions)
	for i, r := range c.rules {
		x.Limits[i].Rule = r
		if x.Err == nil {
			x.Limits[i].Decision = c.Decisions[i]
		}
	}
	if page.List && x.Err == nil {
		x.listHolds(ctx, check.Key, page)
	}
	return x, nil
}

// listHolds adds the holds of a key under each limit.
func (x *Inspection) listHolds(ctx context.Context, key string, page HoldPage) {
	for i := range x.Limits {
		lister, ok := x.Limits[i].Rule.bound.(headgate.HoldLister)
		if !ok {
			continue
		}
		list, err := lister.ListHolds(ctx, headgate.StoreClock, key, page.Skip, page.Max)
		switch {
		case err == nil:
			x.Limits[i].Holds = &list
		case !errors.Is(err, headgate.ErrUnsupported):
			x.Err = err
			return
		}
	}
}

// PolicyNames returns the names of all policies, sorted.
func (s *ActiveConfig) PolicyNames() []string { return slices.Sorted(maps.Keys(s.policies)) }

// PolicyRules returns the limits of a policy for the keys without an override. The bucket
// of its bans is not among them. replaced is whether they are those of a live override of
// the whole policy. The limits must not be changed.
func (s *ActiveConfig) PolicyRules(name string) (rules []*Rule, replaced bool) {
	if p := s.policies[name]; p != nil {
		return slices.DeleteFunc(slices.Clone(p.rules), (*Rule).isBan), p.isReplaced
	}
	return nil, false
}

// Window returns the window of the limit that contains a time. ok is false if the count
// of the limit does not begin again at the ends of windows.
func (r *Rule) Window(at time.Time) (begin, end time.Time, ok bool) {
	if r.windows == nil {
		return begin, end, false
	}
	from, to := r.windows.Window(at.UnixMicro())
	return time.UnixMicro(from), time.UnixMicro(to), true
}
