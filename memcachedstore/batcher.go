package memcachedstore

import (
	"slices"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

const (
	maxBatches = 2  // maximum for reads, and separately for writes, in flight to one server
	maxBatch   = 64 // maximum number of requests in a batch
)

// batcher sends requests to one server in batches. While maxBatches batches are in
// flight, further requests are queued and then sent together. Most of the cost of a
// request of a few bytes, on the client and on the server, is the cost of a system
// call.
type batcher[T any] struct {
	mu       sync.Mutex
	inFlight int
	queue    []*batchItem[T]
}

// batchItem is one request, for which a caller waits.
type batchItem[T any] struct {
	leads   chan bool // receives true if the caller must send the queued requests, false if its request is done
	request T
}

// join returns a batch that the caller must send and then pass to finish. The batch
// starts with the caller's own request. If another caller has sent the request in the
// meantime, join returns nil and the request is done.
func (b *batcher[T]) join(own *batchItem[T]) []*batchItem[T] {
	if !b.tryStart(own) && !<-own.leads {
		return nil
	}
	return b.takeBatch(own)
}

// tryStart reports whether the caller may send a batch immediately. If not, it queues
// the request.
func (b *batcher[T]) tryStart(own *batchItem[T]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.inFlight < maxBatches {
		b.inFlight++
		return true
	}
	own.leads = make(chan bool, 1)
	b.queue = append(b.queue, own)
	return false
}

// takeBatch returns a batch of own and of the first queued requests, which it removes
// from the queue.
func (b *batcher[T]) takeBatch(own *batchItem[T]) []*batchItem[T] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.queue), maxBatch-1)
	batch := append(make([]*batchItem[T], 0, n+1), own)
	batch = append(batch, b.queue[:n]...)
	b.queue = slices.Delete(b.queue, 0, n)
	return batch
}

// finish lets the caller of the first queued request send the next batch. It then
// notifies the other callers of the finished batch that their requests are done.
func (b *batcher[T]) finish(batch []*batchItem[T]) {
	b.startNext()
	for _, m := range batch[1:] {
		m.leads <- false
	}
}

func (b *batcher[T]) startNext() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) == 0 {
		b.inFlight--
		return
	}
	b.queue[0].leads <- true
	b.queue = slices.Delete(b.queue, 0, 1)
}

// readRequest is the read of a key for which a caller waits, and its result.
type readRequest struct {
	name string
	item *memcache.Item
	err  error
}

// readOne reads the key name from a server, in a batch with other reads. With
// DisableJoin a batch may contain a key twice, which is harmless.
func (s *Store) readOne(server int, name string) (*memcache.Item, error) {
	own := &batchItem[readRequest]{request: readRequest{name: name}}
	b := &s.readBatchers[server]
	batch := b.join(own)
	if batch == nil {
		return own.request.item, own.request.err
	}
	names := make([]string, len(batch))
	for i, m := range batch {
		names[i] = m.request.name
	}
	items, err := s.fetch(names)
	for _, m := range batch {
		m.request.item, m.request.err = items[m.request.name], err
	}
	b.finish(batch)
	return own.request.item, own.request.err
}
