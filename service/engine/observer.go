package engine

import (
	"github.com/headgate/headgate"
)

// Observer hears of every request that an engine made by [Engine.Observed] was asked about. Its methods are called on the goroutine
// that decides, possibly many at once, and should return fast.
type Observer interface {
	// Begin is called before a request is decided. What it returns is the event's Began: a moment, or 0 to measure nothing.
	Begin() int64
	// Observe is called once it is decided, or could not be, and before the answer goes out. It must not keep the event.
	Observe(e *Event)
}

// Event is one request. It and what it holds are the observer's during the call only: the keys in it are people.
type Event struct {
	Verb  headgate.Verb
	Began int64 // what Begin returned
	Err   error // why nothing was decided; [KindOf] sorts it
	// Rules are the limits that count, in the order of the request, and Decisions what each of them said. If Err is that nothing could
	// be decided, there are the rules and no decisions; if the request made no sense, there may be neither.
	Rules     []*Rule
	Decisions []headgate.Decision
	// Shadows are what checks that only watched would have answered.
	Shadows []Watched
	ops     []headgate.Op
}

// Key is whose budget the limit at a place of Rules is of.
func (e *Event) Key(i int) string { return e.ops[i].Key }

// Observed is e with somebody who hears of what is asked through it, one for each door: it decides as e does, by what e has in force,
// now and after every [Engine.Use] of e. Its own Use is that of e. It must be made before e is used by others.
func (e *Engine) Observed(o Observer) *Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	view := &Engine{store: e.store, health: e.health, observer: o, of: e}
	view.hold(e.holds.Load())
	e.views = append(e.views, view)
	return view
}

// hold puts a snapshot into force, here and wherever this engine is observed.
func (e *Engine) hold(s *Snapshot) {
	if e.observer != nil {
		watched := *s
		watched.observer = e.observer
		s = &watched
	}
	e.holds.Store(s)
	for _, view := range e.views {
		view.hold(s)
	}
}

// begin tells the observer that a request is there.
func (s *Snapshot) begin() int64 {
	if s.observer == nil {
		return 0
	}
	return s.observer.Begin()
}

// tell tells the observer what came of it.
func (s *Snapshot) tell(verb headgate.Verb, began int64, a *Answer, err error) {
	if s.observer == nil {
		return
	}
	a.event = Event{
		Verb: verb, Began: began, Err: err, Rules: a.counted.rules, Decisions: a.counted.decisions, Shadows: a.Shadows, ops: a.counted.ops,
	}
	s.observer.Observe(&a.event)
	a.event = Event{}
}
