package overrides

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// Set adds entries, or replaces those with the same policy and target. It saves all of
// them or none, and applies them to this instance before it returns; the other instances
// apply them after their next poll. It sets Created to the current time, and Author and
// Reason to those of by if they are empty. If several entries have the same policy and
// target, the last one counts. It returns the entries as they were saved.
//
// The error is an [*EntryError], [ErrTooMany], [ErrUnsupported] or that of the store.
// After an error of the store, it is unknown whether the entries were saved if the reason
// is [headgate.ReasonTimedOut]; calling Set again does no harm.
func (l *Live) Set(ctx context.Context, entries []Entry, by Change) ([]Entry, error) {
	added, err := prepare(entries, by, time.Now())
	if err != nil {
		return nil, err
	}
	err = l.change(ctx, func(all []Entry) ([]Entry, bool) {
		all = without(all, func(id ID) bool {
			_, found := slices.BinarySearchFunc(added, id, func(e Entry, id ID) int { return compareIDs(e.ID(), id) })
			return found
		})
		return append(all, added...), len(added) > 0
	})
	if err != nil {
		return nil, err
	}
	l.log.Info("overrides set", "overrides", len(added), "author", by.Author, "reason", by.Reason)
	l.logIgnored()
	return added, nil
}

// Remove removes the entries with the ids, and returns them. An id without an entry is
// not an error. Its errors are those of [Live.Set].
func (l *Live) Remove(ctx context.Context, ids []ID, by Change) ([]Entry, error) {
	var removed []Entry
	sorted := slices.SortedFunc(slices.Values(ids), compareIDs)
	err := l.change(ctx, func(all []Entry) ([]Entry, bool) {
		removed = nil
		listed := func(id ID) bool {
			_, found := slices.BinarySearchFunc(sorted, id, compareIDs)
			return found
		}
		for i := range all {
			if listed(all[i].ID()) {
				removed = append(removed, all[i])
			}
		}
		return without(all, listed), len(removed) > 0
	})
	if err != nil {
		return nil, err
	}
	l.log.Info("overrides removed", "overrides", len(removed), "author", by.Author, "reason", by.Reason)
	return removed, nil
}

// prepare returns the entries as they are saved, ordered by their ids.
func prepare(entries []Entry, by Change, now time.Time) ([]Entry, error) {
	now = now.UTC().Truncate(time.Millisecond)
	last := make(map[ID]Entry, len(entries))
	for i, e := range entries {
		e.Author, e.Reason, e.Created = cmp.Or(e.Author, by.Author), cmp.Or(e.Reason, by.Reason), now
		if !e.Until.IsZero() {
			e.Until = e.Until.UTC().Truncate(time.Millisecond)
		}
		if field, err := e.validate(now); err != nil {
			return nil, &EntryError{i, field, err}
		}
		last[e.ID()] = e
	}
	all := make([]Entry, 0, len(last))
	for _, e := range last {
		all = append(all, e)
	}
	sortEntries(all)
	return all, nil
}

// without returns the entries whose ids are not listed, in a new slice.
func without(all []Entry, listed func(ID) bool) []Entry {
	kept := make([]Entry, 0, len(all))
	for i := range all {
		if !listed(all[i].ID()) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// maxTries is the maximum number of attempts of a change while other instances change the
// document, and retryPause the maximum pause after the first.
const (
	maxTries   = 20
	retryPause = 5 * time.Millisecond
)

// change replaces the entries by the result of edit, which may be called several times.
// edit must not change its argument, and returns false if there is nothing to save.
func (l *Live) change(ctx context.Context, edit func(all []Entry) ([]Entry, bool)) error {
	if l.store == nil {
		return ErrUnsupported
	}
	select {
	case l.changing <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-l.changing }()
	for try := range maxTries {
		done, err := l.tryChange(ctx, edit)
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(rand.N(retryPause * time.Duration(try+1))):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return fmt.Errorf("other instances changed the overrides during %d attempts: %w", maxTries, headgate.ErrDocumentConflict)
}

// tryChange makes one attempt of a change. done is false if another instance has changed
// the document in the meantime.
func (l *Live) tryChange(ctx context.Context, edit func(all []Entry) ([]Entry, bool)) (done bool, err error) {
	stored, err := l.load(ctx)
	if err != nil {
		return false, err
	}
	base := stored
	if known := l.current(); known.Revision > stored.Revision { // the store has lost the latest changes
		base.document = known.merge(&stored.document)
	}
	now := time.Now()
	next := state{document: document{Revision: base.Revision + 1, Saved: now.UTC().Truncate(time.Millisecond)}}
	entries, changed := edit(notEnded(base.Entries, now))
	if !changed {
		l.install(stored)
		return true, nil
	}
	if len(entries) > MaxEntries {
		return false, fmt.Errorf("%w: there would be %d; must be at most %d; remove some, or use patterns", ErrTooMany, len(entries), MaxEntries)
	}
	sortEntries(entries)
	next.Entries = entries
	if done, err = l.save(ctx, stored.version, &next); done {
		l.install(next)
	}
	return done, err
}

// save saves a document and sets its version. done is false if another instance has
// changed the document in the meantime.
func (l *Live) save(ctx context.Context, expected headgate.DocumentVersion, next *state) (done bool, err error) {
	content, err := next.encode()
	if err != nil {
		return false, err
	}
	next.version, err = l.store.SaveDocument(ctx, documentName, expected, content)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, headgate.ErrDocumentConflict):
		return false, nil
	}
	if lost := (*headgate.StoreError)(nil); !errors.As(err, &lost) || lost.Reason != headgate.ReasonTimedOut {
		return false, err
	}
	// The document may have been saved although the reply was lost.
	stored, loadErr := l.store.LoadDocument(ctx, documentName, next.version)
	if loadErr == nil && next.version != 0 && stored.Version == next.version {
		return true, nil
	}
	return false, err
}
