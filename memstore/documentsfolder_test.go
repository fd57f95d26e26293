package memstore_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
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
