package metrics

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"time"
)

// Bounds on what is kept of keys that are denied: with mostShown they bound the memory.
const (
	topShards = 16
	topKeys   = 128 // in each
)

// halfLife is the time in which what was counted loses half of its weight.
const halfLife = 10 * time.Minute

// top keeps the keys that are denied most: the Space-Saving sketch of Metwally, Agrawal and El Abbadi, in shards by the key's hash. A
// key that is more than a 128th of the denials of its shard is in it, however many others there are; what is told of a key is too high by
// at most its Error.
type top struct{ shards [topShards]topShard }

type topShard struct {
	mu     sync.Mutex
	byHash map[uint64]*topEntry
	order  topOrder // the least first
	halved int64    // when, in nanoseconds
	_      [64]byte // each on cache lines of its own
}

// topEntry is one key, or what took its place.
type topEntry struct {
	hash         uint64
	policy, key  string // key is empty if it is not to be seen
	count, error uint64
	shadow       bool // the last denial would have been one, had the policy counted
	place        int  // in the order
}

func (t *top) init(now int64) {
	for i := range t.shards {
		t.shards[i].halved = now
		t.shards[i].byHash = make(map[uint64]*topEntry, topKeys)
	}
}

// add counts a denial of a key, at a moment.
func (t *top) add(now int64, hash uint64, policy, key string, shadow bool) {
	s := &t.shards[hash%topShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	e := s.byHash[hash]
	if e == nil {
		e = s.enter(hash, policy, key)
	}
	e.shadow = shadow
	e.count++
	heap.Fix(&s.order, e.place)
}

// enter gives a key a place: that of the least, if there is no other.
func (s *topShard) enter(hash uint64, policy, key string) *topEntry {
	var e *topEntry
	if len(s.order) < topKeys {
		e = &topEntry{}
		heap.Push(&s.order, e)
	} else {
		e = s.order[0]
		delete(s.byHash, e.hash)
	}
	e.hash, e.error, e.policy, e.key = hash, e.count, policy, strings.Clone(shown(key))
	s.byHash[hash] = e
	return e
}

// fade halves what was counted, once for each half-life that has passed.
func (s *topShard) fade(now int64) {
	lives := (now - s.halved) / int64(halfLife)
	if lives < 1 {
		return
	}
	s.halved += lives * int64(halfLife)
	for _, e := range s.order {
		e.count, e.error = e.count>>min(lives, 63), e.error>>min(lives, 63)
	}
	heap.Init(&s.order) // what is halved may be equal now
}

// topOrder is a heap with the least denied key on top.
type topOrder []*topEntry

func (o topOrder) Len() int           { return len(o) }
func (o topOrder) Less(i, j int) bool { return o[i].count < o[j].count }
func (o topOrder) Swap(i, j int)      { o[i], o[j] = o[j], o[i]; o[i].place, o[j].place = i, j }
func (o *topOrder) Push(x any)        { e := x.(*topEntry); e.place = len(*o); *o = append(*o, e) }
func (o *topOrder) Pop() any          { panic("metrics: nothing leaves the order") }

// TopKey is a key that is denied often.
type TopKey struct {
	Policy  string `json:"policy"`  // empty for checks that bring their own limit
	Key     string `json:"key"`     // h: and the keyed hash of policy and key; the key itself if that was asked for
	Denials uint64 `json:"denials"` // what was counted, with older denials of less weight
	Error   uint64 `json:"error"`   // Denials is too high by at most this
	Shadow  bool   `json:"shadow"`  // the last of them would have been one, had the policy counted
}

// Top are the keys that are denied most, those first, and at most n.
func (d *Denials) Top(n int) []TopKey { return d.topAt(moment(), n) }

func (d *Denials) topAt(now int64, n int) []TopKey {
	all := []TopKey{} // and not null, in JSON
	for i := range d.top.shards {
		all = append(all, d.top.shards[i].keys(now, d.opts.TopKeys)...)
	}
	slices.SortFunc(all, func(a, b TopKey) int {
		return cmp.Or(cmp.Compare(b.Denials-b.Error, a.Denials-a.Error), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

func (s *topShard) keys(now int64, asTheyAre bool) []TopKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fade(now)
	var all []TopKey
	for _, e := range s.order {
		k := TopKey{e.policy, hashText(e.hash), e.count, e.error, e.shadow}
		if asTheyAre {
			k.Key = e.key
		}
		if e.count > e.error { // else it may never have been denied more often than what it took the place of
			all = append(all, k)
		}
	}
	return all
}
