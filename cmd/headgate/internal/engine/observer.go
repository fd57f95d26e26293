package engine

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// Observer hears of every request that an engine made by [Engine.Observed] was asked about. Its methods are called on the goroutine
// that decides, possibly many at once, and should return fast.
type Observer interface {
	// Begin is called before some of the requests are decided. What it returns is the event's Began: a moment, not 0.
	Begin() int64
	// Observe is called once a request is decided, or could not be, and before the answer goes out. It must not keep the event.
	Observe(e *Event)
}

// Event is one request. It and what it holds are the observer's during the call only: the keys in it are people.
type Event struct {
	Verb  headgate.Verb
	Began int64 // what Begin returned; 0 if it was not called
	Err   error // why nothing was decided; [KindOf] sorts it
	// Lane is the same for requests that are decided on the same memory, so one after the other, and mostly another for others: who
	// counts can count each lane by itself, where no processor waits for another.
	Shard  uint32
	answer *Answer
}

// Rules are the limits that count, in the order of the request. If Err is that nothing could be decided, they are there; if the request
// made no sense, there may be some.
func (e *Event) Rules() []*Rule { return e.answer.counted.rules }

// Decisions are what each of Rules said; of no meaning if Err is set.
func (e *Event) Decisions() []headgate.Decision { return e.answer.counted.Decisions }

// Key is whose budget the limit at a place of Rules is of.
func (e *Event) Key(i int) string { return e.answer.counted.Ops[i].Key }

// Shadows are what checks that only watched would have answered.
func (e *Event) Shadows() []ShadowResult { return e.answer.Shadows }

// ShadowKey is whose budget the check at a place of Shadows is of.
func (e *Event) ShadowKey(i int) string { return e.answer.watched.Ops[e.answer.Shadows[i].first].Key }

// lanes counts the memories that requests were decided on.
var lanes atomic.Uint32

// Observed is e with somebody who hears of what is asked through it, one for each door: it decides as e does, by what e has in force,
// now and after every [Engine.Use] of e. Its own Use is that of e. It must be made before e is used by others. One request in everyNth,
// left to chance, begins with o.Begin; none if it is 0.
func (e *Engine) WithObserver(o Observer, everyNth uint32) *Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	view := &Engine{store: e.store, health: e.health, observer: o, everyNth: everyNth, of: e}
	view.hold(e.holds.Load())
	e.views = append(e.views, view)
	return view
}

// hold puts a snapshot into force, here and wherever this engine is observed.
func (e *Engine) hold(s *ActiveConfig) {
	if e.observer != nil {
		watched := *s
		watched.observer, watched.everyNth = e.observer, e.everyNth
		s = &watched
	}
	e.holds.Store(s)
	for _, view := range e.views {
		view.hold(s)
	}
}

// begin tells the observer that a request is there, if this is one of those that begin.
func (s *ActiveConfig) begin(a *Answer) {
	a.event.Began = 0
	if a.event.Shard == 0 {
		a.event.Shard = lanes.Add(1)
		a.lot = uint64(a.event.Shard) * 0x9e3779b97f4a7c15
	}
	if s.everyNth == 0 || s.everyNth > 1 && !a.drawn(s.everyNth) {
		return
	}
	a.event.Began = s.observer.Begin()
}

// drawn is true once in n times, by a generator of this answer's own (Knuth's MMIX), as a common one would cost more than all else here.
func (a *Answer) drawn(n uint32) bool {
	a.lot = a.lot*6364136223846793005 + 1442695040888963407
	return uint32(a.lot>>32)%n == 0
}

// tell tells the observer what came of it.
func (s *ActiveConfig) tell(verb headgate.Verb, a *Answer, err error) {
	e := &a.event
	e.answer, e.Verb, e.Err = a, verb, err // an answer may have been copied
	s.observer.Observe(e)
	if err != nil {
		e.Err = nil
	}
}
