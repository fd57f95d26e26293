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
	countedFor = 10 * time.Second // how long a failure counts
	countedIn  = time.Second      // steps in which it ages
	often      = 10               // times Failures, and half of all calls, count as away though some are decided,
	forAWhile  = time.Second      // for so long
	trials     = 3                // requests that must be decided once a probe was answered
)

// The breaker's modes. Only away and returning keep a caller from asking.
const (
	calm      uint32 = iota // no failure of late: nothing is counted, so that a decision does not pay for it
	watched                 // a failure of late: all calls are counted
	away                    // not asked, but for probes
	returning               // a probe was answered: a few callers ask
)

// errSaysNothing is the outcome of a call that says nothing about the server.
var errSaysNothing = errors.New("fallback: says nothing about the store")

// breaker counts failures (the library's part) and brings the store back (ours: the library would let a caller wait for the
// first request that it tries).
type breaker struct {
	mode     atomic.Uint32
	machine  *gobreaker.TwoStepCircuitBreaker[struct{}]
	failures uint32
	every    time.Duration
	within   time.Duration
	observer headgate.StoreObserver
	born     time.Time
	since    atomic.Int64 // when calls began to be counted; this and the next two in ns since born
	decided  atomic.Int64 // when the store last decided since then
	row      atomic.Int64 // when it first failed since then; 0 if it did not
	rowOf    atomic.Int64 // how many calls have failed since then that began then or later
	last     atomic.Pointer[failure]
	open     atomic.Pointer[headgate.StoreError] // what is answered while the store is not asked

	ctx  context.Context // ends with the store
	stop context.CancelFunc
	turn chan struct{} // tells the watch that the mode has changed
	done sync.WaitGroup

	mu       sync.Mutex
	closed   bool
	watching bool                  // the watch runs
	checking bool                  // a check does
	checked  time.Time             // when the last one had an answer
	news     []headgate.StoreEvent // what the observer has yet to hear
}

// failure is the last one, and what failed: it is what a probe asks for.
type failure struct {
	trouble headgate.StoreErrorReason
	err     error
	asked   question
}

func newBreaker(o *Options) *breaker {
	b := &breaker{
		failures: uint32(o.Failures), every: o.ProbeEvery, within: o.Budget,
		observer: o.Observer, born: time.Now(),
		turn: make(chan struct{}, 1),
	}
	b.ctx, b.stop = context.WithCancel(context.Background())
	b.machine = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		MaxRequests:   trials,
		Interval:      countedFor,
		BucketPeriod:  countedIn,
		Timeout:       o.ProbeEvery / 2, // over by the next probe, after which trials are made
		ReadyToTrip:   b.tooMany,
		OnStateChange: b.changed,
		IsExcluded:    func(err error) bool { return errors.Is(err, errSaysNothing) },
	})
	return b
}

// tooMany is whether the store counts as away. Calls fail in bursts: a connection that breaks takes all that were under way on it,
// and a process that stalls finds them all too late. So only those count as a row that began after the first had failed, and
// nothing may have been decided for a budget's time; or else it has to last.
func (b *breaker) tooMany(c gobreaker.Counts) bool {
	now := b.now()
	if now-b.decided.Load() >= int64(b.within) && b.rowOf.Load() >= int64(b.failures) {
		return true
	}
	return now-b.since.Load() >= int64(forAWhile) && c.TotalFailures >= often*b.failures && c.TotalFailures >= c.TotalSuccesses
}

// now is in ns since the breaker was made.
func (b *breaker) now() int64 { return int64(time.Since(b.born)) }

// noteDecided keeps when the store last decided. A row of failures ends with that.
func (b *breaker) noteDecided() {
	b.decided.Store(b.now())
	b.row.Store(0)
	b.rowOf.Store(0)
}

// noteFailed counts a failure of a call that began at start.
func (b *breaker) noteFailed(start time.Time) {
	if !b.row.CompareAndSwap(0, b.now()) && int64(start.Sub(b.born)) >= b.row.Load() {
		b.rowOf.Add(1)
	}
}

// away reports whether the store is not asked at all.
func (b *breaker) away() bool { return b.mode.Load() == away }

// permit is the right to ask the store once.
type permit struct {
	done  func(error) // nil if the call is not counted
	trial bool        // the store is just coming back
}

func (p permit) end(outcome error) {
	if p.done != nil {
		p.done(outcome)
	}
}

// admit gives a permit, which must be ended, or none.
func (b *breaker) admit() (permit, bool) {
	mode := b.mode.Load()
	if mode == calm {
		return permit{}, true
	}
	if mode == away {
		return permit{}, false
	}
	if mode == watched && b.machine.Counts().TotalFailures == 0 {
		b.mode.CompareAndSwap(watched, calm)
	}
	done, err := b.machine.Allow()
	return permit{done: done, trial: mode == returning}, err == nil
}

// failed ends a permit with a failure of what was asked.
func (b *breaker) failed(p permit, start time.Time, v verdict, asked question) {
	// Who waits behind others does not know for what.
	if v.trouble != headgate.ReasonOverloaded || b.mode.Load() == calm || b.last.Load() == nil {
		b.last.Store(&failure{trouble: v.trouble, err: v.err, asked: asked.kept()})
	}
	if p.done != nil {
		b.noteFailed(start)
		p.done(v.err)
		return
	}
	if b.mode.Load() == calm {
		b.noteDecided() // it may have been just now
		b.since.Store(b.now())
		b.mode.CompareAndSwap(calm, watched)
	}
	if b.mode.Load() != watched {
		return // the store was found to be away meanwhile
	}
	b.noteFailed(start)
	if done, err := b.machine.Allow(); err == nil {
		done(v.err)
	}
}

// refusal is the verdict on a call that is not made.
func (b *breaker) refusal() verdict {
	return verdict{headgate.ReasonBreakerOpen, b.open.Load()}
}

// changed follows the library's states. It is called with the library's lock held.
func (b *breaker) changed(_ string, from, to gobreaker.State) {
	switch {
	case to == gobreaker.StateClosed:
		b.mode.Store(calm)
		b.tell(headgate.StoreEvent{})
	case to == gobreaker.StateOpen && from == gobreaker.StateClosed:
		f := b.last.Load()
		b.open.Store(openError(f))
		b.mode.Store(away)
		b.tell(headgate.StoreEvent{Unavailable: true, Reason: f.trouble, Err: f.err})
	case to == gobreaker.StateOpen:
		b.mode.Store(away)
		b.tell()
	}
}

func openError(f *failure) *headgate.StoreError {
	e := &headgate.StoreError{
		Store: "store", Reason: headgate.ReasonBreakerOpen, Err: f.err,
		Advice: "it failed too often just now; it is probed, and asked again when it answers",
	}
	var cause *headgate.StoreError
	if errors.As(f.err, &cause) {
		e.Store = cause.Store
	}
	return e
}

// tell leaves news for the observer, and sees to it that the watch runs.
func (b *breaker) tell(news ...headgate.StoreEvent) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.news = append(b.news, news...)
	if !b.watching {
		b.watching = true
		b.done.Go(b.watch)
	}
	select {
	case b.turn <- struct{}{}:
	default:
	}
}

// watch runs from when the store goes away until it is asked by all again.
func (b *breaker) watch() {
	for b.report() {
		switch b.mode.Load() {
		case away:
			if b.pause(b.every) && b.probe() {
				b.mode.CompareAndSwap(away, returning)
			}
		case returning:
			b.pause(0)
		}
	}
}

// report tells the observer what is new. It answers false when there is nothing more to do.
func (b *breaker) report() bool {
	for {
		b.mu.Lock()
		news := b.news
		b.news = nil
		mode := b.mode.Load()
		if len(news) == 0 && (b.closed || mode == calm || mode == watched) {
			b.watching = false
			b.mu.Unlock()
			return false
		}
		b.mu.Unlock()
		if len(news) == 0 {
			return true
		}
		for _, e := range news {
			if b.observer != nil {
				b.observer.ObserveStore(e)
			}
		}
	}
}

// pause waits for d or, if d is 0, for the mode to change; false if the store was closed meanwhile.
func (b *breaker) pause(d time.Duration) bool {
	if d == 0 {
		select {
		case <-b.turn:
			return true
		case <-b.ctx.Done():
			return false
		}
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-b.ctx.Done():
		return false
	}
}

// probe asks for what failed last, without changing it, and reports whether there was an answer.
func (b *breaker) probe() bool { return b.ask(b.last.Load().asked) == nil }

// ask asks again, within a whole budget, and tells why there was no answer. That a key holds something else is one.
func (b *breaker) ask(q question) error {
	ctx, cancel := context.WithTimeout(b.ctx, b.within)
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

// close ends the watch and waits for it.
func (b *breaker) close() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.stop()
	b.done.Wait()
}
