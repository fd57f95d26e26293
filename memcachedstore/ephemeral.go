package memcachedstore

import (
	"errors"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

// writtenKeys is the set of keys that an ephemeral store has written. If the store is
// not ephemeral, all is nil.
type writtenKeys struct {
	mu  sync.Mutex
	all map[digest]struct{}
}

func (n *writtenKeys) add(key digest) {
	if n.all == nil {
		return
	}
	n.mu.Lock()
	n.all[key] = struct{}{}
	n.mu.Unlock()
}

// deleteWrittenKeys deletes the keys that an ephemeral store has written. It stops at
// the first error; the remaining keys expire.
func (s *Store) deleteWrittenKeys() error {
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	work := make(chan digest)
	stop := make(chan struct{})
	for range min(len(s.written.all), s.options.MaxConns) {
		workers.Go(func() {
			for key := range work {
				if err := s.client.Delete(key.name()); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
					once.Do(func() { failed = s.writeError(err); close(stop) })
				}
			}
		})
	}
	for key := range s.written.all {
		select {
		case work <- key:
			continue
		case <-stop:
		}
		break
	}
	close(work)
	workers.Wait()
	return failed
}
