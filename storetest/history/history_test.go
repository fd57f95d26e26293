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

// hand is a log written by hand, of a fixed window of 5 an hour: what is left is easy to follow.
type hand struct{ *Log }

func byHand() hand { return hand{New(headgate.FixedWindow, headgate.MustParseLimit("5/1h"))} }

func (h hand) add(from, to int, o Outcome, r Request, d headgate.Decision) hand {
	h.note(event{outcome: o, request: r, decision: d, call: time.Duration(from), answer: time.Duration(to)})
	return h
}

// took is an admitted take of 1 that left so many.
func (h hand) took(from, to int, left int64) hand {
	return h.add(from, to, Answered, Request{headgate.Take, noon, 1}, headgate.Decision{Allowed: true, Limit: 5, Remaining: left, ResetAfter: time.Hour})
}

// found is a peek at so many left.
func (h hand) found(from, to int, left int64) hand {
	d := headgate.Decision{Allowed: true, Limit: 5, Remaining: left, ResetAfter: time.Hour}
	if left == 5 {
		d.ResetAfter = 0
	}
	return h.add(from, to, Answered, Request{headgate.Peek, noon, 0}, d)
}

func (h hand) maybe(from int, v headgate.Verb, cost int64) hand {
	return h.add(from, from+1, Unknown, Request{v, noon, cost}, headgate.Decision{})
}

func (h hand) lose(what Loss, from, to int) hand {
	h.Lose(what, h.began.Add(time.Duration(from)), h.began.Add(time.Duration(to)))
	return h
}

func TestHistoriesWorkedByHand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		log  hand
		fits bool
	}{
		{"nothing", byHand(), true},
		{"one after another", byHand().took(0, 1, 4).took(2, 3, 3).found(4, 5, 3), true},
		{"overlapping, the later first", byHand().took(0, 9, 3).took(1, 8, 4), true},
		{"an update is lost", byHand().took(0, 1, 4).took(2, 3, 4), false},
		{"two see the same", byHand().took(0, 9, 4).took(1, 8, 4), false},
		{"a stale answer", byHand().took(0, 1, 4).took(2, 3, 3).found(4, 5, 4), false},
		{"a charge made twice", byHand().took(0, 1, 4).took(2, 3, 2), false},
		{"an unknown take that happened", byHand().maybe(0, headgate.Take, 1).found(3, 4, 4), true},
		{"an unknown take that did not", byHand().maybe(0, headgate.Take, 1).found(3, 4, 5), true},
		{"an unknown take that happened late", byHand().maybe(0, headgate.Take, 1).found(3, 4, 5).took(5, 6, 4).found(7, 8, 3), true},
		{"an unknown take that happened twice", byHand().maybe(0, headgate.Take, 1).found(3, 4, 3), false},
		{"an unknown take that was taken back", byHand().maybe(0, headgate.Take, 1).found(3, 4, 4).found(5, 6, 5), false},
		{"an unknown take that happened before it was asked for", byHand().found(0, 1, 4).maybe(2, headgate.Take, 1), false},
		{"an unknown refund", byHand().took(0, 1, 4).took(2, 3, 3).maybe(4, headgate.Refund, 1).found(6, 7, 4), true},
		{"an unknown reset", byHand().took(0, 1, 4).took(2, 3, 3).maybe(4, headgate.Reset, 0).found(6, 7, 5), true},
		{"a refusal that spent", byHand().add(0, 1, Never, Request{headgate.Take, noon, 1}, headgate.Decision{}).found(2, 3, 4), false},
		{"a refusal that did not", byHand().add(0, 1, Never, Request{headgate.Take, noon, 1}, headgate.Decision{}).found(2, 3, 5), true},
		{"forgotten without a reason", byHand().took(0, 1, 4).took(2, 3, 3).took(9, 10, 4), false},
		{"forgotten in a restart", byHand().took(0, 1, 4).took(2, 3, 3).lose(Everything, 4, 5).took(9, 10, 4), true},
		{"forgotten later than the restart", byHand().took(0, 1, 4).took(2, 3, 3).lose(Everything, 4, 5).found(6, 7, 3).took(9, 10, 4), false},
		{"forgotten twice in one restart", byHand().took(0, 1, 4).lose(Everything, 2, 9).took(3, 4, 4).took(5, 6, 4).took(7, 8, 4), false},
		{"kept over a restart", byHand().took(0, 1, 4).lose(Everything, 4, 5).took(9, 10, 3), true},
		{"half forgotten in a restart", byHand().took(0, 1, 4).took(2, 3, 3).lose(Everything, 4, 5).took(9, 10, 3), false},
		{"the newest forgotten in a failover", byHand().took(0, 1, 4).took(2, 3, 3).lose(Newest, 4, 5).took(9, 10, 3), true},
		{"all forgotten in a failover", byHand().took(0, 1, 4).took(2, 3, 3).lose(Newest, 4, 5).took(9, 10, 4), true},
		{"more than ever was after a failover", byHand().took(0, 1, 4).took(2, 3, 3).lose(Newest, 4, 5).found(9, 10, 2), false},
	} {
		err := c.log.Check(10 * time.Second)
		var v *Violation
		if (err == nil) != c.fits || err != nil && !errors.As(err, &v) {
			t.Errorf("%s: got error %v want none: %v\n%v", c.name, err, c.fits, c.log)
		}
	}
}

// Forty lost replies would have 2^40 orders, were they not alike.
func TestManyUnknownsAreDecided(t *testing.T) {
	t.Parallel()
	for _, left := range []int64{5, 3, 0} {
		h := byHand()
		for i := range 40 {
			h.maybe(i, headgate.Take, 1)
		}
		if err := h.found(100, 101, left).found(102, 103, left).Check(10 * time.Second); err != nil {
			t.Errorf("%d left after 40 takes of unknown outcome: got error %v want none", left, err)
		}
		if err := h.found(104, 105, left+1).Check(10 * time.Second); err == nil {
			t.Errorf("%d, then %d left: got no error want one", left, left+1)
		}
	}
}

func TestUndecidedIsNoVerdict(t *testing.T) {
	t.Parallel()
	h := byHand()
	for i := range int64(60) {
		h.add(0, 1000, Answered, Request{headgate.Peek, noon + headgate.Instant(i), i}, headgate.Decision{Limit: 4})
		h.add(0, 1000, Unknown, Request{headgate.Take, noon + headgate.Instant(i), 1}, headgate.Decision{})
	}
	var v *Violation
	if err := h.Check(time.Millisecond); !errors.Is(err, ErrUndecided) || errors.As(err, &v) {
		t.Errorf("a search that takes too long: got error %.100v want that it is undecided", err)
	}
}

// TestMemoryIsLinearizable records real histories: at one instant, at instants that advance a little, and so far that units come back.
func TestMemoryIsLinearizable(t *testing.T) {
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

// record has 5 clients ask 20 times each, at instants that advance by up to stride.
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
				if o, err := log.Do(context.Background(), client, b, "key", Request{verb, at, 1 + r.Int64N(4)}); o != Answered || err != nil {
					t.Errorf("memory: got outcome %v, error %v want answered", o, err)
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

func TestErrorsSayWhatHappened(t *testing.T) {
	t.Parallel()
	because := func(trouble headgate.StoreErrorReason) error {
		return fmt.Errorf("wrapped: %w", &headgate.StoreError{Store: "s", Reason: trouble, Err: io.EOF})
	}
	for _, c := range []struct {
		name     string
		decision headgate.Decision
		err      error
		want     Outcome
		wrong    bool
	}{
		{"a decision", headgate.Decision{}, nil, Answered, false},
		{"unreachable", headgate.Decision{}, because(headgate.ReasonUnreachable), Never, false},
		{"refused", headgate.Decision{}, because(headgate.ReasonRefused), Never, false},
		{"overloaded", headgate.Decision{}, because(headgate.ReasonOverloaded), Never, false},
		{"breaker open", headgate.Decision{}, because(headgate.ReasonBreakerOpen), Never, false},
		{"timed out", headgate.Decision{}, because(headgate.ReasonTimedOut), Unknown, false},
		{"deadline", headgate.Decision{}, context.DeadlineExceeded, Unknown, false},
		{"cancelled", headgate.Decision{}, context.Canceled, Unknown, false},
		{"degraded, timed out", headgate.Decision{Degraded: headgate.ReasonTimedOut}, nil, Unknown, false},
		{"degraded, unreachable", headgate.Decision{Degraded: headgate.ReasonUnreachable}, nil, Never, false},
		{"wrong type", headgate.Decision{}, because(headgate.ReasonWrongType), Unknown, true},
		{"any error", headgate.Decision{}, io.EOF, Unknown, true},
		{"no trouble", headgate.Decision{}, because(headgate.ReasonNone), Unknown, true},
	} {
		got, wrong := outcomeOf(c.decision, c.err)
		if got != c.want || (wrong != nil) != c.wrong {
			t.Errorf("%s: got outcome %d, error %v want %d, %v", c.name, got, wrong, c.want, c.wrong)
		}
	}
}
