package engine

import (
	"sync/atomic"

	"github.com/headgate/headgate"
)

// Observer receives an event for every request to an engine that [Engine.WithObserver]
// returned. Its methods are called on the goroutine that decides, possibly concurrently,
// and should return fast.
type Observer interface {
	// Begin is called before some of the requests are decided. Its result, a time other
	// than 0, becomes the event's Began.
	Begin() int64
	// Observe is called after a request was decided or failed, before the response is
	// sent. It must not retain the event.
	Observe(e *Event)
}

// Event is one request. It and everything it refers to are valid only during the call.
// Its keys may identify people.
type Event struct {
	Verb  headgate.Verb
	Began int64 // what Begin returned; 0 if it was not called
	Err   error // why nothing was decided; [ErrorKindOf] classifies it
	// Shard is the same for requests that use the same Answer, which are decided one
	// after another, and mostly different for others. An observer that keeps counters per
	// shard avoids contention between processors.
	Shard  uint32
	answer *Answer
	config *ActiveConfig
	checks []Check // nil for a request that left its queue
}

// Rules returns the enforced limits, in the order of the request. They are complete if
// the store failed to decide, and may be incomplete if Err is an invalid request.
func (e *Event) Rules() []*Rule { return e.answer.enforced.rules }

// Decisions returns the decision of each of Rules; undefined if Err is set.
func (e *Event) Decisions() []headgate.Decision { return e.answer.enforced.Decisions }

// Key returns the key that the limit at an index of Rules applies to.
func (e *Event) Key(i int) string { return e.answer.enforced.Ops[i].Key }

// RuleName returns [Check].Rule of the check that the limit at an index of Rules belongs
// to. Its time grows with the number of checks, so it should be called only for what is
// logged.
func (e *Event) RuleName(i int) string {
	end, shadows := 0, e.answer.Shadows
	for at := range e.checks {
		if len(shadows) > 0 && shadows[0].Check == at {
			shadows = shadows[1:]
			continue
		}
		if end += e.config.ruleCount(&e.checks[at]); i < end {
			return e.checks[at].Rule
		}
	}
	return ""
}

// Shadows returns the results of checks in shadow mode.
func (e *Event) Shadows() []ShadowResult { return e.answer.Shadows }

// ShadowKey returns the key of the check at an index of Shadows.
func (e *Event) ShadowKey(i int) string {
	return e.answer.shadowed.Ops[e.answer.Shadows[i].first].Key
}

// ShadowRuleName returns [Check].Rule of the check at an index of Shadows.
func (e *Event) ShadowRuleName(i int) string {
	if at := e.answer.Shadows[i].Check; at < len(e.checks) {
		return e.checks[at].Rule
	}
	return ""
}

// lastShard is the shard that was assigned last.
var lastShard atomic.Uint32

// WithObserver returns a view of e that reports its requests to o, one view for each API.
// It decides as e does, by the active configuration of e, also after every [Engine.Apply]
// of e. Its own Apply is that of e. It must be called before e is used concurrently.
// o.Begin is called for one in everyNth requests, selected randomly; never if everyNth is
// 0.
func (e *Engine) WithObserver(o Observer, everyNth uint32) *Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	view := &Engine{store: e.store, health: e.health, observer: o, everyNth: everyNth, parent: e}
	view.install(e.active.Load())
	e.views = append(e.views, view)
	return view
}

// install makes a configuration active, in this engine and in its views.
func (e *Engine) install(s *ActiveConfig) {
	if e.observer != nil {
		observed := *s
		observed.observer, observed.everyNth = e.observer, e.everyNth
		s = &observed
	}
	e.active.Store(s)
	for _, view := range e.views {
		view.install(s)
	}
}

// begin calls the observer's Begin, if this request is one of those sampled for it.
func (s *ActiveConfig) begin(a *Answer) {
	a.event.Began = 0
	if a.event.Shard == 0 {
		a.event.Shard = lastShard.Add(1)
		a.random = uint64(a.event.Shard) * 0x9e3779b97f4a7c15
	}
	if s.everyNth == 0 || s.everyNth > 1 && !a.sample(s.everyNth) {
		return
	}
	a.event.Began = s.observer.Begin()
}

// sample returns true for one in n calls. The generator (Knuth's MMIX) belongs to this
// answer: a shared one would cost more than everything else here.
func (a *Answer) sample(n uint32) bool {
	a.random = a.random*6364136223846793005 + 1442695040888963407
	return uint32(a.random>>32)%n == 0
}

// notify reports the result of a request to the observer.
func (s *ActiveConfig) notify(verb headgate.Verb, checks []Check, a *Answer, err error) {
	e := &a.event
	e.answer, e.Verb, e.Err = a, verb, err // the answer is set again because an Answer may be copied
	e.config, e.checks = s, checks
	s.observer.Observe(e)
	e.config, e.checks = nil, nil
	if err != nil {
		e.Err = nil
	}
}
