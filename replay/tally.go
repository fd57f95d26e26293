package replay

import (
	"cmp"
	"slices"
)

// tally counts the requests of each key, and its denials by each policy. It is exact
// while it fits into its budget. Above it, tally repeatedly drops the half of the keys
// with the fewest denials; the numbers of keys, and of keys with denials, are then
// estimates.
type tally struct {
	policies int // number of policies
	budget   int64
	keys     keyTable
	requests []int64
	denied   []int64 // of key k under policy l at index k·policies + l

	seen      sketch
	touched   []sketch // of the keys that policy l denied
	pruned    bool
	forgotten int64 // maximum denials, over all policies, that were lost for a key that was dropped and came again
}

// minTallied prevents a tiny budget from pruning all the time.
const minTallied = 1024

func newTally(policies int, budget int64) *tally {
	// A third of the budget is reserved for pruning.
	return &tally{policies: policies, budget: budget / 3 * 2, touched: make([]sketch, policies)}
}

// number returns the number of a key, which is valid until the next call.
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

// bytes returns the memory in use.
func (t *tally) bytes() int64 {
	return t.keys.bytes() + int64(cap(t.requests)+cap(t.denied))*8
}

// deny counts a denial of key n by a policy.
func (t *tally) deny(n uint32, policy int) {
	at := &t.denied[int(n)*t.policies+policy]
	if *at == 0 {
		t.touched[policy].add(t.keys.hashes[n])
	}
	*at++
}

// denials returns the denials of key n over all policies.
func (t *tally) denials(n uint32) (sum int64) {
	for _, denied := range t.of(n) {
		sum += denied
	}
	return sum
}

// of returns the denials of key n, by policy.
func (t *tally) of(n uint32) []int64 { return t.denied[int(n)*t.policies:][:t.policies] }

// prune keeps the half of the keys with the most denials, and the key keep.
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

// compareDenials sorts keys by denials, then by requests, both descending.
func (t *tally) compareDenials(a, b uint32) int {
	if c := cmp.Compare(t.denials(b), t.denials(a)); c != 0 {
		return c
	}
	return cmp.Compare(t.requests[b], t.requests[a])
}

// worst returns the numbers of at most most keys with denials, sorted by denials and
// requests (descending), then by name.
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

// distinct returns the number of distinct keys, and whether it is exact.
func (t *tally) distinct() (n int64, exact bool) {
	if t.pruned {
		return max(t.seen.estimate(), int64(len(t.requests))), false
	}
	return int64(len(t.requests)), true
}

// policyDenials returns the denials of every key in memory in ascending order, and the
// number of keys with denials.
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
