package memstore_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest"
)

func TestStore(t *testing.T) {
	var o storetest.Options
	if testing.Short() {
		o.Decisions, o.Rounds = 30_000, 50
	}
	o.Run(t, func(t *testing.T) headgate.Store { return memstore.New(nil) })
}

// TestStoreDuringGrowth runs the suite on a store whose tables are replaced during the
// test.
func TestStoreDuringGrowth(t *testing.T) {
	storetest.Options{Decisions: atLeast(20_000, 100_000), Rounds: atLeast(5, 20)}.Run(t, func(t *testing.T) headgate.Store {
		return memstore.New(&memstore.Options{MaxEntries: 20_000})
	})
}
