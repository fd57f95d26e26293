package crowd

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/headgate/headgate/storetest/model"
)

// Admission is one admitted request. The store decided on it at some time between
// Before and After, both in µs since the Unix epoch by the clock of the machine, which
// all processes share.
type Admission struct {
	Before, After int64
	Cost          int64 // units
}

// Check returns an error if more units were admitted in some time span than bound
// allows. It counts only units that were certainly admitted within the span, so that it
// never returns an error for a correct store.
func Check(admissions []Admission, bound model.UpperBound) error {
	byBefore := slices.Clone(admissions)
	slices.SortFunc(byBefore, func(a, b Admission) int { return cmp.Compare(a.Before, b.Before) })
	byAfter := slices.Clone(admissions)
	slices.SortFunc(byAfter, func(a, b Admission) int { return cmp.Compare(a.After, b.After) })
	for i := range byBefore {
		from := byBefore[i].Before
		if i > 0 && from == byBefore[i-1].Before {
			continue
		}
		sum := int64(0)
		for _, a := range byAfter {
			if a.Before < from {
				continue
			}
			if sum += a.Cost; sum > bound(from, a.After) {
				return fmt.Errorf("crowd: at least %d units were admitted from %d to %d, a span of %d µs; the bound is %d", sum, from, a.After, a.After-from, bound(from, a.After))
			}
		}
	}
	return nil
}

// mostOpen returns the largest number of spans that contain the same instant.
func mostOpen(spans []span) (most int64) {
	type edge struct{ at, change int64 }
	var edges []edge
	for _, s := range spans {
		if s.from < s.to {
			edges = append(edges, edge{s.from, 1}, edge{s.to, -1})
		}
	}
	slices.SortFunc(edges, func(a, b edge) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.change, b.change)) })
	open := int64(0)
	for _, e := range edges {
		open += e.change
		most = max(most, open)
	}
	return most
}
