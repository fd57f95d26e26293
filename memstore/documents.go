package memstore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"sync"

	"github.com/headgate/headgate"
)

// maxDocuments is the maximum number of documents, so that their memory is bounded.
const maxDocuments = 64

// documents are the documents of a store by name. The contents are never changed.
type documents struct {
	mu      sync.Mutex
	byName  map[string]headgate.Document
	tracked bool                // whether the store is saved
	changed map[string]struct{} // names that have changed since the state was saved
	all     bool                // whether all may have changed, because changed was full
}

// maxChangedDocuments is the maximum number of names in [documents], also while saving
// fails.
const maxChangedDocuments = 4 * maxDocuments

// set replaces a document, or removes it if the version is 0.
func (x *documents) set(name string, d headgate.Document) {
	if d.Version == 0 {
		delete(x.byName, name)
		return
	}
	if x.byName == nil {
		x.byName = make(map[string]headgate.Document)
	}
	x.byName[name] = d
}

// markChanged records that a document has changed. x.mu must be locked.
func (x *documents) markChanged(name string) {
	if !x.tracked || x.all {
		return
	}
	if x.changed == nil {
		x.changed = make(map[string]struct{})
	}
	if x.changed[name] = struct{}{}; len(x.changed) > maxChangedDocuments {
		x.all = true
		clear(x.changed)
	}
}

// takeChanged returns the documents that have changed, and marks them as saved. If all is
// true, these are all documents, and others may have been removed.
func (x *documents) takeChanged() (changed map[string]headgate.Document, all bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if all = x.all; all {
		changed = maps.Clone(x.byName)
	} else if len(x.changed) > 0 {
		changed = make(map[string]headgate.Document, len(x.changed))
		for name := range x.changed {
			changed[name] = x.byName[name]
		}
	}
	clear(x.changed)
	x.all = false
	return changed, all
}

// changedDocuments adds the records of the documents that have changed.
func (c *collector) changedDocuments() {
	changed, all := c.store.documents.takeChanged()
	if all {
		c.frame = appendDocument(c.frame, "", headgate.Document{})
	}
	c.documents(changed)
}

// imageOfDocuments adds the records of all documents.
func (c *collector) imageOfDocuments() {
	x := &c.store.documents
	x.mu.Lock()
	all := maps.Clone(x.byName)
	x.mu.Unlock()
	c.documents(all)
}

func (c *collector) documents(all map[string]headgate.Document) {
	for name, d := range all {
		c.frame = appendDocument(c.frame, name, d)
		c.flushIfLarge()
	}
}

var _ headgate.DocumentStore = (*Store)(nil)

// LoadDocument returns a document, or only its version if it is known; see
// [headgate.DocumentStore].
func (s *Store) LoadDocument(ctx context.Context, name string, known headgate.DocumentVersion) (headgate.Document, error) {
	if err := s.checkDocument(ctx, name, nil); err != nil {
		return headgate.Document{}, err
	}
	s.documents.mu.Lock()
	defer s.documents.mu.Unlock()
	d := s.documents.byName[name]
	if d.Version == known {
		return headgate.Document{Version: known}, nil
	}
	d.Content = bytes.Clone(d.Content)
	return d, nil
}

// SaveDocument replaces a document if its version is expected; see
// [headgate.DocumentStore]. It returns [headgate.ErrStoreFull] if there are 64 other
// documents.
func (s *Store) SaveDocument(
	ctx context.Context, name string, expected headgate.DocumentVersion, content []byte,
) (headgate.DocumentVersion, error) {
	if err := s.checkDocument(ctx, name, content); err != nil {
		return 0, err
	}
	s.documents.mu.Lock()
	defer s.documents.mu.Unlock()
	if s.documents.byName[name].Version != expected {
		return 0, headgate.ErrDocumentConflict
	}
	if len(content) == 0 {
		s.documents.set(name, headgate.Document{})
		s.documents.markChanged(name)
		return 0, nil
	}
	if expected == 0 && len(s.documents.byName) >= maxDocuments {
		return 0, fmt.Errorf("memstore: save %q: %w: it has %d documents", name, headgate.ErrStoreFull, maxDocuments)
	}
	saved := headgate.Document{Version: headgate.NewDocumentVersion(), Content: bytes.Clone(content)}
	s.documents.set(name, saved)
	s.documents.markChanged(name)
	return saved.Version, nil
}

// checkDocument returns the error because of which an operation on a document cannot
// start, or nil.
func (s *Store) checkDocument(ctx context.Context, name string, content []byte) error {
	if s.closed.Load() {
		return headgate.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return headgate.ValidateDocument(name, content)
}
