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

// site is a store with a switch that breaks it, and a way to break it that it should not have.
type site struct {
	*memstore.Store
	mistake mistake
	state   atomic.Int32
	strikes atomic.Int64
	life    atomic.Int64   // which one it is: each begins with nothing
	late    sync.WaitGroup // operations that run when their callers are gone
}

// What can be wrong with the site.
const (
	fine    = iota
	down    // nobody is connected
	mute    // what was asked is done, and the answer lost
	stopped // what was asked is done once all is well again, when the caller has long gone
)

// mistake is what a store could do wrong under a fault.
type mistake string

const (
	none         mistake = ""
	losesUpdates mistake = "an answered take is not kept"
	chargesTwice mistake = "what may have been done is sent again"
	lies         mistake = "a lost reply is called unreachable"
	answersStale mistake = "answers come from before the fault"
	forgets      mistake = "the fault makes every key new"
	admitsAll    mistake = "everything is admitted"
	staysAway    mistake = "the store does not come back"
	isVague      mistake = "errors do not say what has happened"
	blocks       mistake = "a call outlives its deadline"
	notices      mistake = "a fault that nobody may notice is noticed"
	unfelt       mistake = "the fault does not strike"
)

func (s *site) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return &siteBound{Bound: b, site: s}, err
}

type siteBound struct {
	headgate.Bound
	site *site
	old  sync.Map // by verb, the latest decision
}

func because(t headgate.StoreErrorReason) error {
	return &headgate.StoreError{Store: "site", Reason: t}
}

func (b *siteBound) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	key = fmt.Sprint(key, " in life ", b.site.life.Load())
	do := func(v headgate.Verb) (headgate.Decision, error) { return b.Bound.Apply(ctx, now, key, v, cost) }
	if state := b.site.state.Load(); state != fine {
		return b.broken(ctx, state, v, do)
	}
	if b.site.mistake == staysAway && b.site.strikes.Load() > 0 {
		return headgate.Decision{}, because(headgate.ReasonBreakerOpen)
	}
	d, err := do(v)
	b.old.Store(v, d)
	return d, err
}

// broken is Apply while the site is, with its mistake.
func (b *siteBound) broken(ctx context.Context, state int32, v headgate.Verb, do func(headgate.Verb) (headgate.Decision, error)) (headgate.Decision, error) {
	switch b.site.mistake {
	case losesUpdates:
		d, err := do(v)
		if v == headgate.Take && d.Allowed {
			_, err = do(headgate.Refund)
		}
		return d, err
	case answersStale:
		if d, found := b.old.Load(v); found {
			return d.(headgate.Decision), nil
		}
	case admitsAll:
		d, err := do(v)
		d.Allowed, d.RetryAfter = true, 0
		return d, err
	case isVague:
		return headgate.Decision{}, errors.New("connection reset")
	case blocks:
		time.Sleep(700 * time.Millisecond)
	case unfelt:
		return do(v)
	}
	switch state {
	case mute:
		return b.muted(v, do)
	case stopped:
		b.site.late.Go(func() {
			for b.site.state.Load() != fine {
				time.Sleep(time.Millisecond)
			}
			do(v)
		})
		<-ctx.Done()
		return headgate.Decision{}, because(headgate.ReasonTimedOut)
	}
	return headgate.Decision{}, because(headgate.ReasonUnreachable)
}

func (b *siteBound) muted(v headgate.Verb, do func(headgate.Verb) (headgate.Decision, error)) (headgate.Decision, error) {
	do(v)
	switch b.site.mistake {
	case chargesTwice:
		return do(v)
	case lies:
		return headgate.Decision{}, because(headgate.ReasonUnreachable)
	}
	return headgate.Decision{}, because(headgate.ReasonTimedOut)
}

// judge makes a short run of one fault on a site with a mistake.
func judge(t *testing.T, m mistake, state int32, f Fault) (*run, error) {
	s := &site{Store: memstore.New(nil), mistake: m}
	t.Cleanup(func() {
		s.late.Wait()
		s.Store.Close()
	})
	f.Hold, f.Back = 20*time.Millisecond, 300*time.Millisecond
	f.Strike = func(context.Context) error {
		s.strikes.Add(1)
		s.state.Store(state)
		if m == forgets || f.Loses == history.Everything {
			s.life.Add(1)
		}
		return nil
	}
	f.Heal = func(context.Context) error {
		s.state.Store(fine)
		return nil
	}
	suite := Suite{Histories: 60, Keys: 30, Deadline: 10 * time.Millisecond}.withDefaults()
	if m == blocks {
		suite.Grace = 500 * time.Millisecond
	}
	r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{s, s}, check: (*history.Log).Check}
	return r, r.all()
}

func TestWhatAFaultDoesIsExplained(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		state int32
		fault Fault
	}{
		{"down", down, Fault{Felt: true}},
		{"mute", mute, Fault{Felt: true}},
		{"stopped", stopped, Fault{Felt: true}},
		{"lost", fine, Fault{Quiet: true, Loses: history.Everything}},
		{"lost and down", down, Fault{Felt: true, Loses: history.Newest}},
		{"nothing", fine, Fault{Quiet: true}},
	} {
		r, err := judge(t, none, c.state, c.fault)
		if err != nil {
			t.Errorf("%s: got error %v want none", c.name, err)
		}
		if r.histories != 60 || r.strikes != 2 || r.counts.Answered < 60*4*8 {
			t.Errorf("%s: got %+v want 60 histories, 2 strikes and at least 8 answers to each of 4 clients", c.name, r)
		}
	}
}

func TestMistakesUnderAFaultAreCaught(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		mistake mistake
		state   int32
		fault   Fault
		want    string // in the error
	}{
		{losesUpdates, down, Fault{}, "no order"},
		{chargesTwice, mute, Fault{}, "no order"},
		{lies, mute, Fault{}, "no order"},
		{answersStale, down, Fault{}, "no order"},
		{forgets, fine, Fault{}, "no order"},
		{admitsAll, down, Fault{}, "no order"},
		{staysAway, down, Fault{}, "not answered"},
		{isVague, down, Fault{}, "says nothing of whether units were spent"},
		{blocks, down, Fault{}, "with a deadline of"},
		{notices, down, Fault{Quiet: true}, "nobody may notice"},
		{unfelt, down, Fault{Felt: true}, "did not strike"},
	} {
		if _, err := judge(t, c.mistake, c.state, c.fault); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got error %.300v want one that holds %q", c.mistake, err, c.want)
		}
	}
}

// A history that is not decided in time says nothing about the store: another one is recorded in its place.
func TestUndecidedHistoriesAreRepeated(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		undecided, of, histories int64
		want                     string // in the error; empty for none
	}{
		{0, 1, 10, ""},
		{1, 2, 20, ""},
		{9, 10, 30, ""}, // no more are tried
		{1, 1, 30, "none of 30 histories was decided"},
	} {
		store := memstore.New(nil)
		f := Fault{Strike: func(context.Context) error { return nil }, Hold: 1}
		suite := Suite{Histories: 10, Keys: 10, Clients: 1}.withDefaults()
		var checked atomic.Int64
		r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{store}, check: func(*history.Log, time.Duration) error {
			if checked.Add(1)%c.of < c.undecided {
				return history.ErrUndecided
			}
			return nil
		}}
		if err := r.all(); int64(r.histories) != c.histories || (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%d of %d undecided: got %d histories, error %v, want %d, %q", c.undecided, c.of, r.histories, err, c.histories, c.want)
		}
		store.Close()
	}
}

func TestStrikesThatFailAreTold(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	defer store.Close()
	fails := func(context.Context) error { return errors.New("no such server") }
	works := func(context.Context) error { return nil }
	for name, f := range map[string]Fault{"strike": {Strike: fails}, "heal": {Strike: works, Heal: fails, Hold: 1}} {
		suite := Suite{Histories: 1}.withDefaults()
		r := &run{suite: suite, fault: f.withDefaults(suite), stores: []headgate.Store{store}}
		if err := r.all(); err == nil || !strings.Contains(err.Error(), name+": no such server") {
			t.Errorf("%s fails: got error %v want it told", name, err)
		}
	}
}

func TestSuiteRuns(t *testing.T) {
	t.Parallel()
	Suite{Histories: 20, Keys: 10, TakesOnly: true, Open: func(t *testing.T) headgate.Store {
		return memstore.New(nil)
	}, Processes: 1}.Run(t, Fault{Name: "nothing", Strike: func(context.Context) error { return nil }, Quiet: true, Hold: time.Millisecond})
}
