package metrics

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"time"
)

// The numbers of shards, and of denied keys in each shard. Together with maxKeyBytes,
// they limit the memory.
const (
	topShards = 16
	topKeys   = 128 // for each shard
)

// halfLife is the interval at which all counts are halved.
const halfLife = 10 * time.Minute

// top keeps the keys that are denied most often. It uses the Space-Saving algorithm of
// Metwally, Agrawal and El Abbadi, in shards by the hash of the key. A key with more
// than 1/128 of the denials in its shard is always kept, independent of the number of
// other keys. The count of a key is too high by at most its error.
type top struct{ shards [topShards]topShard }

type topShard struct {
	mu      sync.Mutex
	byHash  map[uint64]*topEntry
	order   topOrder // heap; the smallest count comes first
	decayed int64    // time of the last decay, in nanoseconds
	_       [64]byte // padding, so that shards do not share cache lines
}

// topEntry is the counter of one key. If a shard is full, a new key takes over the
// entry with the smallest count.
type topEntry struct {
	hash         uint64
	policy, key  string // key is empty unless TopKeys is set
	count, error uint64
	shadow       bool // whether the last denial was in shadow mode
	index        int  // index of the entry in topOrder
}

func (t *top) init(now int64) {
	for i := range t.shards {
		t.shards[i].decayed = now
		t.shards[i].byHash = make(map[uint64]*topEntry, topKeys)
	}
}

// add counts a denial of a key at the time now.
func (t *top) add(now int64, hash uint64, policy, key string, shadow bool) {
	s := &t.shards[hash%topShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decay(now)
	e := s.byHash[hash]
	if e == nil {
		e = s.insert(hash, policy, key)
	}
	e.shadow = shadow
	e.count++
	heap.Fix(&s.order, e.index)
}

// insert returns the entry for a new key: an additional entry, or if the shard is full,
// the entry with the smallest count.
func (s *topShard) insert(hash uint64, policy, key string) *topEntry {
	var e *topEntry
	if len(s.order) < topKeys {
		e = &topEntry{}
		heap.Push(&s.order, e)
	} else {
		e = s.order[0]
		delete(s.byHash, e.hash)
	}
	e.hash, e.error, e.policy, e.key = hash, e.count, policy, strings.Clone(truncate(key))
	s.byHash[hash] = e
	return e
}

// decay halves all counts and errors once for each half-life that has passed since the
// last decay.
func (s *topShard) decay(now int64) {
	halvings := (now - s.decayed) / int64(halfLife)
	if halvings < 1 {
		return
	}
	s.decayed += halvings * int64(halfLife)
	for _, e := range s.order {
		e.count, e.error = e.count>>min(halvings, 63), e.error>>min(halvings, 63)
	}
	heap.Init(&s.order) // halved counts may have become equal
}

// topOrder is a heap with the smallest count at the top.
type topOrder []*topEntry

func (o topOrder) Len() int           { return len(o) }
func (o topOrder) Less(i, j int) bool { return o[i].count < o[j].count }
func (o topOrder) Swap(i, j int)      { o[i], o[j] = o[j], o[i]; o[i].index, o[j].index = i, j }
func (o *topOrder) Push(x any)        { e := x.(*topEntry); e.index = len(*o); *o = append(*o, e) }
func (o *topOrder) Pop() any          { panic("metrics: entries are never removed") }

// TopKey is a key that is denied often.
type TopKey struct {
	Policy  string `json:"policy"`  // empty for checks without a policy
	Key     string `json:"key"`     // “h:” and the keyed hash of policy and key; the key itself if TopKeys is set
	Denials uint64 `json:"denials"` // number of denials, in which older denials have less weight
	Error   uint64 `json:"error"`   // maximum by which Denials is too high
	Shadow  bool   `json:"shadow"`  // whether the last denial was in shadow mode
}

// Top returns the n keys that are denied most often, or fewer if there are fewer, in
// descending order of Denials minus Error.
func (d *Denials) Top(n int) []TopKey { return d.topAt(monotonicNow(), n) }

func (d *Denials) topAt(now int64, n int) []TopKey {
	all := []TopKey{} // not nil, which JSON would encode as null
	for i := range d.top.shards {
		all = append(all, d.top.shards[i].keys(now, d.opts.TopKeys)...)
	}
	slices.SortFunc(all, func(a, b TopKey) int {
		return cmp.Or(cmp.Compare(b.Denials-b.Error, a.Denials-a.Error), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Key, b.Key))
	})
	return all[:min(n, len(all))]
}

func (s *topShard) keys(now int64, showKeys bool) []TopKey {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decay(now)
	var all []TopKey
	for _, e := range s.order {
		k := TopKey{e.policy, hashText(e.hash), e.count, e.error, e.shadow}
		if showKeys {
			k.Key = e.key
		}
		if e.count > e.error { // otherwise, all counted denials may be those of the replaced key
			all = append(all, k)
		}
	}
	return all
}
