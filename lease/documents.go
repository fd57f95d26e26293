package lease

import (
	"context"
	"fmt"

	"github.com/headgate/headgate"
)

var _ headgate.DocumentStore = (*Store)(nil)

// LoadDocument loads a document from the inner store; see [headgate.DocumentStore]. It
// returns [headgate.ErrUnsupported] if the inner store keeps no documents.
func (s *Store) LoadDocument(
	ctx context.Context, name string, known headgate.DocumentVersion,
) (headgate.Document, error) {
	inner, err := s.documents()
	if err != nil {
		return headgate.Document{}, err
	}
	return inner.LoadDocument(ctx, name, known)
}

// SaveDocument saves a document in the inner store; see [headgate.DocumentStore].
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
	if s.isClosed() {
		return nil, headgate.ErrClosed
	}
	inner, ok := s.inner.(headgate.DocumentStore)
	if !ok {
		return nil, fmt.Errorf("lease: %w: the inner store keeps no documents", headgate.ErrUnsupported)
	}
	return inner, nil
}
