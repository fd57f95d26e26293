package activity

import (
	"cmp"
	"container/heap"
	"slices"
	"strings"
	"sync"
	"time"
)

// The numbers of shards, and of keys in each shard. Together with [MaxKeyBytes], they
// limit the memory.
const (
	topShards = 16
	topKeys   = 128 // for each shard
)

// MaxKeyBytes is the maximum length of a key that is kept as text, in bytes.
const MaxKeyBytes = 256

// Truncate returns at most the first MaxKeyBytes bytes of s.
func Truncate(s string) string {
	if len(s) > MaxKeyBytes {
		return s[:MaxKeyBytes] + "…"
	}
	return s
}

// halfLife is the interval at which all counts are halved.
const halfLife = 10 * time.Minute

// TopKeys keeps the keys that occur most often. It uses the Space-Saving algorithm of
// Metwally, Agrawal and El Abbadi, in shards by the hash of the key. A key with more
// than 1/128 of the occurrences in its shard is always kept, independent of the number of
// other keys. The count of a key is too high by at most its error. It is created with
// [NewTopKeys] and may be used concurrently.
type TopKeys struct{ shards [topShards]topShard }

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
	policy, key  string // key is empty unless the text of keys is kept
	count, error uint64
	rate         rate
	shadow       bool // whether the last occurrence was in shadow mode
	index        int  // index of the entry in topOrder
}

// rate has the occurrences in the present minute and in the minute before.
type rate struct {
	minute           int64
	present, earlier uint64
}

// at moves the counts to the minute that contains now.
func (r *rate) at(now int64) {
	switch minute := now / int64(time.Minute); minute - r.minute {
	case 0:
	case 1:
		r.minute, r.present, r.earlier = minute, 0, r.present
	default:
		*r = rate{minute: minute}
	}
}

// perSecond returns the occurrences per second in the last one to two minutes, or since
// the start of the process, which is the time 0.
func (r rate) perSecond(now int64) float64 {
	r.at(now)
	span := now%int64(time.Minute) + int64(time.Minute)
	span = max(min(span, now), int64(time.Second))
	return float64(r.present+r.earlier) / time.Duration(span).Seconds()
}

// NewTopKeys returns a TopKeys without keys. All times are in nanoseconds since the start
// of the process.
func NewTopKeys(now int64) *TopKeys {
	t := &TopKeys{}
	for i := range t.shards {
		t.shards[i].decayed = now
		t.shards[i].byHash = make(map[uint64]*topEntry, topKeys)
	}
	return t
}

// Hit is one or several occurrences of a key.
type Hit struct {
	Hash   uint64 // of policy and key
	Policy string
	Key    string // text of the key to keep; may be empty
	Shadow bool   // whether the policy is in shadow mode for the key
	Weight uint64 // number of occurrences
}

// Add counts a hit at the time now. It allocates at most for a new key.
func (t *TopKeys) Add(now int64, h *Hit) {
	s := &t.shards[h.Hash%topShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decay(now)
	e := s.byHash[h.Hash]
	if e == nil {
		e = s.insert(h)
	}
	e.shadow = h.Shadow
	e.count += h.Weight
	e.rate.at(now)
	e.rate.present += h.Weight
	heap.Fix(&s.order, e.index)
}

// insert returns the entry for a new key: an additional entry, or if the shard is full,
// the entry with the smallest count.
func (s *topShard) insert(h *Hit) *topEntry {
	var e *topEntry
	if len(s.order) < topKeys {
		e = &topEntry{}
		heap.Push(&s.order, e)
	} else {
		e = s.order[0]
		delete(s.byHash, e.hash)
	}
	e.hash, e.error, e.policy, e.key, e.rate = h.Hash, e.count, h.Policy, strings.Clone(Truncate(h.Key)), rate{}
	s.byHash[h.Hash] = e
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
func (o *topOrder) Pop() any          { panic("activity: entries are never removed") }

// KeyCount is the count of one key.
type KeyCount struct {
	Hash      uint64
	Policy    string  // empty for checks without a policy
	Key       string  // as in the hits; truncated
	Count     uint64  // occurrences, in which older ones have less weight
	Error     uint64  // maximum by which Count is too high
	PerSecond float64 // occurrences per second in the last one to two minutes
	Shadow    bool    // whether the last one was in shadow mode
}

// Keys returns all keys in descending order of Count minus Error.
func (t *TopKeys) Keys(now int64) (all []KeyCount) {
	for i := range t.shards {
		all = append(all, t.shards[i].keys(now)...)
	}
	slices.SortStableFunc(all, func(a, b KeyCount) int {
		return cmp.Or(cmp.Compare(b.Count-b.Error, a.Count-a.Error), cmp.Compare(a.Policy, b.Policy), cmp.Compare(a.Hash, b.Hash))
	})
	return all
}

func (s *topShard) keys(now int64) (all []KeyCount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.decay(now)
	for _, e := range s.order {
		if e.count > e.error { // otherwise, all counted occurrences may be those of the replaced key
			all = append(all, KeyCount{e.hash, e.policy, e.key, e.count, e.error, e.rate.perSecond(now), e.shadow})
		}
	}
	return all
}
