package fallback_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest"
)

// TestStore tests a fallback store whose inner store is always available: its results
// must be the same.
func TestStore(t *testing.T) {
	o := storetest.Options{Decisions: 200_000, Rounds: 50}
	if testing.Short() {
		o = storetest.Options{Decisions: 10_000, Rounds: 5}
	}
	o.Run(t, func(t *testing.T) headgate.Store { return around(t, memstore.New(nil), nil) })
}

// around returns a fallback store that is closed when the test ends.
func around(t testing.TB, inner headgate.Store, opts *fallback.Options) *fallback.Store {
	t.Helper()
	s, err := fallback.New(inner, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}
