package memstore_test

import (
	"flag"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest"
)

// holdSteps is the number of operations with holds that are compared with the model.
var holdSteps = flag.Int("hold-steps", 900_000, "operations in traces with holds that are compared with the model")

func TestStore(t *testing.T) {
	o := storetest.Options{Rounds: 300, HoldSteps: *holdSteps}
	if testing.Short() {
		o.Decisions, o.Rounds, o.HoldSteps = 30_000, 50, 0
	}
	o.Run(t, func(t *testing.T) headgate.Store { return memstore.New(nil) })
}

// TestStoreDuringGrowth runs the suite on a store whose tables are replaced during the
// test.
func TestStoreDuringGrowth(t *testing.T) {
	storetest.Options{Decisions: atLeast(20_000, 60_000), Rounds: atLeast(5, 20), HoldSteps: atLeast(0, 40_000)}.Run(t, func(t *testing.T) headgate.Store {
		return memstore.New(&memstore.Options{MaxEntries: 20_000})
	})
}
