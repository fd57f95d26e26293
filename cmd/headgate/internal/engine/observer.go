package engine

import (
	"context"
	"sync/atomic"

	"github.com/headgate/headgate"
)

// Operation is what a request does to the keys of its checks.
type Operation uint8

// The operations, in the order of [headgate.Verb] and of [headgate.HoldVerb].
const (
	Take Operation = iota
	Peek
	Refund
	Reset
	Hold
	Commit
	Extend
	Debit
	TakeUpTo
	Operations int = iota // number of operations
)

// String returns the name of the operation in metrics and logs.
func (o Operation) String() string {
	if o < Hold {
		return headgate.Verb(o).String()
	}
	return headgate.HoldVerb(o - Hold).String()
}

// Observer receives an event for every request to an engine that [Engine.WithObserver]
// returned. Its methods are called on the goroutine that decides the request, possibly
// concurrently, and should return quickly.
type Observer interface {
	// Begin is called before a request is decided, but only for the sampled requests.
	// It returns the current time as a number other than 0, which becomes Event.Began.
	Begin() int64
	// Observe is called after a request was decided or failed, and before the response
	// is sent. It must not retain the event.
	Observe(e *Event)
}

// Event is one request. The event and everything that it refers to are valid only
// during the call of Observe. Its keys may identify people.
type Event struct {
	Operation Operation
	Began     int64 // result of Observer.Begin; 0 if Begin was not called
	Err       error // error that prevented a decision, or nil; [ErrorKindOf] classifies it
	// Shard is the same number for all requests with the same Answer, which are decided
	// one after another. Requests with different Answers mostly have different shards.
	// An observer that keeps counters per shard avoids contention between processors.
	Shard  uint32
	ctx    context.Context // see Context
	answer *Answer
	checks []Check // nil for the cancellation when a request left its queue
}

// Context returns the context of the request, so that an observer can find the span of a
// trace in it. It may already have ended.
func (e *Event) Context() context.Context { return e.ctx }

// Rules returns the enforced limits, in the order of the request. The list is complete
// even if the store failed to decide. It may be incomplete if Err is an invalid
// request.
func (e *Event) Rules() []*Rule { return e.answer.enforced.rules }

// Decisions returns the decision for each of Rules, at the same index. It is undefined
// if Err is set.
func (e *Event) Decisions() []headgate.Decision { return e.answer.enforced.Decisions }

// Key returns the key that was charged under the limit with index i in Rules.
func (e *Event) Key(i int) string { return e.answer.enforced.Ops[i].Key }

// Check returns the check that the limit with index i in Rules belongs to, or nil if the
// request has none.
func (e *Event) Check(i int) *Check {
	if at := e.answer.enforced.checks[i]; at < len(e.checks) {
		return &e.checks[at]
	}
	return nil
}

// Denied reports whether the limit with index i in Rules denied the request. If the check
// has a Reported limit, an allowed decision that leaves no units is a denial by that
// limit.
func (e *Event) Denied(i int) bool {
	d := &e.answer.enforced.Decisions[i]
	if !d.Allowed || d.Remaining > 0 || d.Degraded != headgate.ReasonNone || e.Operation != Take {
		return !d.Allowed
	}
	c := e.Check(i)
	return c != nil && c.Reported != nil && d.Limit > c.Reported.Rate
}

// Shadows returns the results for the checks in shadow mode.
func (e *Event) Shadows() []ShadowResult { return e.answer.Shadows }

// ShadowKey returns the key of the check that has index i in Shadows.
func (e *Event) ShadowKey(i int) string {
	return e.answer.shadowed.Ops[e.answer.Shadows[i].first].Key
}

// ShadowRuleName returns the field Rule of the [Check] that has index i in Shadows.
func (e *Event) ShadowRuleName(i int) string {
	if at := e.answer.Shadows[i].Check; at < len(e.checks) {
		return e.checks[at].Rule
	}
	return ""
}

// ReportDenial reports to the observer that an API has denied a request without the
// engine, because the limit of a check is 0, which no store enforces. The check's Inline
// is another limit with the same state, and its Reported is the limit of 0. The answer a
// is used as memory. With enforcement off, ReportDenial does nothing.
func (s *ActiveConfig) ReportDenial(ctx context.Context, check *Check, a *Answer) {
	if s.observer == nil || s.enforcement == Off {
		return
	}
	a.clear(s.generation)
	defer a.clearKeys()
	checks := []Check{*check}
	if s.resolve(checks, a) != nil {
		return
	}
	clear(a.enforced.Decisions)
	for i := range a.Shadows {
		w := &a.Shadows[i]
		w.first, w.end, w.DeniedBy = i, i+1, a.shadowed.rules[i]
	}
	s.begin(a)
	a.event.Began = 0 // no duration is measured
	s.notify(ctx, Take, checks, a, nil)
}

// lastShard is the most recently assigned value of Event.Shard.
var lastShard atomic.Uint32

// WithObserver returns a view of e: an engine that shares the store and the active
// configuration of e, also after every [Engine.Apply], and reports its own requests to
// o. Each API uses one view. Apply on the view calls Apply on e. WithObserver must be
// called before e is used concurrently. o.Begin is called for one in everyNth requests,
// selected randomly; 0 means never.
func (e *Engine) WithObserver(o Observer, everyNth uint32) *Engine {
	e.mu.Lock()
	defer e.mu.Unlock()
	view := &Engine{store: e.store, health: e.health, observer: o, everyNth: everyNth, parent: e}
	view.install(e.active.Load())
	e.views = append(e.views, view)
	return view
}

// install makes s the active configuration of this engine and of its views.
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

// begin calls the observer's Begin if this request is selected by sampling.
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

// sample returns true for one in n calls, randomly. Each answer has its own generator
// (Knuth's MMIX), because a generator shared by processors would take more time than
// the rest of begin.
func (a *Answer) sample(n uint32) bool {
	a.random = a.random*6364136223846793005 + 1442695040888963407
	return uint32(a.random>>32)%n == 0
}

// notify reports the result of a request to the observer.
func (s *ActiveConfig) notify(ctx context.Context, operation Operation, checks []Check, a *Answer, err error) {
	e := &a.event
	e.ctx = ctx
	e.answer, e.Operation, e.Err = a, operation, err // set again, because an Answer may have been copied
	e.checks = checks
	s.observer.Observe(e)
	e.checks, e.ctx = nil, nil
	if err != nil {
		e.Err = nil
	}
}
