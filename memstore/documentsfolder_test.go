package memstore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// saveDocument replaces a document, whatever its version. An empty content removes it.
func saveDocument(t *testing.T, s *memstore.Store, name, content string) {
	t.Helper()
	before, err := s.LoadDocument(t.Context(), name, 0)
	if err == nil {
		_, err = s.SaveDocument(t.Context(), name, before.Version, []byte(content))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// documents returns the versions and the contents of the documents with these names.
func documents(t *testing.T, s *memstore.Store, names []string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range names {
		d, err := s.LoadDocument(t.Context(), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d.Version != 0 {
			all[name] = fmt.Sprintf("%d %s", d.Version, d.Content)
		}
	}
	return all
}

// TestFolderSavesDocuments changes and removes documents. A copy of the folder after each
// sync has the same ones, with the same versions, and so has the store after it was
// closed and opened, also with other bounds.
func TestFolderSavesDocuments(t *testing.T) {
	folder := t.TempDir()
	opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 3000}, Sync: time.Minute}
	s, err := memstore.Open(folder, opts)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for i := range 500 {
		names = append(names, fmt.Sprint("document-", i))
	}
	mustEqual := func(what string, got *memstore.Store) {
		t.Helper()
		if got, want := documents(t, got, names), documents(t, s, names); !maps.Equal(got, want) || len(want) == 0 {
			t.Fatalf("%s: got documents %q want %q", what, got, want)
		}
	}
	r := rand.New(rand.NewPCG(7, 7))
	for round := range 12 {
		for range r.IntN(30) {
			saveDocument(t, s, names[r.IntN(20)], strings.Repeat("x", r.IntN(3)*r.IntN(5000)))
		}
		saveDocument(t, s, names[0], fmt.Sprint("round ", round))
		if round%4 == 3 { // more names than the store remembers between two syncs
			for _, name := range names[20:] {
				saveDocument(t, s, name, "short-lived")
				saveDocument(t, s, name, "")
			}
		}
		mustEqual("a copy after a sync", openFolder(t, copyAfterSync(t, s, folder), opts))
		if round%3 == 2 {
			before := openFolder(t, copyFolder(t, folder), opts)
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			other := *opts
			other.MaxEntries += 1000 * (round % 2)
			if s, err = memstore.Open(folder, &other); err != nil {
				t.Fatal(err)
			}
			mustEqual("before it was closed", before)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// A version that a client knows stays valid after a restart.
func TestFolderKeepsVersionsOfDocuments(t *testing.T) {
	folder := t.TempDir()
	s := openFolder(t, folder, nil)
	version, err := s.SaveDocument(t.Context(), "a", 0, []byte("first"))
	if err != nil {
		t.Fatal(err)
	}
	s = openFolder(t, copyAfterSync(t, s, folder), nil)
	if d, err := s.LoadDocument(t.Context(), "a", version); err != nil || d.Version != version || d.Content != nil {
		t.Errorf("load with the known version: got %+v, error %v want no content", d, err)
	}
	if _, err := s.SaveDocument(t.Context(), "a", version, []byte("second")); err != nil {
		t.Errorf("save over the known version: %v", err)
	}
	if _, err := s.SaveDocument(t.Context(), "a", version, []byte("third")); err == nil {
		t.Errorf("save over an earlier version: got no error want %v", headgate.ErrDocumentConflict)
	}
}

// Documents of the maximum size are saved, in groups and in the file of a new start.
func TestFolderSavesLargestDocuments(t *testing.T) {
	folder := t.TempDir()
	opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 3000}, Sync: time.Minute}
	s, err := memstore.Open(folder, opts)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c"}
	for i, name := range names {
		saveDocument(t, s, name, strings.Repeat(name, headgate.MaxDocumentBytes-i))
	}
	want := documents(t, s, names)
	if got := documents(t, openFolder(t, copyAfterSync(t, s, folder), opts), names); !maps.Equal(got, want) {
		t.Error("a copy after a sync has other documents")
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	opts.MaxEntries = 4000 // so that a new file is written
	if got := documents(t, openFolder(t, folder, opts), names); !maps.Equal(got, want) {
		t.Error("after a restart with other bounds: the store has other documents")
	}
}

// Documents change while files with the whole state are written. After a restart, the
// store has the latest ones.
func TestFolderDocumentsWhileFilesAreReplaced(t *testing.T) {
	folder := t.TempDir()
	opts := &memstore.FolderOptions{Options: memstore.Options{MaxEntries: 3000}, Sync: 10 * time.Millisecond}
	s, err := memstore.Open(folder, opts)
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"a", "b", "c", "d", "unchanged"}
	saveDocument(t, s, "unchanged", "saved once")
	seen := make(map[string]bool) // names of the state file
	for i := 0; len(seen) < 4; i++ {
		if i == 2000 {
			t.Fatalf("after %d documents, got the files %v want 4 different ones", i, seen)
		}
		saveDocument(t, s, names[i%4], strings.Repeat(fmt.Sprintf("%08d", i), 65_536))
		if i%8 == 0 {
			syncNow(t, s)
			if files, err := filepath.Glob(filepath.Join(folder, "state-*")); err == nil && len(files) == 1 {
				seen[files[0]] = true
			}
		}
	}
	want := documents(t, s, names)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if got := documents(t, openFolder(t, folder, opts), names); !maps.Equal(got, want) {
		t.Error("after a restart, the store has other documents")
	}
}
