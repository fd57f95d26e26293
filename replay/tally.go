package replay

import (
	"cmp"
	"slices"
)

// tally counts, for each key, its requests and how often each policy denied it. It is exact while it fits its budget. Past
// that it forgets, again and again, the half of the keys with fewest denials; how many keys there were, and how many were
// touched, is estimated from then on.
type tally struct {
	lanes    int // how many policies are decided side by side
	budget   int64
	keys     keyTable
	requests []int64
	denied   []int64 // of key k under lane l at k·lanes + l

	seen      sketch
	touched   []sketch // of the keys that lane l denied
	pruned    bool
	forgotten int64 // the most denials, over all lanes, that a key which came back may have lost
}

// fewestTallied keeps a tiny budget from forgetting all the time.
const fewestTallied = 1024

func newTally(lanes int, budget int64) *tally {
	return &tally{lanes: lanes, budget: budget / 3 * 2, touched: make([]sketch, lanes)} // pruning needs half as much again
}

// number is the number of a key, which stays until the next call.
func (t *tally) number(hash uint64, key string) uint32 {
	n := t.keys.intern(hash, []byte(key))
	if int(n) < len(t.requests) {
		return n
	}
	t.seen.add(hash)
	t.requests = append(t.requests, 0)
	t.denied = append(t.denied, make([]int64, t.lanes)...)
	if t.bytes() > t.budget && len(t.requests) >= fewestTallied {
		t.prune(n)
		n = t.keys.intern(hash, []byte(key))
	}
	return n
}

// bytes is the memory held.
func (t *tally) bytes() int64 {
	return t.keys.bytes() + int64(cap(t.requests)+cap(t.denied))*8
}

// deny counts a denial of key n by a lane.
func (t *tally) deny(n uint32, lane int) {
	at := &t.denied[int(n)*t.lanes+lane]
	if *at == 0 {
		t.touched[lane].add(t.keys.hashes[n])
	}
	*at++
}

// denials of key n over all lanes.
func (t *tally) denials(n uint32) (sum int64) {
	for _, denied := range t.of(n) {
		sum += denied
	}
	return sum
}

// of is the denials of key n, by lane.
func (t *tally) of(n uint32) []int64 { return t.denied[int(n)*t.lanes:][:t.lanes] }

// prune keeps the half of the keys that were denied most, and keep.
func (t *tally) prune(keep uint32) {
	order := make([]uint32, len(t.requests))
	for n := range order {
		order[n] = uint32(n)
	}
	slices.SortFunc(order, t.worse)
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

// worse puts keys with more denials first, then those with more requests.
func (t *tally) worse(a, b uint32) int {
	if c := cmp.Compare(t.denials(b), t.denials(a)); c != 0 {
		return c
	}
	return cmp.Compare(t.requests[b], t.requests[a])
}

// worst is the numbers of the keys that were denied, at most most of them: the most denied first, then the most requests, then
// by name.
func (t *tally) worst(most int) []uint32 {
	var order []uint32
	for n := range uint32(len(t.requests)) {
		if t.denials(n) > 0 {
			order = append(order, n)
		}
	}
	slices.SortFunc(order, func(a, b uint32) int {
		return cmp.Or(t.worse(a, b), cmp.Compare(t.keys.names[a], t.keys.names[b]))
	})
	return order[:min(most, len(order))]
}

// distinct is how many keys there were, and whether that is exact.
func (t *tally) distinct() (n int64, exact bool) {
	if t.pruned {
		return max(t.seen.estimate(), int64(len(t.requests))), false
	}
	return int64(len(t.requests)), true
}

// laneDenials is the denials of every key that is not forgotten, in rising order, and how many keys were touched.
func (t *tally) laneDenials(lane int) (sorted []int64, touched int64) {
	sorted = make([]int64, 0, len(t.requests))
	for n := range t.requests {
		denied := t.denied[n*t.lanes+lane]
		sorted = append(sorted, denied)
		if denied > 0 {
			touched++
		}
	}
	slices.Sort(sorted)
	if t.pruned {
		touched = max(touched, t.touched[lane].estimate())
	}
	return sorted, touched
}
