package fallback

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

var _ headgate.DocumentStore = (*Store)(nil)

// LoadDocument loads a document from the inner store; see [headgate.DocumentStore]. It
// has no budget, and its failures do not open the circuit breaker: a document is no
// decision. It returns [headgate.ErrUnsupported] if the inner store keeps no documents.
func (s *Store) LoadDocument(ctx context.Context, name string, known headgate.DocumentVersion) (headgate.Document, error) {
	inner, err := s.documents()
	if err != nil {
		return headgate.Document{}, err
	}
	return inner.LoadDocument(ctx, name, known)
}

// SaveDocument saves a document in the inner store, like LoadDocument.
func (s *Store) SaveDocument(
	ctx context.Context, name string, expected headgate.DocumentVersion, content []byte,
) (headgate.DocumentVersion, error) {
	inner, err := s.documents()
	if err != nil {
		return 0, err
	}
	return inner.SaveDocument(ctx, name, expected, content)
}

func (s *Store) documents() (headgate.DocumentStore, error) {
	if s.closed.Load() {
		return nil, headgate.ErrClosed
	}
	inner, ok := s.inner.(headgate.DocumentStore)
	if !ok {
		return nil, fmt.Errorf("fallback: %w: the inner store keeps no documents", headgate.ErrUnsupported)
	}
	return inner, nil
}
