package memstore_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// TestFolderReplacesFile writes so much that the file is replaced while decisions go on.
// No key is lost.
func TestFolderReplacesFile(t *testing.T) {
	folder := t.TempDir()
	s, err := memstore.Open(folder, &memstore.FolderOptions{Sync: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	const keys = 150_000
	l := newLimiter(t, s, "p", headgate.TokenBucket, "10/24h")
	for range 9 {
		for i := range keys {
			if d, err := l.Allow(t.Context(), strconv.Itoa(i)); err != nil || !d.Allowed {
				t.Fatal(d, err)
			}
		}
		syncNow(t, s)
	}
	live := s.Stats().Keys
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openFolder(t, folder, nil)
	if file := stateFile(t, folder); file == folder+"/state-0000000001" {
		t.Errorf("%s was not replaced", file)
	}
	if got := s.Folder().Restored.Keys; got != live {
		t.Errorf("got %d keys want %d", got, live)
	}
	l = newLimiter(t, s, "p", headgate.TokenBucket, "10/24h")
	for i := range keys {
		if d, err := l.PeekN(t.Context(), strconv.Itoa(i), 0); err != nil || d.Remaining != 1 {
			t.Fatalf("key %d: got %+v, %v want 1 remaining", i, d, err)
		}
	}
}
