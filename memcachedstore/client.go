package memcachedstore

import (
	"errors"

	"github.com/bradfitz/gomemcache/memcache"
)

// fetch reads keys with their cas numbers. Repeating a read is harmless, so it is
// repeated after a broken connection. Idle connections are closed first: they most
// likely broke, too.
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

// writeError classifies the error of a write.
func (s *Store) writeError(err error) error {
	if isBroken(err) {
		s.closeIdle()
	}
	return classify(err, true)
}

// closeIdle closes idle connections. The next requests open new ones.
func (s *Store) closeIdle() {
	_ = s.client.Close() // the client stays usable
	for _, w := range s.pipelines {
		w.closeIdle()
	}
}
