package overrides

import (
	"bytes"
	"compress/flate"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// documentName is the name of the document that has the entries.
const documentName = "overrides"

// formatVersion is the version of the document's format. A document with a later one is
// not read.
const formatVersion = 1

// maxPlainBytes bounds the memory for a document that is read: the JSON text of MaxEntries
// entries with the longest fields is smaller.
const maxPlainBytes = 128 << 20

// document is the content of the document: JSON, compressed.
type document struct {
	Format   int     `json:"format"`
	Revision uint64    `json:"revision"`
	Saved    time.Time `json:"saved"` // time of the last change
	Entries  []Entry   `json:"entries"` // ordered by policy and target
}

// merge returns d with the entries of an older document that were set after d was saved.
// It is for a store that has lost d, in which an instance that did not know d has set
// entries.
func (d *document) merge(older *document) document {
	merged := document{Revision: d.Revision, Saved: d.Saved, Entries: slices.Clone(d.Entries)}
	for i := range older.Entries {
		e := &older.Entries[i]
		if !e.Created.After(d.Saved) {
			continue
		}
		merged.Entries = append(without(merged.Entries, func(id ID) bool { return id == e.ID() }), *e)
	}
	sortEntries(merged.Entries)
	return merged
}

// encode returns the content for the store.
func (d *document) encode() ([]byte, error) {
	d.Format = formatVersion
	var content bytes.Buffer
	w, err := flate.NewWriter(&content, flate.BestSpeed)
	if err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w).Encode(d); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if n := content.Len(); n > headgate.MaxDocumentBytes {
		return nil, fmt.Errorf("%w: they have %d bytes; must be at most %d", ErrTooMany, n, headgate.MaxDocumentBytes)
	}
	return content.Bytes(), nil
}

// decode parses the content of the store. A nil content is an empty document.
func decode(content []byte) (document, error) {
	var d document
	if len(content) == 0 {
		return d, nil
	}
	r := flate.NewReader(bytes.NewReader(content))
	defer func() { _ = r.Close() }()
	text, err := io.ReadAll(io.LimitReader(r, maxPlainBytes+1))
	switch {
	case err != nil:
		return d, fmt.Errorf("the overrides in the store cannot be decompressed: %w", err)
	case len(text) > maxPlainBytes:
		return d, fmt.Errorf("the overrides in the store have more than %d bytes", maxPlainBytes)
	}
	if err := json.Unmarshal(text, &d); err != nil {
		return document{}, fmt.Errorf("the overrides in the store cannot be read: %w", err)
	}
	if d.Format != formatVersion {
		return document{}, fmt.Errorf("the overrides in the store have the format %d; this version of Headgate reads %d; update it", d.Format, formatVersion)
	}
	return d, nil
}
