package memcachedstore_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memcachedstore"
	"github.com/headgate/headgate/storetest"
)

func open(t *testing.T, opts *memcachedstore.Options, servers ...string) *memcachedstore.Store {
	t.Helper()
	s, err := memcachedstore.New(opts, servers...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func TestStore(t *testing.T) {
	server := testserver.Memcached(t)
	storetest.Options{Decisions: 6000, Rounds: 20, Lanes: 16}.Run(t, func(t *testing.T) headgate.Store {
		return open(t, nil, server.Addr())
	})
}
