package history

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest/model"
)

const noon = headgate.Instant(1_767_268_800_000_000) // 2026-01-01 12:00

var algorithms = model.Algorithms()

// testLog is a log with hand-written events of a fixed window of 5 per hour.
type testLog struct{ *Log }

func newTestLog() testLog { return testLog{New(headgate.FixedWindow, headgate.MustParseLimit("5/1h"))} }

func (h testLog) add(from, to int, o Outcome, r Request, d headgate.Decision) testLog {
	h.record(event{outcome: o, request: r, answered: answered{decision: d}, call: time.Duration(from), answer: time.Duration(to)})
	return h
}

// take adds an allowed take of 1 that left so many units.
func (h testLog) take(from, to int, left int64) testLog {
	return h.add(from, to, Answered, Request{Verb: headgate.Take, At: noon, Cost: 1}, headgate.Decision{Allowed: true, Limit: 5, Remaining: left, ResetAfter: time.Hour})
}

// peek adds a peek that found so many units left.
func (h testLog) peek(from, to int, left int64) testLog {
	d := headgate.Decision{Allowed: true, Limit: 5, Remaining: left, ResetAfter: time.Hour}
	if left == 5 {
		d.ResetAfter = 0
	}
	return h.add(from, to, Answered, Request{Verb: headgate.Peek, At: noon, Cost: 0}, d)
}

func (h testLog) unknown(from int, v headgate.Verb, cost int64) testLog {
	return h.add(from, from+1, Unknown, Request{Verb: v, At: noon, Cost: cost}, headgate.Decision{})
}

func (h testLog) lose(what Loss, from, to int) testLog {
	h.RecordLoss(what, h.start.Add(time.Duration(from)), h.start.Add(time.Duration(to)))
	return h
}

func TestCheckHandWrittenHistories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		log  testLog
		fits bool
	}{
		{"nothing", newTestLog(), true},
		{"sequential", newTestLog().take(0, 1, 4).take(2, 3, 3).peek(4, 5, 3), true},
		{"overlapping, reverse order", newTestLog().take(0, 9, 3).take(1, 8, 4), true},
		{"lost update", newTestLog().take(0, 1, 4).take(2, 3, 4), false},
		{"concurrent lost update", newTestLog().take(0, 9, 4).take(1, 8, 4), false},
		{"stale read", newTestLog().take(0, 1, 4).take(2, 3, 3).peek(4, 5, 4), false},
		{"take executed twice", newTestLog().take(0, 1, 4).take(2, 3, 2), false},
		{"unknown take, executed", newTestLog().unknown(0, headgate.Take, 1).peek(3, 4, 4), true},
		{"unknown take, not executed", newTestLog().unknown(0, headgate.Take, 1).peek(3, 4, 5), true},
		{"unknown take, executed late", newTestLog().unknown(0, headgate.Take, 1).peek(3, 4, 5).take(5, 6, 4).peek(7, 8, 3), true},
		{"unknown take, executed twice", newTestLog().unknown(0, headgate.Take, 1).peek(3, 4, 3), false},
		{"unknown take, executed and reverted", newTestLog().unknown(0, headgate.Take, 1).peek(3, 4, 4).peek(5, 6, 5), false},
		{"unknown take, executed before its call", newTestLog().peek(0, 1, 4).unknown(2, headgate.Take, 1), false},
		{"unknown refund", newTestLog().take(0, 1, 4).take(2, 3, 3).unknown(4, headgate.Refund, 1).peek(6, 7, 4), true},
		{"unknown reset", newTestLog().take(0, 1, 4).take(2, 3, 3).unknown(4, headgate.Reset, 0).peek(6, 7, 5), true},
		{"failed take that spent", newTestLog().add(0, 1, NotExecuted, Request{Verb: headgate.Take, At: noon, Cost: 1}, headgate.Decision{}).peek(2, 3, 4), false},
		{"failed take that did not spend", newTestLog().add(0, 1, NotExecuted, Request{Verb: headgate.Take, At: noon, Cost: 1}, headgate.Decision{}).peek(2, 3, 5), true},
		{"state lost without a fault", newTestLog().take(0, 1, 4).take(2, 3, 3).take(9, 10, 4), false},
		{"state lost in a restart", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(AllState, 4, 5).take(9, 10, 4), true},
		{"state lost after the restart", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(AllState, 4, 5).peek(6, 7, 3).take(9, 10, 4), false},
		{"state lost twice in one restart", newTestLog().take(0, 1, 4).lose(AllState, 2, 9).take(3, 4, 4).take(5, 6, 4).take(7, 8, 4), false},
		{"state kept over a restart", newTestLog().take(0, 1, 4).lose(AllState, 4, 5).take(9, 10, 3), true},
		{"state partly lost in a restart", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(AllState, 4, 5).take(9, 10, 3), false},
		{"latest write lost in a failover", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(LatestWrites, 4, 5).take(9, 10, 3), true},
		{"all writes lost in a failover", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(LatestWrites, 4, 5).take(9, 10, 4), true},
		{"more spent than before the failover", newTestLog().take(0, 1, 4).take(2, 3, 3).lose(LatestWrites, 4, 5).peek(9, 10, 2), false},
	} {
		err := c.log.Check(10 * time.Second)
		var v *Violation
		if (err == nil) != c.fits || err != nil && !errors.As(err, &v) {
			t.Errorf("%s: got error %v want none: %v\n%v", c.name, err, c.fits, c.log)
		}
	}
}

// TestCheckDecidesManyUnknownOperations records 40 lost replies. They would have 2^40
// orders if they were not interchangeable.
func TestCheckDecidesManyUnknownOperations(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{5, 3, 0} {
		h := newTestLog()
		for i := range 40 {
			h.unknown(i, headgate.Take, 1)
		}
		if err := h.peek(100, 101, left).peek(102, 103, left).Check(10 * time.Second); err != nil {
			t.Errorf("%d left after 40 takes of unknown outcome: got error %v want none", left, err)
		}
		if err := h.peek(104, 105, left+1).Check(10 * time.Second); err == nil {
			t.Errorf("%d, then %d left: got no error want one", left, left+1)
		}
	}
}

func TestCheckTimeoutReturnsErrUndecided(t *testing.T) {
	t.Parallel()
	h := newTestLog()
	for i := range int64(60) {
		h.add(0, 1000, Answered, Request{Verb: headgate.Peek, At: noon + headgate.Instant(i), Cost: i}, headgate.Decision{Limit: 4})
		h.add(0, 1000, Unknown, Request{Verb: headgate.Take, At: noon + headgate.Instant(i), Cost: 1}, headgate.Decision{})
	}
	var v *Violation
	if err := h.Check(time.Millisecond); !errors.Is(err, ErrUndecided) || errors.As(err, &v) {
		t.Errorf("a search that takes too long: got error %.100v want that it is undecided", err)
	}
}

// TestMemstoreIsLinearizable records real histories: at one instant, at instants that
// advance a little, and at instants so far apart that units are refilled.
func TestMemstoreIsLinearizable(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	for _, a := range algorithms {
		for _, stride := range []int64{0, 1_000_000, 30_000_000} {
			t.Run(fmt.Sprintf("%s, %d µs", a, stride), func(t *testing.T) {
				for n := range 20 {
					log := record(t, store, a, stride, uint64(n))
					if err := log.Check(20 * time.Second); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// record lets 5 clients execute 20 operations each, at instants that advance by up to
// stride.
func record(t *testing.T, store headgate.Store, a headgate.Algorithm, stride int64, seed uint64) *Log {
	limit := headgate.MustParseLimit("20/1h")
	b, err := store.Bind(headgate.Rule{Scope: fmt.Sprint(t.Name(), seed), Limit: limit, Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	log := New(a, limit)
	var now atomic.Int64
	var all sync.WaitGroup
	for client := range 5 {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		all.Go(func() {
			for range 20 {
				at := noon + headgate.Instant(now.Add(r.Int64N(stride+1)))
				verb := []headgate.Verb{headgate.Take, headgate.Take, headgate.Take, headgate.Peek, headgate.Refund, headgate.Reset}[r.IntN(6)]
				if o, err := log.Do(context.Background(), client, b, "key", Request{Verb: verb, At: at, Cost: 1 + r.Int64N(4)}); o != Answered || err != nil {
					t.Errorf("got outcome %v, error %v want answered", o, err)
				}
			}
		})
	}
	all.Wait()
	if got := log.Counts(); got != (Counts{Answered: 100}) {
		t.Errorf("counts: got %+v want 100 answered", got)
	}
	return log
}

func TestOutcomeOfErrors(t *testing.T) {
	t.Parallel()
	storeError := func(reason headgate.StoreErrorReason) error {
		return fmt.Errorf("wrapped: %w", &headgate.StoreError{Store: "s", Reason: reason, Err: io.EOF})
	}
	for _, c := range []struct {
		name     string
		decision headgate.Decision
		err      error
		want     Outcome
		wrong    bool
	}{
		{"a decision", headgate.Decision{}, nil, Answered, false},
		{"unreachable", headgate.Decision{}, storeError(headgate.ReasonUnreachable), NotExecuted, false},
		{"refused", headgate.Decision{}, storeError(headgate.ReasonRefused), NotExecuted, false},
		{"overloaded", headgate.Decision{}, storeError(headgate.ReasonOverloaded), NotExecuted, false},
		{"breaker open", headgate.Decision{}, storeError(headgate.ReasonBreakerOpen), NotExecuted, false},
		{"timed out", headgate.Decision{}, storeError(headgate.ReasonTimedOut), Unknown, false},
		{"deadline", headgate.Decision{}, context.DeadlineExceeded, Unknown, false},
		{"cancelled", headgate.Decision{}, context.Canceled, Unknown, false},
		{"degraded, timed out", headgate.Decision{Degraded: headgate.ReasonTimedOut}, nil, Unknown, false},
		{"degraded, unreachable", headgate.Decision{Degraded: headgate.ReasonUnreachable}, nil, NotExecuted, false},
		{"wrong type", headgate.Decision{}, storeError(headgate.ReasonWrongType), Unknown, true},
		{"any error", headgate.Decision{}, io.EOF, Unknown, true},
		{"no reason", headgate.Decision{}, storeError(headgate.ReasonNone), Unknown, true},
	} {
		got, wrong := outcomeOf(c.decision, c.err)
		if got != c.want || (wrong != nil) != c.wrong {
			t.Errorf("%s: got outcome %d, error %v want %d, %v", c.name, got, wrong, c.want, c.wrong)
		}
	}
}
