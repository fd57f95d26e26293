package model

import (
	"slices"

	"github.com/headgate/headgate"
)

// Charge is one of several on one request.
type Debit struct {
	Key   *Key
	Name  string // what DeniedBy calls it
	Limit headgate.Limit
	Cost  int64
}

// TakeAll spends every charge at t, or none if one is denied. A key that is charged twice pays twice.
func TakeAll(t int64, charges []Debit) headgate.Decision { return decideAll(t, charges, true) }

// PeekAll says what TakeAll would decide, and changes nothing.
func PeekAll(t int64, charges []Debit) headgate.Decision {
	copies := make(map[*Key]*Key)
	looked := slices.Clone(charges)
	for i, c := range charges {
		if copies[c.Key] == nil {
			copies[c.Key] = c.Key.clone()
		}
		looked[i].Key = copies[c.Key]
	}
	return decideAll(t, looked, false)
}

func decideAll(t int64, charges []Debit, spend bool) headgate.Decision {
	answers := make([]headgate.Decision, len(charges))
	allowed := true
	for i, c := range charges {
		c.Key.applyLimit(c.Limit, t)
		answers[i] = c.Key.decideAfter(t, c.Cost, costBefore(charges, i))
		allowed = allowed && answers[i].Allowed
	}
	for _, c := range charges {
		if allowed && spend {
			c.Key.spend(t, c.Cost)
		}
	}
	for i, c := range charges {
		c.Key.describe(&answers[i], t)
	}
	return combine(charges, answers)
}

// sumBefore is what the same key pays in the charges before the i-th.
func costBefore(charges []Debit, i int) (sum int64) {
	for _, c := range charges[:i] {
		if c.Key == charges[i].Key {
			sum += min(c.Cost, 1<<62-sum) // enough to be above every limit, and no overflow
		}
	}
	return sum
}

// verdictBehind is the verdict on n more units when before units of the same key are part of the same request: the key must
// hold them all at once.
func (k *Key) decideAfter(t, n, before int64) headgate.Decision {
	if n == 0 {
		return k.decide(t, 0)
	}
	return k.decide(t, before+min(n, 1<<62-1))
}

// combine is the one answer: the longest wait of those that denied, and otherwise the words of the one with the least
// remaining, the first of equals.
func combine(charges []Debit, answers []headgate.Decision) headgate.Decision {
	all := answers[0]
	all.Allowed, all.RetryAfter = true, 0
	for i, d := range answers {
		if d.Remaining < all.Remaining {
			all.Limit, all.Remaining, all.ResetAfter = d.Limit, d.Remaining, d.ResetAfter
		}
		all.Delay = max(all.Delay, d.Delay)
		if !d.Allowed {
			all.Allowed = false
			all.Never = all.Never || d.Never
			all.RetryAfter = max(all.RetryAfter, d.RetryAfter)
			all.DeniedBy = append(all.DeniedBy, charges[i].Name)
		}
	}
	if all.Never {
		all.RetryAfter = 0
	}
	if !all.Allowed {
		all.Delay = 0
	}
	return all
}
