package memstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest"
)

// openFolder opens a store and closes it at the end of the test.
func openFolder(t testing.TB, folder string, opts *memstore.FolderOptions) *memstore.Store {
	t.Helper()
	s, err := memstore.Open(folder, opts)
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

// TestFolderStore runs the suite of all stores on a store that saves its state all the
// time.
func TestFolderStore(t *testing.T) {
	o := storetest.Options{Decisions: atLeast(20_000, 100_000), Rounds: atLeast(20, 100)}
	o.Run(t, func(t *testing.T) headgate.Store {
		return openFolder(t, t.TempDir(), &memstore.FolderOptions{Sync: 10 * time.Millisecond})
	})
}
