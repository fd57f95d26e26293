package lease

import (
	"hash/maphash"
	"maps"
	"sync"
	"sync/atomic"
)

// table has the leased keys by their hash. A lookup locks nothing: each shard is a map
// that is copied before it changes. It changes only when a key is leased or released.
type table struct {
	seed   maphash.Seed
	max    int64
	size   atomic.Int64
	shards [1 << shardBits]shard
}

const shardBits = 8

type shard struct {
	leases atomic.Pointer[map[uint64]*keyLease]
	mu     sync.Mutex // locked while the map is replaced
}

func (t *table) init(most int) {
	t.seed, t.max = maphash.MakeSeed(), int64(most)
	for i := range t.shards {
		t.shards[i].leases.Store(&map[uint64]*keyLease{})
	}
}

func (t *table) shard(hash uint64) *shard { return &t.shards[hash>>(64-shardBits)] }

// find returns the lease of a key, or nil if the key is not leased.
func (t *table) find(b *bound, key string, hash uint64) *keyLease {
	c := (*t.shard(hash).leases.Load())[hash]
	if c == nil || c.bound != b || c.key != key {
		return nil
	}
	return c
}

// add adds c and reports whether it did. It does not if the table is full or has an
// entry with the same hash.
func (t *table) add(c *keyLease) bool {
	if t.size.Add(1) > t.max {
		t.size.Add(-1)
		return false
	}
	s := t.shard(c.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.leases.Load()
	if old[c.hash] != nil {
		t.size.Add(-1)
		return false
	}
	next := maps.Clone(old)
	next[c.hash] = c
	s.leases.Store(&next)
	return true
}

func (t *table) remove(c *keyLease) {
	s := t.shard(c.hash)
	s.mu.Lock()
	defer s.mu.Unlock()
	old := *s.leases.Load()
	if old[c.hash] != c {
		return
	}
	next := maps.Clone(old)
	delete(next, c.hash)
	s.leases.Store(&next)
	t.size.Add(-1)
}

// all returns all leases.
func (t *table) all() (list []*keyLease) {
	for i := range t.shards {
		for _, c := range *t.shards[i].leases.Load() {
			list = append(list, c)
		}
	}
	return list
}

// counters counts the requests for keys that are not leased. A counter is used by
// all keys with the same low bits of the hash: a key replaces another key. The counts are
// therefore too low for some keys, which are then leased later.
type counters [1 << 13]atomic.Uint64

// hotAfter is the number of requests within one TTL after which a key is leased.
const hotAfter = 3

// count adds one request and returns the number of requests in the present epoch. An
// epoch is one TTL.
func (c *counters) count(hash uint64, epoch int64) int64 {
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
