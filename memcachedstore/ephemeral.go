package memcachedstore

import (
	"errors"
	"sync"

	"github.com/bradfitz/gomemcache/memcache"
)

// names are the keys that an ephemeral store wrote; all is nil in any other.
type names struct {
	mu  sync.Mutex
	all map[digest]struct{}
}

func (n *names) note(key digest) {
	if n.all == nil {
		return
	}
	n.mu.Lock()
	n.all[key] = struct{}{}
	n.mu.Unlock()
}

// deleteWritten removes what an ephemeral store wrote. It gives up at the first error: what is left expires.
func (s *Store) deleteWritten() error {
	var failed error
	var once sync.Once
	var workers sync.WaitGroup
	work := make(chan digest)
	stop := make(chan struct{})
	for range min(len(s.written.all), s.options.MaxConns) {
		workers.Go(func() {
			for key := range work {
				if err := s.client.Delete(key.name()); err != nil && !errors.Is(err, memcache.ErrCacheMiss) {
					once.Do(func() { failed = s.lost(err); close(stop) })
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
