package memstore

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/headgate/headgate"
)

// maxDocuments is the maximum number of documents, so that their memory is bounded.
const maxDocuments = 64

// documents are the documents of a store by name. The contents are never changed.
type documents struct {
	mu     sync.Mutex
	byName map[string]headgate.Document
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
		delete(s.documents.byName, name)
		return 0, nil
	}
	if expected == 0 && len(s.documents.byName) >= maxDocuments {
		return 0, fmt.Errorf("memstore: save %q: %w: it has %d documents", name, headgate.ErrStoreFull, maxDocuments)
	}
	if s.documents.byName == nil {
		s.documents.byName = make(map[string]headgate.Document)
	}
	saved := headgate.Document{Version: headgate.NewDocumentVersion(), Content: bytes.Clone(content)}
	s.documents.byName[name] = saved
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
