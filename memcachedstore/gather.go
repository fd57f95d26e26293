package memcachedstore

import (
	"slices"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	readersPerServer = 2  // reads that one server is asked for at once
	keysPerRead      = 64 // keys in one of them
)

// reads gathers the reads of single keys from one server: while some are under way the next ones wait, and then go together. What
// a system call costs, on both sides, is most of what a read of a few bytes costs.
type reads struct {
	mu      sync.Mutex
	running int
	pending []*read
}

// read is a key that somebody waits for.
type read struct {
	name string
	next chan bool // true: the waiter is to read for all that wait; false: item or err is there
	item *memcache.Item
	err  error
}

// get reads a key. Whoever finds a reader free reads for everyone who waits by then, and leaves the rest to the first of them.
func (g *reads) get(s *Store, name string) (*memcache.Item, error) {
	own := &read{name: name}
	if !g.begin(own) && !<-own.next {
		return own.item, own.err
	}
	batch := g.batch(own)
	names := make([]string, len(batch))
	for i, r := range batch {
		names[i] = r.name
	}
	items, err := s.fetch(names)
	g.passOn()
	for _, r := range batch[1:] {
		r.item, r.err = items[r.name], err
		r.next <- false
	}
	return items[name], err
}

// begin reports whether own is to read at once; otherwise it waits.
func (g *reads) begin(own *read) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < readersPerServer {
		g.running++
		return true
	}
	own.next = make(chan bool, 1)
	g.pending = append(g.pending, own)
	return false
}

// batch is own and the first of those that wait. When callers are not joined a key may be in it twice, which does no harm.
func (g *reads) batch(own *read) []*read {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.pending), keysPerRead-1)
	batch := append(make([]*read, 0, n+1), own)
	batch = append(batch, g.pending[:n]...)
	g.pending = slices.Delete(g.pending, 0, n)
	return batch
}

// passOn makes the first of those who wait the next reader.
func (g *reads) passOn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		g.running--
		return
	}
	g.pending[0].next <- true
	g.pending = slices.Delete(g.pending, 0, 1)
}
