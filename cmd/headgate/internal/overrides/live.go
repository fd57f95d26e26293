// Package overrides keeps overrides of policies in the store, so that an operator changes
// the limits of one key, of a pattern or network, or of a whole policy at all instances
// without a deployment. All entries are one document of the store. [Live] follows it and
// applies its entries to the engine of this process.
//
// An entry that is set at one instance applies there immediately, and at the others
// within one poll. A decision never calls the store for overrides. While the store is
// unavailable, the last known entries apply. An entry ends at its time by the clock of
// each instance.
//
// If the store has lost the document, or has an older one after a failover, the next
// instance that notices saves the entries that it knows again.
package overrides

import (
	"cmp"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Options configure [New]. A field with its zero value has the default in its comment.
type Options struct {
	Store  headgate.Store // store that has the document; required
	Engine *engine.Engine // engine to which the entries are applied; required
	Log    *slog.Logger   // required
	// Every is the time between two polls of the store; 0 means [DefaultEvery]. It is
	// varied by a fifth, so that instances do not poll simultaneously.
	Every time.Duration
	// Timeout is the maximum time of one call of the store; 0 means [DefaultTimeout].
	Timeout time.Duration
}

// The defaults of [Options].
const (
	DefaultEvery   = 500 * time.Millisecond
	DefaultTimeout = 250 * time.Millisecond
)

// Snapshot is the list of entries at one time. It must not be changed.
type Snapshot struct {
	// Entries are the entries that have not ended, ordered by policy and target.
	Entries []Entry
	// Revision counts the changes of the document.
	Revision uint64
	// Ignored are the entries that have no effect, because their policy is not
	// configured or does not accept their limits.
	Ignored []Ignored
}

// Ignored is an entry without an effect.
type Ignored struct {
	ID  ID
	Err error // the reason
}

// Status is the state of the entries, for metrics and the admin API.
type Status struct {
	Supported bool      // whether the store keeps documents
	Entries   int       // number of entries that have not ended
	Ignored   int       // number of entries without an effect
	Revision  uint64    // revision of the document
	Checked   time.Time // last time at which the store has confirmed the entries; zero if it never has
	Err       error     // error of the last poll; nil if it has succeeded
	Polls     uint64    // number of polls
	Failed    uint64    // number of polls that have failed
	Restored  uint64    // number of times that a lost document was saved again
}

// Live follows the entries in the store. It is created with [New] and may be used
// concurrently.
type Live struct {
	store     headgate.DocumentStore // nil if the store keeps no documents
	engine    *engine.Engine
	log       *slog.Logger
	every     time.Duration
	timeout   time.Duration
	changing  chan struct{} // has a value while a change is in progress
	installed chan struct{} // receives a value after new entries were applied

	mu     sync.Mutex
	known  state
	status Status
	failed bool // whether the last poll has failed
}

// state is a document that this instance knows.
type state struct {
	version headgate.DocumentVersion
	document
}

// New returns the overrides of an engine. It does no I/O: call [Live.Run], which loads
// them. If the store keeps no documents, there are no overrides, and changes return
// [ErrUnsupported].
func New(opts *Options) *Live {
	store, _ := opts.Store.(headgate.DocumentStore)
	return &Live{
		store: store, engine: opts.Engine, log: opts.Log,
		every: cmp.Or(opts.Every, DefaultEvery), timeout: cmp.Or(opts.Timeout, DefaultTimeout),
		changing: make(chan struct{}, 1), installed: make(chan struct{}, 1),
		status: Status{Supported: store != nil},
	}
}

// List returns the entries that this instance knows and that have not ended.
func (l *Live) List() Snapshot {
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	snapshot := Snapshot{Entries: notEnded(known.Entries, time.Now()), Revision: known.Revision}
	for _, e := range l.engine.ActiveConfig().IgnoredLive() {
		snapshot.Ignored = append(snapshot.Ignored, Ignored{ID{e.Policy, e.Target}, e.Err})
	}
	slices.SortStableFunc(snapshot.Ignored, func(a, b Ignored) int { return compareIDs(a.ID, b.ID) })
	return snapshot
}

// Status returns the current state.
func (l *Live) Status() Status {
	l.mu.Lock()
	s := l.status
	s.Entries, s.Revision = len(notEnded(l.known.Entries, time.Now())), l.known.Revision
	l.mu.Unlock()
	s.Ignored = len(l.engine.ActiveConfig().IgnoredLive())
	return s
}

// notEnded returns the entries that have not ended at now.
func notEnded(all []Entry, now time.Time) []Entry {
	kept := make([]Entry, 0, len(all))
	for i := range all {
		if !all[i].ended(now) {
			kept = append(kept, all[i])
		}
	}
	return kept
}

// install makes a document the known one, and applies its entries that have not ended. A
// document that is older than the known one is discarded.
func (l *Live) install(next state) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if next.Revision < l.known.Revision {
		return
	}
	l.known = next
	l.applyLocked()
	select {
	case l.installed <- struct{}{}:
	default:
	}
}

// applyLocked applies the entries that have not ended to the engine.
func (l *Live) applyLocked() {
	active := notEnded(l.known.Entries, time.Now())
	all := make([]engine.LiveOverride, 0, len(active))
	for i := range active {
		e := &active[i]
		limits, err := parseLimits(e.Policy, e.Limits)
		if err != nil { // another version has written the entry
			l.log.Error("override in the store is not valid and has no effect", "policy", e.Policy, "error", err)
			continue
		}
		all = append(all, engine.LiveOverride{Policy: e.Policy, Target: e.Target, Limits: limits})
	}
	if err := l.engine.ApplyLive(all); err != nil {
		l.log.Error("overrides cannot be applied; previous overrides stay in effect", "error", err)
	}
}

// untilEnd returns the time until the next entry ends, and false if no entry has an end.
func (l *Live) untilEnd(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var next time.Time
	for i := range l.known.Entries {
		if e := &l.known.Entries[i]; !e.Until.IsZero() && !e.ended(now) && (next.IsZero() || e.Until.Before(next)) {
			next = e.Until
		}
	}
	return next.Sub(now), !next.IsZero()
}
