package storetest

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/headgate/headgate"
)

func documentChecks() []check {
	return []check{
		{name: "documents", rule: "a document has the content of the last save, and each save has another version", once: checkDocuments},
		{name: "document conflicts", rule: "a save with another version than that of the document changes nothing", once: checkDocumentConflicts},
		{name: "large documents", rule: "a document can have the maximum size, and every byte", once: checkLargeDocuments},
		{name: "document errors", rule: "a document that is not accepted is not saved", once: checkDocumentErrors},
		{name: "concurrent documents", rule: "of concurrent saves with the same version exactly one succeeds", once: checkConcurrentDocuments},
		{name: "closed documents", rule: "a closed store returns ErrClosed for documents", once: checkClosedDocuments},
	}
}

// documents returns the store under test with the methods for documents, or nil if it
// does not support them.
func (ts *tester) documents() headgate.DocumentStore {
	store, ok := ts.store.(headgate.DocumentStore)
	if !ok {
		ts.summary = "the store keeps no documents"
		return nil
	}
	_, err := store.LoadDocument(background, ts.documentName("probe"), 0)
	if errors.Is(err, headgate.ErrUnsupported) {
		ts.summary = "the store keeps no documents"
		return nil
	}
	ts.mustf(err, "load a document")
	return store
}

// documentName returns a name that no other subtest and no other run uses.
func (ts *tester) documentName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == ' ' {
			return '-'
		}
		return r
	}, strings.TrimSpace(ts.prefix)+" "+name)
}

// save saves a document, which the check removes at its end.
func (ts *tester) save(store headgate.DocumentStore, name string, expected headgate.DocumentVersion, content string) headgate.DocumentVersion {
	version, err := store.SaveDocument(background, name, expected, []byte(content))
	ts.mustf(err, "save a document of %d bytes", len(content))
	if version == expected || version == 0 && content != "" {
		ts.failf("save: got version %d want a new one", version)
	}
	return version
}

// mustHave fails unless a load returns the version and, if it is not known, the content.
func (ts *tester) mustHave(store headgate.DocumentStore, name string, known, version headgate.DocumentVersion, content string) {
	d, err := store.LoadDocument(background, name, known)
	ts.mustf(err, "load a document")
	if d.Version != version || string(d.Content) != content {
		ts.failf("load with the version %d: got version %d and %d bytes want %d and %d bytes", known, d.Version, len(d.Content), version, len(content))
	}
}

func checkDocuments(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	name, other := ts.documentName("a"), ts.documentName("b")
	ts.mustHave(store, name, 0, 0, "")
	ts.mustHave(store, name, 12345, 0, "")
	first := ts.save(store, name, 0, "one")
	ts.mustHave(store, name, 0, first, "one")
	ts.mustHave(store, name, first, first, "")
	ts.mustHave(store, other, first, 0, "")
	second := ts.save(store, name, first, "two")
	ts.mustHave(store, name, first, second, "two")
	third := ts.save(store, name, second, "two")
	ts.mustHave(store, name, second, third, "two")
	if removed, err := store.SaveDocument(background, name, third, nil); err != nil || removed != 0 {
		ts.failf("remove a document: got version %d, error %v want 0 and nil", removed, err)
	}
	ts.mustHave(store, name, third, 0, "")
	again := ts.save(store, name, 0, "three")
	if slices.Contains([]headgate.DocumentVersion{first, second, third}, again) {
		ts.failf("a document that was removed and saved again: got an earlier version")
	}
	ts.remove(store, name, again)
}

// remove removes a document, so that the server has no key without a TTL.
func (ts *tester) remove(store headgate.DocumentStore, name string, version headgate.DocumentVersion) {
	_, err := store.SaveDocument(background, name, version, nil)
	ts.mustf(err, "remove a document")
}

func checkDocumentConflicts(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	name := ts.documentName("a")
	mustConflict := func(expected headgate.DocumentVersion, content string) {
		if _, err := store.SaveDocument(background, name, expected, []byte(content)); !errors.Is(err, headgate.ErrDocumentConflict) {
			ts.failf("save with version %d: got error %v want ErrDocumentConflict", expected, err)
		}
	}
	mustConflict(1, "x")
	mustConflict(1, "")
	first := ts.save(store, name, 0, "one")
	mustConflict(0, "x")
	mustConflict(0, "")
	mustConflict(first+1, "x")
	second := ts.save(store, name, first, "two")
	mustConflict(first, "x")
	mustConflict(first, "")
	ts.mustHave(store, name, 0, second, "two")
	ts.remove(store, name, second)
}

func checkLargeDocuments(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	name := ts.documentName("a")
	content := make([]byte, headgate.MaxDocumentBytes)
	for i := range content {
		content[i] = byte(ts.random.Uint32())
	}
	version := ts.save(store, name, 0, string(content))
	ts.mustHave(store, name, 0, version, string(content))
	every := bytes.Repeat([]byte{0, 1, 2, '\r', '\n', ':', 255}, 10)
	version = ts.save(store, name, version, string(every))
	ts.mustHave(store, name, 0, version, string(every))
	ts.remove(store, name, version)
}

func checkDocumentErrors(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	for _, name := range []string{"", "A", "a b", "a:b", "é", strings.Repeat("a", 65)} {
		if _, err := store.SaveDocument(background, name, 0, []byte("x")); !errors.Is(err, headgate.ErrInvalidDocument) {
			ts.failf("save with the name %q: got error %v want ErrInvalidDocument", name, err)
		}
		if _, err := store.LoadDocument(background, name, 0); !errors.Is(err, headgate.ErrInvalidDocument) {
			ts.failf("load with the name %q: got error %v want ErrInvalidDocument", name, err)
		}
	}
	name := ts.documentName("a")
	if _, err := store.SaveDocument(background, name, 0, make([]byte, headgate.MaxDocumentBytes+1)); !errors.Is(err, headgate.ErrInvalidDocument) {
		ts.failf("save one byte more than the maximum: got error %v want ErrInvalidDocument", err)
	}
	over, cancel := context.WithCancel(background)
	cancel()
	if _, err := store.SaveDocument(over, name, 0, []byte("x")); err == nil {
		ts.failf("save with a cancelled context: got no error")
	}
	ts.mustHave(store, name, 0, 0, "")
}

func checkConcurrentDocuments(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	name := ts.documentName("a")
	var saved, conflicts atomic.Int64
	const saves = 10
	ts.concurrently(func(int) error {
		for range saves {
			d, err := store.LoadDocument(background, name, 0)
			if err != nil {
				return err
			}
			runtime.Gosched() // others load the same version
			_, err = store.SaveDocument(background, name, d.Version, append(d.Content, 'x'))
			switch {
			case err == nil:
				saved.Add(1)
			case errors.Is(err, headgate.ErrDocumentConflict):
				conflicts.Add(1)
			default:
				return err
			}
		}
		return nil
	})
	d, err := store.LoadDocument(background, name, 0)
	ts.mustf(err, "load a document")
	if int64(len(d.Content)) != saved.Load() || saved.Load() == 0 {
		ts.failf("after %d saves that each append a byte, and %d conflicts: got %d bytes want %d", saved.Load(), conflicts.Load(), len(d.Content), saved.Load())
	}
	ts.remove(store, name, d.Version)
}

func checkClosedDocuments(ts *tester) {
	store := ts.documents()
	if store == nil {
		return
	}
	ts.mustf(store.Close(), "close")
	if _, err := store.LoadDocument(background, "a", 0); !errors.Is(err, headgate.ErrClosed) {
		ts.failf("load after Close: got error %v want ErrClosed", err)
	}
	if _, err := store.SaveDocument(background, "a", 0, []byte("x")); !errors.Is(err, headgate.ErrClosed) {
		ts.failf("save after Close: got error %v want ErrClosed", err)
	}
}
