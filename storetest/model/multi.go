package model

import (
	"slices"

	"github.com/headgate/headgate"
)

// Debit is the part of a request that concerns one key and one limit.
type Debit struct {
	Key   *Key
	Name  string // the name that the limit has in Decision.DeniedBy
	Limit headgate.Limit
	Cost  int64
}

// TakeAll spends all debits at t, or nothing if one of them is denied. If a key occurs
// twice, both costs are spent. A key from which it spends nothing is unchanged: it
// remains in the state of its last limit.
func TakeAll(t int64, debits []Debit) headgate.Decision {
	copied := copyKeys(t, debits)
	d := decideAll(t, copied, true)
	for i, c := range debits {
		if d.Allowed && c.Cost > 0 {
			*c.Key = *copied[i].Key
		}
	}
	return d
}

// PeekAll returns the decision of a TakeAll with the same arguments, but changes
// nothing.
func PeekAll(t int64, debits []Debit) headgate.Decision {
	return decideAll(t, copyKeys(t, debits), false)
}

// copyKeys returns debits of copies of the keys, with their states converted to the
// limits of the debits at t.
func copyKeys(t int64, debits []Debit) []Debit {
	copies := make(map[*Key]*Key)
	copied := slices.Clone(debits)
	for i, c := range debits {
		if copies[c.Key] == nil {
			copies[c.Key] = c.Key.under(c.Limit, t)
		}
		copied[i].Key = copies[c.Key]
	}
	return copied
}

func decideAll(t int64, debits []Debit, spend bool) headgate.Decision {
	answers := make([]headgate.Decision, len(debits))
	allowed := true
	for i, c := range debits {
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

// costBefore returns the sum of the costs of the debits before debit i that have the
// same key.
func costBefore(debits []Debit, i int) (sum int64) {
	for _, c := range debits[:i] {
		if c.Key == debits[i].Key {
			sum += min(c.Cost, 1<<62-sum) // the sum exceeds every limit but not an int64
		}
	}
	return sum
}

// decideAfter returns the decision on n units, after earlier debits of the same request
// on the same key that cost before units. The key must have before + n units at t.
func (k *Key) decideAfter(t, n, before int64) headgate.Decision {
	if n == 0 {
		return k.decide(t, 0)
	}
	return k.decide(t, before+min(n, 1<<62-1))
}

// combine returns the decision on the whole request. RetryAfter is the longest of the
// debits that were denied, Delay the longest of all debits. Limit, Remaining and
// ResetAfter are those of the debit with the fewest remaining units (the first, if
// several are equal).
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
