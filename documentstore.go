package headgate

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
)

// MaxDocumentBytes is the maximum size of the content of a document.
const MaxDocumentBytes = 4 << 20

// The errors of a [DocumentStore].
var (
	// ErrDocumentConflict means that the document was saved or removed by another caller
	// since it was loaded. Nothing was saved: load it again, and repeat the change.
	ErrDocumentConflict = errors.New("headgate: the document has changed since it was loaded")
	// ErrInvalidDocument means that the name of a document is not accepted, or that its
	// content is too large. Nothing was saved.
	ErrInvalidDocument = errors.New("headgate: invalid document")
)

// DocumentVersion identifies one saved content of a document. It is random, so that two
// contents never have the same version, even if the store has lost one of them. 0 means
// that there is no document.
type DocumentVersion uint64

// NewDocumentVersion returns a random version. Stores call it in SaveDocument.
func NewDocumentVersion() DocumentVersion {
	for {
		if v := DocumentVersion(rand.Uint64()); v != 0 {
			return v
		}
	}
}

// Document is the content of a document and its version. Both are zero if the store has
// no document of the name.
type Document struct {
	Version DocumentVersion
	Content []byte
}

// DocumentStore is a [Store] that also keeps a few documents for the program that uses
// it, such as a list of overrides. All processes with the same store and namespace have
// the same documents. A document never expires. It is as durable as the store: memcached
// forgets it after a restart and may evict it, and package memstore keeps it in the
// process, or in a folder.
//
// A name has 1 to 64 lower-case letters, digits and hyphens. A content has at most
// [MaxDocumentBytes]. The methods may be called concurrently; each is one atomic
// operation. They are not meant for a call per decision. A store that does not support
// documents does not implement the interface. A store that wraps another one returns
// [ErrUnsupported] if the inner store does not.
type DocumentStore interface {
	Store

	// LoadDocument returns the document name. If its version is known, Content is nil, so
	// that a caller that polls a document transfers it only after a change. A store that
	// has lost a part of the document returns a [StoreError] or no document. The caller
	// may change the returned content.
	LoadDocument(ctx context.Context, name string, known DocumentVersion) (Document, error)

	// SaveDocument replaces the document name if its version is expected, and returns the
	// new version. 0 means that there must be no document. An empty content removes the
	// document, and the new version is 0. If the version is another one, it changes
	// nothing and returns [ErrDocumentConflict]. After a [StoreError] with the reason
	// [ReasonTimedOut], it is unknown whether the document was saved; if it was, it has
	// the returned version.
	SaveDocument(ctx context.Context, name string, expected DocumentVersion, content []byte) (DocumentVersion, error)
}

var documentName = regexp.MustCompile(`^[a-z0-9-]{1,64}$`)

// ValidateDocument returns an error that matches [ErrInvalidDocument] if a store must not
// save a document with this name and content. Stores call it in both methods.
func ValidateDocument(name string, content []byte) error {
	if !documentName.MatchString(name) {
		return fmt.Errorf("%w: the name is %.80q; must be 1 to 64 lower-case letters, digits and hyphens", ErrInvalidDocument, name)
	}
	if len(content) > MaxDocumentBytes {
		return fmt.Errorf("%w: %q has %d bytes; must be at most %d", ErrInvalidDocument, name, len(content), MaxDocumentBytes)
	}
	return nil
}
