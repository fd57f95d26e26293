package fallback

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/headgate/headgate"
)

const (
	countedFor = 10 * time.Second // age up to which failures are counted
	countedIn  = time.Second      // time span of one bucket of the failure counter
	// If at least half of all calls fail for at least tripDuration, tripFactor ×
	// Failures failures open the breaker, even though the store decides some calls.
	tripFactor   = 10
	tripDuration = time.Second
	trials       = 3 // number of requests that the store must decide after a successful probe before the breaker closes
)

// The states of the breaker. In stateOpen no call, and in stateHalfOpen only a few
// calls, reach the store.
const (
	stateIdle     uint32 = iota // closed without a recent failure: counts nothing, so that decisions are cheap
	stateCounting               // closed with a recent failure: counts all calls
	stateOpen                   // open: only probes call the store
	stateHalfOpen               // half-open after a successful probe: a few calls are sent to the store
)

// errNoEvidence is the outcome of a call that shows nothing about the server's health.
var errNoEvidence = errors.New("fallback: the outcome does not show whether the store is available")

// breaker is the circuit breaker of one node. The library gobreaker counts failures.
// Probing and recovery are implemented here, because with the library alone a caller
// would have to wait for the first trial request.
type breaker struct {
	node         string
	state        atomic.Uint32
	machine      *gobreaker.TwoStepCircuitBreaker[struct{}]
	failures     uint32
	probeEvery   time.Duration
	budget       time.Duration
	observer     headgate.StoreObserver
	born         time.Time
	since        atomic.Int64 // start of counting; like decided and streakStart, in ns since born
	decided      atomic.Int64 // time of the store's last decision
	streakStart  atomic.Int64 // start of the current series of failures; 0 if there is none
	streakLength atomic.Int64 // number of failed calls that began after streakStart
	used         atomic.Int64 // time of the last failure or check
	retired      atomic.Bool  // true if a new breaker must replace this one
	last         atomic.Pointer[failure]
	open         atomic.Pointer[headgate.StoreError] // error for callers while the breaker is open

	ctx  context.Context // ends when the store is closed
	done *sync.WaitGroup // goroutines of all breakers
	wake chan struct{}   // wakes the watch goroutine after a change of state

	mu        sync.Mutex
	closed    bool
	watching  bool                  // true while the watch goroutine runs
	checking  bool                  // true while a check runs
	lastCheck time.Time             // time of the last check with a reply
	events    []headgate.StoreEvent // events not yet sent to the observer
}

// failure is a failed call. A probe repeats the request of that call as a peek.
type failure struct {
	reason headgate.StoreErrorReason
	err    error
	call   storeCall
}

func newBreaker(a *breakers, node string) *breaker {
	o := &a.options
	b := &breaker{
		node: node, failures: uint32(o.Failures), probeEvery: o.ProbeEvery, budget: o.Budget,
		observer: o.Observer, born: time.Now(),
		ctx: a.ctx, done: &a.done, wake: make(chan struct{}, 1),
	}
	b.machine = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   trials,
		Interval:      countedFor,
		BucketPeriod:  countedIn,
		Timeout:       o.ProbeEvery / 2, // expires before the next probe, so that trials can follow
		ReadyToTrip:   b.shouldTrip,
		OnStateChange: b.onStateChange,
		IsExcluded:    func(err error) bool { return errors.Is(err, errNoEvidence) },
	})
	return b
}

// shouldTrip reports whether the breaker must open. Calls fail in bursts: a broken
// connection fails all calls in flight, and a stalled process delays all of them. The
// breaker therefore opens if the store has decided nothing for the time of one budget
// and enough calls have failed that began after the first failure. It also opens after
// tripFactor times as many failures, if at least half of all calls fail for at least
// tripDuration.
func (b *breaker) shouldTrip(c gobreaker.Counts) bool {
	now := b.now()
	if now-b.decided.Load() >= int64(b.budget) && b.streakLength.Load() >= int64(b.failures) {
		return true
	}
	return now-b.since.Load() >= int64(tripDuration) && c.TotalFailures >= tripFactor*b.failures && c.TotalFailures >= c.TotalSuccesses
}

// now returns the time in ns since the breaker was created.
func (b *breaker) now() int64 { return int64(time.Since(b.born)) }

// noteDecided records that the store made a decision. This ends a series of failures.
func (b *breaker) noteDecided() {
	b.decided.Store(b.now())
	b.streakStart.Store(0)
	b.streakLength.Store(0)
}

// noteFailed counts the failure of a call. The parameter start is the time at which the
// call began.
func (b *breaker) noteFailed(start time.Time) {
	if !b.streakStart.CompareAndSwap(0, b.now()) && int64(start.Sub(b.born)) >= b.streakStart.Load() {
		b.streakLength.Add(1)
	}
}

// unused reports whether the breaker can be dropped: it is closed, and nothing has failed
// for some time.
func (b *breaker) unused() bool {
	if state := b.state.Load(); state == stateOpen || state == stateHalfOpen {
		return false
	}
	if !b.retired.Load() && b.now()-b.used.Load() < int64(unusedFor) {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return !b.watching && !b.checking
}

// permit allows one call to a node.
type permit struct {
	breaker *breaker    // nil if the node has no breaker, because it has not failed recently
	done    func(error) // reports the outcome to the library; nil if the call is not counted
	trial   bool        // true if the breaker is half-open
}

func (p permit) end(outcome error) {
	if p.done != nil {
		p.done(outcome)
	}
}

// admit reports whether a call to the store is allowed. If so, the caller must end the
// returned permit.
func (b *breaker) admit() (permit, bool) {
	mode := b.state.Load()
	if mode == stateIdle {
		return permit{breaker: b}, true
	}
	if mode == stateOpen {
		return permit{}, false
	}
	if mode == stateCounting && b.machine.Counts().TotalFailures == 0 {
		b.state.CompareAndSwap(stateCounting, stateIdle)
	}
	done, err := b.machine.Allow()
	return permit{breaker: b, done: done, trial: mode == stateHalfOpen}, err == nil
}

// failed ends a permit after a failed call that began at start.
func (b *breaker) failed(p permit, start time.Time, v verdict, asked storeCall) {
	b.used.Store(b.now())
	// A caller that only waited in a queue does not know why the calls before it
	// failed.
	if v.reason != headgate.ReasonOverloaded || b.state.Load() == stateIdle || b.last.Load() == nil {
		b.last.Store(&failure{reason: v.reason, err: v.err, call: asked.clone()})
	}
	if p.done != nil {
		b.noteFailed(start)
		p.done(v.err)
		return
	}
	if b.state.Load() == stateIdle {
		b.noteDecided() // because calls are not recorded in stateIdle, the store may have just decided one
		b.since.Store(b.now())
		b.state.CompareAndSwap(stateIdle, stateCounting)
	}
	if b.state.Load() != stateCounting {
		return // the breaker has opened since
	}
	b.noteFailed(start)
	if done, err := b.machine.Allow(); err == nil {
		done(v.err)
	}
}

// refusal returns the outcome for a call that the open breaker does not allow.
func (b *breaker) refusal() verdict {
	return verdict{headgate.ReasonBreakerOpen, b.open.Load()}
}

// onStateChange handles a change of the library's state. The library holds its lock
// during the call.
func (b *breaker) onStateChange(_ string, from, to gobreaker.State) {
	switch {
	case b.retired.Load():
	case to == gobreaker.StateClosed:
		b.state.Store(stateIdle)
		b.notify(headgate.StoreEvent{Node: b.node})
	case to == gobreaker.StateOpen && from == gobreaker.StateClosed:
		f := b.last.Load()
		b.open.Store(openError(f))
		b.state.Store(stateOpen)
		b.notify(headgate.StoreEvent{Node: b.node, Unavailable: true, Reason: f.reason, Err: f.err})
	case to == gobreaker.StateOpen:
		b.state.Store(stateOpen)
		b.notify()
	}
}

func openError(f *failure) *headgate.StoreError {
	e := &headgate.StoreError{
		Store: "store", Reason: headgate.ReasonBreakerOpen, Err: f.err,
		Advice: "it failed too often; calls resume after a successful probe",
	}
	var cause *headgate.StoreError
	if errors.As(f.err, &cause) {
		e.Store = cause.Store
	}
	return e
}

// notify queues events for the observer and starts or wakes the watch goroutine.
func (b *breaker) notify(news ...headgate.StoreEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.events = append(b.events, news...)
	if !b.watching {
		b.watching = true
		b.done.Go(b.watch)
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
}

// watch runs on its own goroutine while the breaker is open or half-open.
func (b *breaker) watch() {
	for b.report() {
		switch b.state.Load() {
		case stateOpen:
			if b.pause(b.probeEvery, nil) && !b.retireIfGone() && b.probe() {
				b.state.CompareAndSwap(stateOpen, stateHalfOpen)
			}
		case stateHalfOpen:
			b.pause(b.probeEvery, b.wake)
			b.retireIfGone()
		}
	}
}

// retireIfGone closes the breaker if the key that failed is stored on another node now,
// for example after a failover. No further call would close it. It returns true if it
// has closed the breaker.
func (b *breaker) retireIfGone() bool {
	if node, several := b.last.Load().call.node(); several || node == b.node {
		return false
	}
	b.retired.Store(true)
	b.state.Store(stateIdle)
	b.notify(headgate.StoreEvent{Node: b.node})
	return true
}

// report sends queued events to the observer. It returns false if the watch goroutine
// must end.
func (b *breaker) report() bool {
	for {
		b.mu.Lock()
		news := b.events
		b.events = nil
		mode := b.state.Load()
		if len(news) == 0 && (b.closed || mode == stateIdle || mode == stateCounting) {
			b.watching = false
			b.mu.Unlock()
			return false
		}
		b.mu.Unlock()
		if len(news) == 0 {
			return true
		}
		for _, e := range news {
			b.observer.ObserveStore(e)
		}
	}
}

// pause blocks for d, or until it receives from wake. It returns false if the store was
// closed.
func (b *breaker) pause(d time.Duration, wake <-chan struct{}) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-wake:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// probe peeks at the key of the last failed call, and reports whether the store
// replied.
func (b *breaker) probe() bool { return b.repeat(b.last.Load().call) == nil }

// repeat repeats a request as a peek, with a whole time budget. It returns nil if the
// store replied, otherwise the error. An error because the key has a wrong type also
// counts as a reply.
func (b *breaker) repeat(q storeCall) error {
	ctx, cancel := context.WithTimeout(b.ctx, b.budget)
	defer cancel()
	err := q.peek(ctx)
	var known *headgate.StoreError
	switch {
	case errors.As(err, &known) && known.Reason == headgate.ReasonWrongType:
		return nil
	case errors.Is(err, headgate.ErrStoreUnavailable):
		return err
	}
	return ctx.Err()
}

// close prevents new goroutines. It does not wait for running ones.
func (b *breaker) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}
