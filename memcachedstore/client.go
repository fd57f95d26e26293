package memcachedstore

import (
	"errors"

	"github.com/bradfitz/gomemcache/memcache"
)

// fetch reads keys and their CAS values. A read has no effect, so after a broken
// connection fetch reads a second time. It first closes all idle connections, because
// they most likely broke, too.
func (s *Store) fetch(keys []string) (map[string]*memcache.Item, error) {
	items, err := s.get(keys)
	if err != nil && isBroken(err) {
		s.closeIdle()
		items, err = s.get(keys)
	}
	if err != nil {
		return nil, classify(err, false)
	}
	return items, nil
}

func (s *Store) get(keys []string) (map[string]*memcache.Item, error) {
	switch len(keys) {
	case 0:
		return nil, nil
	case 1:
		item, err := s.client.Get(keys[0])
		if errors.Is(err, memcache.ErrCacheMiss) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return map[string]*memcache.Item{keys[0]: item}, nil
	default:
		return s.client.GetMulti(keys)
	}
}

// writeError converts the error of a write to a store error. After a broken connection
// it also closes the idle connections.
func (s *Store) writeError(err error) error {
	if isBroken(err) {
		s.closeIdle()
	}
	return classify(err, true)
}

// closeIdle closes idle connections. The next requests open new connections.
func (s *Store) closeIdle() {
	_ = s.client.Close() // the client can still be used
	for _, w := range s.pipelines {
		w.closeIdle()
	}
}
