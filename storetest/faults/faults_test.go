package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/storetest/history"
)

// faultyStore is a store on which faults can be injected. Its mistake makes it behave
// wrongly during a fault.
type faultyStore struct {
	*memstore.Store
	mistake    mistake
	state      atomic.Int32
	injections atomic.Int64
	generation atomic.Int64 // part of every key: incrementing it loses all state
	// late are operations that run after their callers have returned.
	late sync.WaitGroup
}

// The states of a faultyStore.
const (
	healthy     = iota
	unreachable // no operation reaches the store
	repliesLost // operations are executed, but replies are lost
	// delayed operations are executed after the recovery, when their callers have
	// returned.
	delayed
)

// mistake is a bug that a store could have under a fault.
type mistake string

const (
	none               mistake = ""
	losesUpdates       mistake = "an answered take is lost"
	chargesTwice       mistake = "an operation that may have been executed is retried"
	wrongReason        mistake = "a lost reply is reported as unreachable"
	answersStale       mistake = "decisions are stale"
	forgets            mistake = "the fault resets every key"
	allowsAll          mistake = "every request is allowed"
	staysUnavailable   mistake = "the store does not recover"
	untypedErrors      mistake = "errors do not show whether units were spent"
	blocks             mistake = "a call exceeds its deadline"
	visibleFault       mistake = "a transparent fault is visible"
	faultWithoutEffect mistake = "the fault has no effect"
)

func (s *faultyStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &faultyBound{Bound: b, store: s}, err
}

type faultyBound struct {
	headgate.Bound
	store  *faultyStore
	latest sync.Map // by verb, the latest decision
}

func storeError(t headgate.StoreErrorReason) error {
	return &headgate.StoreError{Store: "site", Reason: t}
}

func (b *faultyBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	key = fmt.Sprint(key, " in generation ", b.store.generation.Load())
	do := func(v headgate.Verb) (headgate.Decision, error) { return b.Bound.Apply(ctx, now, key, v, cost) }
	if state := b.store.state.Load(); state != healthy {
		return b.applyDuringFault(ctx, state, v, do)
	}
	if b.store.mistake == staysUnavailable && b.store.injections.Load() > 0 {
		return headgate.Decision{}, storeError(headgate.ReasonBreakerOpen)
	}
	d, err := do(v)
	b.latest.Store(v, d)
	return d, err
}

// applyDuringFault is Apply during a fault, with the store's mistake.
func (b *faultyBound) applyDuringFault(ctx context.Context, state int32, v headgate.Verb, do func(headgate.Verb) (headgate.Decision, error)) (headgate.Decision, error) {
	switch b.store.mistake {
	case losesUpdates:
		d, err := do(v)
		if v == headgate.Take && d.Allowed {
			_, err = do(headgate.Refund)
		}
		return d, err
	case answersStale:
		if d, found := b.latest.Load(v); found {
			return d.(headgate.Decision), nil
		}
	case allowsAll:
		d, err := do(v)
		d.Allowed, d.RetryAfter = true, 0
		return d, err
	case untypedErrors:
		return headgate.Decision{}, errors.New("connection reset")
	case blocks:
		time.Sleep(700 * time.Millisecond)
	case faultWithoutEffect:
		return do(v)
	}
	switch state {
	case repliesLost:
		return b.applyAndLoseReply(v, do)
	case delayed:
		b.store.late.Go(func() {
			for b.store.state.Load() != healthy {
				time.Sleep(time.Millisecond)
			}
			do(v)
		})
		<-ctx.Done()
		return headgate.Decision{}, storeError(headgate.ReasonTimedOut)
	}
	return headgate.Decision{}, storeError(headgate.ReasonUnreachable)
}

func (b *faultyBound) applyAndLoseReply(v headgate.Verb, do func(headgate.Verb) (headgate.Decision, error)) (headgate.Decision, error) {
	do(v)
	switch b.store.mistake {
	case chargesTwice:
		return do(v)
	case wrongReason:
		return headgate.Decision{}, storeError(headgate.ReasonUnreachable)
	}
	return headgate.Decision{}, storeError(headgate.ReasonTimedOut)
}

// ApplyHolds executes one operation of holds. Its mistakes are those after which an
// operation is executed twice, or reported as not executed.
func (s *faultyStore) ApplyHolds(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, ttl time.Duration, ops []headgate.HoldOp, results []headgate.HoldResult,
) (headgate.Instant, error) {
	op := ops[0]
	op.Bound, op.Key = op.Bound.(*faultyBound).Bound, fmt.Sprint(op.Key, " in generation ", s.generation.Load())
	do := func() (headgate.Instant, error) {
		return s.Store.ApplyHolds(ctx, now, verb, ttl, []headgate.HoldOp{op}, results)
	}
	switch s.state.Load() {
	case healthy:
		return do()
	case unreachable:
		return 0, storeError(headgate.ReasonUnreachable)
	}
	if _, err := do(); err != nil {
		return 0, err
	}
	switch s.mistake {
	case chargesTwice: // under another id
		op.ID[1]++
		return do()
	case wrongReason:
		return 0, storeError(headgate.ReasonUnreachable)
	}
	return 0, storeError(headgate.ReasonTimedOut)
}

// runShort makes a short run of one fault on a store with a mistake.
func runShort(t *testing.T, m mistake, state int32, f Fault, holds bool) (*run, error) {
	s := &faultyStore{Store: memstore.New(nil), mistake: m}
	t.Cleanup(func() {
		s.late.Wait()
		s.Store.Close()
	})
	f.Duration, f.RecoverWithin = 20*time.Millisecond, 300*time.Millisecond
	f.Inject = func(context.Context) error {
		s.injections.Add(1)
		s.state.Store(state)
		if m == forgets || f.MayLose == history.AllState {
			s.generation.Add(1)
		}
		return nil
	}
	f.Recover = func(context.Context) error {
		s.state.Store(healthy)
		return nil
	}
	suite := Suite{Histories: 60, Keys: 30, Deadline: 10 * time.Millisecond, Holds: holds}.withDefaults()
	if m == blocks {
		suite.Grace = 500 * time.Millisecond
	}
	r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{s, s}, check: (*history.Log).Check}
	return r, r.runAll()
}

func TestRunPassesForCorrectStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		state int32
		fault Fault
		holds bool
	}{
		{"down", unreachable, Fault{MustFail: true}, false},
		{"mute", repliesLost, Fault{MustFail: true}, false},
		{"stopped", delayed, Fault{MustFail: true}, false},
		{"lost", healthy, Fault{Transparent: true, MayLose: history.AllState}, false},
		{"lost and down", unreachable, Fault{MustFail: true, MayLose: history.LatestWrites}, false},
		{"nothing", healthy, Fault{Transparent: true}, false},
		{"down, with holds", unreachable, Fault{MustFail: true}, true},
		{"mute, with holds", repliesLost, Fault{MustFail: true}, true},
		{"lost, with holds", healthy, Fault{Transparent: true, MayLose: history.AllState}, true},
	} {
		r, err := runShort(t, none, c.state, c.fault, c.holds)
		if err != nil {
			t.Errorf("%s: got error %v want none", c.name, err)
		}
		if r.histories != 60 || r.rounds != 2 || r.counts.Answered < 60*4*8 {
			t.Errorf("%s: got %+v want 60 histories, 2 injections and at least 8 answers to each of 4 clients", c.name, r)
		}
	}
}

func TestRunDetectsMistakes(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mistake mistake
		state   int32
		fault   Fault
		holds   bool
		want    string // in the error
	}{
		{losesUpdates, unreachable, Fault{}, false, "no order"},
		{chargesTwice, repliesLost, Fault{}, false, "no order"},
		{wrongReason, repliesLost, Fault{}, false, "no order"},
		{answersStale, unreachable, Fault{}, false, "no order"},
		{forgets, healthy, Fault{}, false, "no order"},
		{allowsAll, unreachable, Fault{}, false, "no order"},
		{staysUnavailable, unreachable, Fault{}, false, "no answer"},
		{untypedErrors, unreachable, Fault{}, false, "does not show whether units were spent"},
		{blocks, unreachable, Fault{}, false, "with a deadline of"},
		{visibleFault, unreachable, Fault{Transparent: true}, false, "transparent fault"},
		{chargesTwice, repliesLost, Fault{}, true, "no order"},
		{wrongReason, repliesLost, Fault{}, true, "no order"},
		{forgets, healthy, Fault{}, true, "no order"},
		{faultWithoutEffect, unreachable, Fault{MustFail: true}, false, "had no effect"},
	} {
		if _, err := runShort(t, c.mistake, c.state, c.fault, c.holds); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %.300v want one that contains %q", c.mistake, err, c.want)
		}
	}
}

// TestRunRepeatsUndecidedHistories checks that another history is recorded for each one
// that was not decided in time.
func TestRunRepeatsUndecidedHistories(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		undecided, of, histories int64
		want                     string // in the error; empty for none
	}{
		{0, 1, 10, ""},
		{1, 2, 20, ""},
		{2, 3, 30, ""},
		{9, 10, 30, "3 of 30 histories were decided, want 10"}, // the maximum number of histories
		{1, 1, 30, "0 of 30 histories were decided, want 10"},
	} {
		store := memstore.New(nil)
		f := Fault{Inject: func(context.Context) error { return nil }, Duration: 1}
		suite := Suite{Histories: 10, Keys: 10, Clients: 1}.withDefaults()
		var checked atomic.Int64
		r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{store}, check: func(*history.Log, time.Duration) error {
			if checked.Add(1)%c.of < c.undecided {
				return history.ErrUndecided
			}
			return nil
		}}
		if err := r.runAll(); int64(r.histories) != c.histories || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d undecided: got %d histories, error %v, want %d, %q", c.undecided, c.of, r.histories, err, c.histories, c.want)
		}
		store.Close()
	}
}

func TestRunReportsInjectAndRecoverErrors(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	fails := func(context.Context) error { return errors.New("no such server") }
	works := func(context.Context) error { return nil }
	for name, f := range map[string]Fault{"inject": {Inject: fails}, "recover": {Inject: works, Recover: fails, Duration: 1}} {
		suite := Suite{Histories: 1}.withDefaults()
		r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{store}}
		if err := r.runAll(); err == nil || !strings.Contains(err.Error(), name+": no such server") {
			t.Errorf("%s fails: got error %v want it reported", name, err)
		}
	}
}

func TestSuiteRun(t *testing.T) {
	t.Parallel()
	Suite{Histories: 20, Keys: 10, TakesOnly: true, Open: func(t *testing.T) headgate.Store {
		return memstore.New(nil)
	}, Processes: 1}.Run(t, Fault{Name: "nothing", Inject: func(context.Context) error { return nil }, Transparent: true, Duration: time.Millisecond})
}
