package redisstore

import (
	"context"
	"strconv"
	"strings"

	"github.com/headgate/headgate"
)

// documentScript loads and saves documents.
var documentScript = newScript(documentLua)

var _ headgate.DocumentStore = (*Store)(nil)

// documentKey returns the Redis key of a document: hg:{tag}:namespace:document:name. No
// algorithm has the code “document”.
func (s *Store) documentKey(name string) string {
	b := appendHash([]byte("hg:{"), s.options.Namespace, "document", name)
	return string(b) + "}:" + escapePart(s.options.Namespace, maxNamespace*3) + ":document:" + name
}

// LoadDocument returns a document, or only its version if it is known; see
// [headgate.DocumentStore]. It is one call of a script.
func (s *Store) LoadDocument(ctx context.Context, name string, known headgate.DocumentVersion) (headgate.Document, error) {
	if err := headgate.ValidateDocument(name, nil); err != nil {
		return headgate.Document{}, err
	}
	reply, err := s.callDocument(ctx, name, formatVersion(known))
	if err != nil {
		return headgate.Document{}, err
	}
	text, content, changed := strings.Cut(reply, ":")
	d := headgate.Document{}
	if text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return d, errForeign()
		}
		d.Version = headgate.DocumentVersion(n)
	}
	if changed && d.Version != 0 {
		d.Content = []byte(content)
	}
	return d, nil
}

// SaveDocument replaces a document if its version is expected; see
// [headgate.DocumentStore]. It is one call of a script.
func (s *Store) SaveDocument(
	ctx context.Context, name string, expected headgate.DocumentVersion, content []byte,
) (headgate.DocumentVersion, error) {
	if err := headgate.ValidateDocument(name, content); err != nil {
		return 0, err
	}
	next := headgate.DocumentVersion(0)
	if len(content) > 0 {
		next = headgate.NewDocumentVersion()
	}
	reply, err := s.callDocument(ctx, name, formatVersion(expected), formatVersion(next), string(content))
	switch {
	case err != nil:
		return next, err
	case reply == "conflict":
		return 0, headgate.ErrDocumentConflict
	case reply != "saved":
		return next, errReply(len(reply))
	}
	return next, nil
}

// callDocument executes the script on a document and returns its reply.
func (s *Store) callDocument(ctx context.Context, name string, args ...string) (string, error) {
	if err := s.checkReady(ctx); err != nil {
		return "", err
	}
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	call := Call{Script: documentScript.text, SHA: documentScript.sha, Keys: []string{s.documentKey(name)}, Args: args}
	reply := make([]Reply, 1)
	s.run(ctx, []Call{call}, reply)
	if reply[0].Err != nil {
		err := classify(reply[0].Err)
		s.noteFailure(err)
		return "", err
	}
	return reply[0].Text, nil
}

// formatVersion returns a version as the script stores it: an empty text for no document.
func formatVersion(v headgate.DocumentVersion) string {
	if v == 0 {
		return ""
	}
	return strconv.FormatUint(uint64(v), 10)
}
