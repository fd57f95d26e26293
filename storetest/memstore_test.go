package storetest_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest"
)

// The embedded store, at full length: a million decisions beside the model, and a thousand races for a key of each algorithm.
func TestMemoryStore(t *testing.T) {
	t.Parallel()
	storetest.Run(t, func(t *testing.T) headgate.Store {
		store := memstore.New(nil)
		t.Cleanup(func() { _ = store.Close() })
		return store
	})
}
