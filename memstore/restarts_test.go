package memstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest/crowd"
)

// openForRestarts opens a store with the default sync interval. The child processes and
// the test use the same folder one after another.
func openForRestarts(t *testing.T, folder string) crowd.Folder {
	s, err := memstore.Open(folder, &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 10_000}})
	if err != nil {
		t.Fatal(err)
	}
	return crowd.Folder{Store: s, LastSync: func() time.Time { return s.Folder().LastSync }}
}

// TestCrowdKilledFolder kills a process with SIGKILL while it decides, 200 times in the
// long form. Only units that were admitted after the last sync may be forgotten.
func TestCrowdKilledFolder(t *testing.T) {
	for _, name := range []string{"a", "b", "c", "d"}[:atLeast(1, 4)] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crowd.Restarts{Ends: atLeast(4, 50), Interval: memstore.DefaultSync}.Run(t, openForRestarts)
		})
	}
}

// TestCrowdStoppedFolder ends a process with SIGTERM while it decides, 100 times in the
// long form. No unit may be forgotten.
func TestCrowdStoppedFolder(t *testing.T) {
	for _, name := range []string{"a", "b", "c", "d"}[:atLeast(1, 4)] {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crowd.Restarts{Ends: atLeast(3, 25), Regular: true, Interval: memstore.DefaultSync}.Run(t, openForRestarts)
		})
	}
}
