package memcachedstore

import (
	"errors"

	"github.com/bradfitz/gomemcache/memcache"
)

// fetch reads keys with their cas numbers. Reading twice harms nobody, so it is repeated when a connection turns out to be broken:
// then the idle ones are closed first, as they are most likely from before the same end.
func (s *Store) fetch(keys []string) (map[string]*memcache.Item, error) {
	items, err := s.get(keys)
	if err != nil && broken(err) {
		s.closeIdle()
		items, err = s.get(keys)
	}
	if err != nil {
		return nil, failure(err, false)
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

// lost is failure for something that was to be written.
func (s *Store) lost(err error) error {
	if broken(err) {
		s.closeIdle()
	}
	return failure(err, true)
}

// closeIdle closes the connections that are idle; the next requests make new ones.
func (s *Store) closeIdle() {
	_ = s.client.Close() // it can be used afterwards
	for _, w := range s.wires {
		w.closeIdle()
	}
}
