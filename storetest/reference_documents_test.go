package storetest

import (
	"bytes"
	"context"
	"sync"

	"github.com/headgate/headgate"
)

// The mistakes that a store of documents could make.
const (
	documentsKeepVersion   fault = "a save keeps the version of the document"
	documentsIgnoreVersion fault = "a save ignores the expected version"
	documentsCutLarge      fault = "documents are cut at 1 MiB"
	documentsAnyName       fault = "documents may have any name"
	documentsAfterClose    fault = "a closed store loads and saves documents"
)

func init() {
	caughtBy[documentsKeepVersion] = []string{"documents"}
	caughtBy[documentsIgnoreVersion] = []string{"document conflicts", "concurrent documents"}
	caughtBy[documentsCutLarge] = []string{"large documents"}
	caughtBy[documentsAnyName] = []string{"document errors"}
	caughtBy[documentsAfterClose] = []string{"closed documents"}
}

// documentReference is a reference that keeps documents.
type documentReference struct {
	*reference
	documentsMu sync.Mutex
	documents   map[string]headgate.Document
}

func newDocumentReference(r *reference) *documentReference {
	return &documentReference{reference: r, documents: make(map[string]headgate.Document)}
}

func (r *documentReference) check(ctx context.Context, name string, content []byte) error {
	r.mu.Lock()
	closed := r.closed && !r.has(documentsAfterClose)
	r.mu.Unlock()
	if closed {
		return headgate.ErrClosed
	}
	if ctx.Err() != nil || r.has(documentsAnyName) {
		return ctx.Err()
	}
	return headgate.ValidateDocument(name, content)
}

func (r *documentReference) LoadDocument(ctx context.Context, name string, known headgate.DocumentVersion) (headgate.Document, error) {
	if err := r.check(ctx, name, nil); err != nil {
		return headgate.Document{}, err
	}
	r.documentsMu.Lock()
	defer r.documentsMu.Unlock()
	d := r.documents[name]
	if d.Version == known {
		return headgate.Document{Version: known}, nil
	}
	d.Content = bytes.Clone(d.Content)
	return d, nil
}

func (r *documentReference) SaveDocument(
	ctx context.Context, name string, expected headgate.DocumentVersion, content []byte,
) (headgate.DocumentVersion, error) {
	if err := r.check(ctx, name, content); err != nil {
		return 0, err
	}
	r.documentsMu.Lock()
	defer r.documentsMu.Unlock()
	last := r.documents[name].Version
	if last != expected && !r.has(documentsIgnoreVersion) {
		return 0, headgate.ErrDocumentConflict
	}
	delete(r.documents, name)
	if len(content) == 0 {
		return 0, nil
	}
	d := headgate.Document{Version: headgate.NewDocumentVersion(), Content: bytes.Clone(content)}
	if r.has(documentsKeepVersion) && last != 0 {
		d.Version = last
	}
	if r.has(documentsCutLarge) {
		d.Content = d.Content[:min(len(d.Content), 1<<20)]
	}
	r.documents[name] = d
	return d.Version, nil
}
