package model

import (
	"slices"

	"github.com/headgate/headgate"
)

// Debit is one part of a request with several keys or limits.
type Debit struct {
	Key   *Key
	Name  string // as in Decision.DeniedBy
	Limit headgate.Limit
	Cost  int64
}

// TakeAll spends all debits at t, or nothing if one of them is denied. A key that
// occurs twice is spent from twice.
func TakeAll(t int64, debits []Debit) headgate.Decision { return decideAll(t, debits, true) }

// PeekAll returns what TakeAll would decide, and changes nothing.
func PeekAll(t int64, debits []Debit) headgate.Decision {
	copies := make(map[*Key]*Key)
	copied := slices.Clone(debits)
	for i, c := range debits {
		if copies[c.Key] == nil {
			copies[c.Key] = c.Key.clone()
		}
		copied[i].Key = copies[c.Key]
	}
	return decideAll(t, copied, false)
}

func decideAll(t int64, debits []Debit, spend bool) headgate.Decision {
	answers := make([]headgate.Decision, len(debits))
	allowed := true
	for i, c := range debits {
		c.Key.applyLimit(c.Limit, t)
		answers[i] = c.Key.decideAfter(t, c.Cost, costBefore(debits, i))
		allowed = allowed && answers[i].Allowed
	}
	for _, c := range debits {
		if allowed && spend {
			c.Key.spend(t, c.Cost)
		}
	}
	for i, c := range debits {
		c.Key.describe(&answers[i], t)
	}
	return combine(debits, answers)
}

// costBefore returns the cost of the debits of the same key before the i-th.
func costBefore(debits []Debit, i int) (sum int64) {
	for _, c := range debits[:i] {
		if c.Key == debits[i].Key {
			sum += min(c.Cost, 1<<62-sum) // above every limit, without overflow
		}
	}
	return sum
}

// decideAfter decides on n more units after before units of the same key in the same
// request. The key must have all of them at the same time.
func (k *Key) decideAfter(t, n, before int64) headgate.Decision {
	if n == 0 {
		return k.decide(t, 0)
	}
	return k.decide(t, before+min(n, 1<<62-1))
}

// combine returns the decision on the whole request. RetryAfter is the longest of the
// debits that denied, and Delay the longest of all. The other fields are those of the
// debit with the fewest units remaining, the first one if several have equally few.
func combine(debits []Debit, answers []headgate.Decision) headgate.Decision {
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
			all.DeniedBy = append(all.DeniedBy, debits[i].Name)
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
