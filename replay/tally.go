package replay

import (
	"cmp"
	"slices"
)

// tally counts the requests of each key, and the denials of each key by each policy.
// The counts are exact as long as they fit into the memory budget. When they do not
// fit, tally drops the half of the keys with the fewest denials. From then on, the
// number of keys and the number of keys with denials are estimates.
type tally struct {
	policies int // number of policies
	budget   int64
	keys     keyTable
	requests []int64
	denied   []int64 // number of denials of key k by policy l at index k·policies + l

	seen      sketch
	touched   []sketch // for each policy, estimates the number of keys with denials
	pruned    bool
	forgotten int64 // most denials that a key's counts can lack because the key was dropped earlier
}

// minTallied is the number of keys below which none are dropped, so that a very small
// budget does not cause a drop at every new key.
const minTallied = 1024

func newTally(policies int, budget int64) *tally {
	// A third of the budget is needed while keys are dropped, for the new tables.
	return &tally{policies: policies, budget: budget / 3 * 2, touched: make([]sketch, policies)}
}

// number returns the number of a key, which it adds if it is new. hash is the hash of
// the key. The number is valid until the next call, because keys may then be dropped.
func (t *tally) number(hash uint64, key string) uint32 {
	n := t.keys.intern(hash, []byte(key))
	if int(n) < len(t.requests) {
		return n
	}
	t.seen.add(hash)
	t.requests = append(t.requests, 0)
	t.denied = append(t.denied, make([]int64, t.policies)...)
	if t.bytes() > t.budget && len(t.requests) >= minTallied {
		t.prune(n)
		n = t.keys.intern(hash, []byte(key))
	}
	return n
}

// bytes returns the number of bytes of memory that the counts and keys use, without the
// sketches.
func (t *tally) bytes() int64 {
	return t.keys.bytes() + int64(cap(t.requests)+cap(t.denied))*8
}

// deny counts a denial of key number n by a policy.
func (t *tally) deny(n uint32, policy int) {
	at := &t.denied[int(n)*t.policies+policy]
	if *at == 0 {
		t.touched[policy].add(t.keys.hashes[n])
	}
	*at++
}

// denials returns the number of denials of key number n, summed over all policies.
func (t *tally) denials(n uint32) (sum int64) {
	for _, denied := range t.of(n) {
		sum += denied
	}
	return sum
}

// of returns the number of denials of key number n by each policy.
func (t *tally) of(n uint32) []int64 { return t.denied[int(n)*t.policies:][:t.policies] }

// prune drops the half of the keys with the fewest denials, except the key number keep.
// It changes the numbers of all keys.
func (t *tally) prune(keep uint32) {
	order := make([]uint32, len(t.requests))
	for n := range order {
		order[n] = uint32(n)
	}
	slices.SortFunc(order, t.compareDenials)
	kept := order[:len(order)/2]
	t.pruned = true
	t.forgotten += t.denials(order[len(kept)])
	if !slices.Contains(kept, keep) {
		kept = append(kept, keep)
	}
	next := tally{}
	for _, n := range kept {
		next.keys.intern(t.keys.hashes[n], []byte(t.keys.names[n]))
		next.requests = append(next.requests, t.requests[n])
		next.denied = append(next.denied, t.of(n)...)
	}
	t.keys, t.requests, t.denied = next.keys, next.requests, next.denied
}

// compareDenials orders key numbers by denials, then by requests, both descending.
func (t *tally) compareDenials(a, b uint32) int {
	if c := cmp.Compare(t.denials(b), t.denials(a)); c != 0 {
		return c
	}
	return cmp.Compare(t.requests[b], t.requests[a])
}

// worst returns the numbers of the keys with the most denials, at most as many as the
// parameter most and only keys with denials. They are sorted by denials and then
// requests, both descending, then by the text of the key.
func (t *tally) worst(most int) []uint32 {
	var order []uint32
	for n := range uint32(len(t.requests)) {
		if t.denials(n) > 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(t.compareDenials(a, b), cmp.Compare(t.keys.names[a], t.keys.names[b]))
	})
	return order[:min(most, len(order))]
}

// distinct returns the number of distinct keys, and whether the number is exact.
func (t *tally) distinct() (n int64, exact bool) {
	if t.pruned {
		return max(t.seen.estimate(), int64(len(t.requests))), false
	}
	return int64(len(t.requests)), true
}

// policyDenials returns two results for one policy: the number of denials of every key
// in memory, ascending, and the number of keys with at least one denial (an estimate if
// keys were dropped).
func (t *tally) policyDenials(policy int) (sorted []int64, touched int64) {
	sorted = make([]int64, 0, len(t.requests))
	for n := range t.requests {
		denied := t.denied[n*t.policies+policy]
		sorted = append(sorted, denied)
		if denied > 0 {
			touched++
		}
	}
	slices.Sort(sorted)
	if t.pruned {
		touched = max(touched, t.touched[policy].estimate())
	}
	return sorted, touched
}
