package storetest

import (
	"context"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// naiveLists adds lists of holds to a store that never removes a hold from the list.
type naiveLists struct {
	*naiveHolds
	opened []headgate.HoldRecord
}

// listedBound is a Bound of naiveLists.
type listedBound struct {
	headgate.Bound
	store *naiveLists
}

func (s *naiveLists) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.naiveHolds.Bind(rule)
	return &listedBound{b, s}, err
}

func (s *naiveLists) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	inner := slices.Clone(ops)
	for i := range inner {
		b := inner[i].Bound.(*listedBound)
		inner[i].Bound = b.Bound
		if verb == headgate.OpenHold {
			deadline := now + headgate.Instant(ttl.Microseconds())
			s.opened = append(s.opened, headgate.HoldRecord{ID: nameOf(ops[i].ID), Units: ops[i].Cost, Deadline: deadline})
		}
	}
	return s.naiveHolds.ApplyHolds(ctx, now, verb, ttl, inner, results)
}

func (b *listedBound) ListHolds(_ context.Context, _ headgate.Instant, _ string, skip, most int) (list headgate.HoldList, _ error) {
	for i, r := range b.store.opened {
		if i >= skip && len(list.Records) < most {
			list.Records = append(list.Records, r)
		}
		list.Holds, list.Held = list.Holds+1, list.Held+r.Units
	}
	return list, nil
}
