package lease

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// keyTable contains the leased keys by their hash. A lookup locks nothing: each shard is
// a map that is copied before it changes. It changes only when a key is added or removed.
type keyTable struct {
	seed   maphash.Seed
	max    int64
	size   atomic.Int64
	shards [1 << shardBits]shard
}

const shardBits = 8

type shard struct {
	keys atomic.Pointer[map[uint64]*leasedKey]
	mu   sync.Mutex // locked while the map is replaced
}

func (t *keyTable) init(maxKeys int) {
	t.seed, t.max = maphash.MakeSeed(), int64(maxKeys)
	for i := range t.shards {
		t.shards[i].keys.Store(&map[uint64]*leasedKey{})
	}
}

func (t *keyTable) shard(hash uint64) *shard { return &t.shards[hash>>(64-shardBits)] }

// find returns a leased key, or nil if the key is not leased.
func (t *keyTable) find(b *leasedBound, key string, hash uint64) *leasedKey {
	k := (*t.shard(hash).keys.Load())[hash]
	if k == nil || k.bound != b || k.key != key {
		return nil
	}
	return k
}

// add adds k and reports whether it did. It does not if the table is full or has a key
// with the same hash.
func (t *keyTable) add(k *leasedKey) bool {
	if t.size.Add(1) > t.max {
		t.size.Add(-1)
		return false
	}
	s := t.shard(k.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.keys.Load()
	if old[k.hash] != nil {
		t.size.Add(-1)
		return false
	}
	next := maps.Clone(old)
	next[k.hash] = k
	s.keys.Store(&next)
	return true
}

func (t *keyTable) remove(k *leasedKey) {
	s := t.shard(k.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.keys.Load()
	if old[k.hash] != k {
		return
	}
	next := maps.Clone(old)
	delete(next, k.hash)
	s.keys.Store(&next)
	t.size.Add(-1)
}

// all returns all leased keys.
func (t *keyTable) all() (list []*leasedKey) {
	for i := range t.shards {
		for _, k := range *t.shards[i].keys.Load() {
			list = append(list, k)
		}
	}
	return list
}

// requestCounters counts the requests for keys that are not leased. Keys whose hashes
// have the same low bits use the same counter, and replace each other. So some counts are
// too low, and these keys are leased later.
type requestCounters [1 << 13]atomic.Uint64

// hotAfter is the number of requests within one TTL after which a key is leased.
const hotAfter = 3

// count adds one request and returns the number of requests in the present epoch. An
// epoch is one TTL.
func (c *requestCounters) count(hash uint64, epoch int64) int64 {
	slot := &c[hash%uint64(len(c))]
	// A slot has 32 bits of the hash, 16 bits of the epoch and 16 bits of the count.
	id := hash&0xffffffff00000000 | uint64(epoch)&0xffff<<16
	old := slot.Load()
	next := id | 1
	if old&^0xffff == id {
		next = id | min(old&0xffff+1, 0xffff)
	}
	slot.CompareAndSwap(old, next)
	return int64(next & 0xffff)
}
