// Package audit keeps who has changed what through the admin API. The entries are one
// document of the store, so all instances share them, and each is logged. The latest
// [MaxEntries] are kept, or fewer if they would not fit into a document.
//
// An entry is added after the change. If the store is unavailable at that time, the entry
// is kept in this process and saved with a later one. A process that ends before then
// loses it; the log still has it. Without a store that keeps documents, the entries are
// only in this process.
package audit

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// MaxEntries is the maximum number of entries that are kept.
const MaxEntries = 1000

const (
	documentName = "audit"
	maxTries     = 20 // of saving while other instances save, too
	maxTextBytes = 256
)

// Entry is one change. Texts are truncated to 256 bytes.
type Entry struct {
	ID       string    `json:"id"`
	Time     time.Time `json:"time"`
	Author   string    `json:"author"`
	Action   string    `json:"action"`
	Instance string    `json:"instance"`
	Policy   string    `json:"policy,omitempty"`
	Target   string    `json:"target,omitempty"` // of an override, without the key
	Key      string    `json:"key,omitempty"`    // hash of the key, or the key itself if the operator permits it
	Before   string    `json:"before,omitempty"`
	After    string    `json:"after,omitempty"`
	Reason   string    `json:"reason,omitempty"`
}

// Log adds entries and returns them. It is created with [New] and may be used
// concurrently.
type Log struct {
	store    headgate.DocumentStore // nil if the store keeps no documents
	instance string
	log      *slog.Logger

	mu      sync.Mutex
	pending []Entry // entries that are not in the store, the earliest first
	version headgate.DocumentVersion
	known   []Entry // content of the document with this version, the earliest first
}

// New returns the audit of an instance. store need not keep documents.
func New(store headgate.Store, instance string, log *slog.Logger) *Log {
	documents, _ := store.(headgate.DocumentStore)
	return &Log{store: documents, instance: instance, log: log}
}

// Add adds and logs entries, in this order. It sets ID, Time and Instance. An error of
// the store is logged, because the change has been made.
func (l *Log) Add(ctx context.Context, now time.Time, entries ...Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, e := range entries {
		e.ID, e.Time, e.Instance = rand.Text()[:16], now.UTC().Truncate(time.Millisecond), l.instance
		for _, text := range []*string{&e.Author, &e.Policy, &e.Target, &e.Key, &e.Before, &e.After, &e.Reason} {
			*text = truncate(*text)
		}
		l.write(&e)
		l.pending = append(l.pending, e)
	}
	l.pending = latest(l.pending)
	if err := l.save(ctx); err != nil {
		l.log.Warn("audit entries not saved yet", "entries", len(l.pending), "error", err)
	}
}

// write logs one entry. Of a target, it logs only the kind: an address or a pattern can
// be that of one client. The id finds the entry in the audit, which has the target.
func (l *Log) write(e *Entry) {
	attributes := []any{"action", e.Action, "author", e.Author, "id", e.ID}
	kind, _, _ := strings.Cut(e.Target, ":")
	for _, a := range [][2]string{{"policy", e.Policy}, {"target", kind}, {"key", e.Key}, {"before", e.Before}, {"after", e.After}, {"reason", e.Reason}} {
		if a[1] != "" {
			attributes = append(attributes, a[0], a[1])
		}
	}
	l.log.Info("admin change", attributes...)
}

// save saves the pending entries. Without a store for documents, it does nothing.
func (l *Log) save(ctx context.Context) error {
	if l.store == nil || len(l.pending) == 0 {
		return nil
	}
	for range maxTries {
		if err := l.load(ctx); err != nil {
			return err
		}
		all := latest(append(slices.Clone(l.known), l.pending...))
		content, err := json.Marshal(all)
		for ; err == nil && len(content) > headgate.MaxDocumentBytes; content, err = json.Marshal(all) {
			all = all[len(all)/2:]
		}
		if err != nil {
			return err
		}
		version, err := l.store.SaveDocument(ctx, documentName, l.version, content)
		switch {
		case err == nil:
			l.version, l.known, l.pending = version, all, nil
			return nil
		case !errors.Is(err, headgate.ErrDocumentConflict):
			return err
		}
	}
	return fmt.Errorf("other instances saved entries during %d attempts: %w", maxTries, headgate.ErrDocumentConflict)
}

// load reads the document, if it has changed. It drops the pending entries that are in
// it: those of a call whose reply was lost.
func (l *Log) load(ctx context.Context) error {
	d, err := l.store.LoadDocument(ctx, documentName, l.version)
	if err != nil || d.Version == l.version && l.version != 0 {
		return err
	}
	var known []Entry
	if len(d.Content) > 0 {
		if err := json.Unmarshal(d.Content, &known); err != nil {
			return fmt.Errorf("the audit in the store cannot be read: %w", err)
		}
	}
	l.version, l.known = d.Version, known
	l.pending = slices.DeleteFunc(l.pending, func(e Entry) bool {
		return slices.ContainsFunc(known, func(k Entry) bool { return k.ID == e.ID })
	})
	return nil
}

// List returns at most n entries, the latest first, before the one with an id. An empty
// id means from the latest. more is whether there are earlier ones. An id that is not
// known anymore has no earlier entries.
func (l *Log) List(ctx context.Context, before string, n int) (entries []Entry, more bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.store != nil {
		if err := l.load(ctx); err != nil {
			return nil, false, err
		}
	}
	all := append(slices.Clone(l.known), l.pending...)
	slices.Reverse(all)
	if before != "" {
		at := slices.IndexFunc(all, func(e Entry) bool { return e.ID == before })
		if at < 0 {
			return nil, false, nil
		}
		all = all[at+1:]
	}
	return all[:min(n, len(all))], len(all) > n, nil
}

// latest returns the last MaxEntries entries.
func latest(all []Entry) []Entry { return all[max(0, len(all)-MaxEntries):] }

func truncate(s string) string {
	if len(s) > maxTextBytes {
		return s[:maxTextBytes] + "…"
	}
	return s
}
