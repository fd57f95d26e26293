package memcachedstore

import (
	"slices"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	batchesPerServer = 2  // batches that are under way at once with one server: so many of reads, and so many of writes
	mostInBatch      = 64 // requests in one of them
)

// gathering collects requests to one server: while some are under way the next ones wait, and then go together. What a system call
// costs, on both sides, is most of what a request of a few bytes costs.
type gathering[T any] struct {
	mu      sync.Mutex
	running int
	pending []*member[T]
}

// member is one request, that somebody waits for.
type member[T any] struct {
	next  chan bool // true: the waiter is to make the requests of all that wait; false: it was done
	asked T
}

// lead makes whoever finds a place free lead all that wait by then: the batch begins with his own. It is nil for everyone else,
// whose request has been done meanwhile. The leader ends the batch.
func (g *gathering[T]) lead(own *member[T]) []*member[T] {
	if !g.begin(own) && !<-own.next {
		return nil
	}
	return g.batch(own)
}

// begin reports whether own is to lead at once; otherwise it waits.
func (g *gathering[T]) begin(own *member[T]) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.running < batchesPerServer {
		g.running++
		return true
	}
	own.next = make(chan bool, 1)
	g.pending = append(g.pending, own)
	return false
}

// batch is own and the first of those that wait.
func (g *gathering[T]) batch(own *member[T]) []*member[T] {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(len(g.pending), mostInBatch-1)
	batch := append(make([]*member[T], 0, n+1), own)
	batch = append(batch, g.pending[:n]...)
	g.pending = slices.Delete(g.pending, 0, n)
	return batch
}

// end makes the first of those who wait the next leader, and tells those of the batch that it is done.
func (g *gathering[T]) end(batch []*member[T]) {
	g.passOn()
	for _, m := range batch[1:] {
		m.next <- false
	}
}

func (g *gathering[T]) passOn() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) == 0 {
		g.running--
		return
	}
	g.pending[0].next <- true
	g.pending = slices.Delete(g.pending, 0, 1)
}

// read is a key that somebody waits for.
type read struct {
	name string
	item *memcache.Item
	err  error
}

// readOne reads a key from one server together with others. When callers are not joined a key may be in a batch twice, which does
// no harm.
func (s *Store) readOne(server int, name string) (*memcache.Item, error) {
	own := &member[read]{asked: read{name: name}}
	g := &s.reads[server]
	batch := g.lead(own)
	if batch == nil {
		return own.asked.item, own.asked.err
	}
	names := make([]string, len(batch))
	for i, m := range batch {
		names[i] = m.asked.name
	}
	items, err := s.fetch(names)
	for _, m := range batch {
		m.asked.item, m.asked.err = items[m.asked.name], err
	}
	g.end(batch)
	return own.asked.item, own.asked.err
}
