// Package heartbeat calls a function for a set of entries once per interval, for example
// to extend the holds of a process before they expire.
package heartbeat

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Set is a set of entries. While it has entries, a timer starts one goroutine per
// interval, which calls the function with all entries of that moment and then ends. A set
// without entries has neither a timer nor a goroutine. Create it with [New]. It may be
// used concurrently.
type Set[T comparable] struct {
	interval time.Duration
	beat     func(context.Context, []T) (report func())

	mu      sync.Mutex
	entries map[T]struct{}
	timer   *time.Timer    // nil while the set has no entries and run is not running
	active  sync.WaitGroup // 1 while the timer runs or beat is running
	closed  bool
	ctx     context.Context // context of beat
	cancel  context.CancelFunc
}

// New returns an empty set. beat returns the function report, or nil. report is called
// after beat and may call all methods, Close included. beat may not call Close. beat and
// report never run at the same time, and neither runs twice at the same time. The
// interval begins when report has ended.
func New[T comparable](interval time.Duration, beat func(ctx context.Context, entries []T) (report func())) *Set[T] {
	s := &Set[T]{interval: interval, beat: beat, entries: map[T]struct{}{}}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// Add adds an entry. After Close, it does nothing.
func (s *Set[T]) Add(entry T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.entries[entry] = struct{}{}
	if s.timer == nil {
		s.active.Add(1)
		s.timer = time.AfterFunc(s.interval, s.run)
	}
}

// Remove removes an entry, and reports whether the set contained it. A call of beat in
// progress may still use the entry.
func (s *Set[T]) Remove(entry T) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, found := s.entries[entry]
	delete(s.entries, entry)
	s.stopUnused()
	return found
}

// Close removes all entries, cancels the context of beat, and waits until a call of beat
// in progress has ended. It does not wait for report, so that report may call Close: a
// call of report may be in progress after Close has returned, or may then begin.
func (s *Set[T]) Close() {
	s.mu.Lock()
	s.closed = true
	clear(s.entries)
	s.stopUnused()
	s.cancel()
	s.mu.Unlock()
	s.active.Wait()
}

// stopUnused stops the timer if the set has no entries. If the timer has already expired,
// run does so. s.mu must be locked.
func (s *Set[T]) stopUnused() {
	if len(s.entries) == 0 && s.timer != nil && s.timer.Stop() {
		s.timer = nil
		s.active.Done()
	}
}

// run calls beat and its report, and starts the timer again if the set has entries.
func (s *Set[T]) run() {
	var report func()
	if entries := s.all(); len(entries) > 0 {
		report = s.beat(s.ctx, entries)
	}
	s.active.Done()
	if report != nil {
		report()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) > 0 {
		s.active.Add(1)
		s.timer.Reset(s.interval)
		return
	}
	s.timer = nil
}

func (s *Set[T]) all() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Collect(maps.Keys(s.entries))
}
