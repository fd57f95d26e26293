package history

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// hold adds an operation of holds with its answer. The decision is that of a peek that
// found so many units left.
func (h testLog) hold(from, to int, v headgate.HoldVerb, cost, left int64, a answered) testLog {
	a.decision = headgate.Decision{Allowed: true, Limit: 5, Remaining: left, ResetAfter: time.Hour}
	if left == 5 {
		a.decision.ResetAfter = 0
	}
	h.record(event{request: holdRequest(v, cost), answered: a, call: time.Duration(from), answer: time.Duration(to)})
	return h
}

func holdRequest(v headgate.HoldVerb, cost int64) Request {
	return Request{At: noon, Cost: cost, Hold: Hold{1, v}}
}

func (h testLog) unknownHold(from int, v headgate.HoldVerb, cost int64) testLog {
	return h.add(from, from+1, Unknown, holdRequest(v, cost), headgate.Decision{})
}

func TestCheckHandWrittenHistoriesWithHolds(t *testing.T) {
	t.Parallel()
	const open, commit, extend = headgate.OpenHold, headgate.CommitHold, headgate.ExtendHold
	done, replayed := answered{}, answered{replayed: true}
	unknown, conflict := answered{holdErr: headgate.ErrUnknownHold}, answered{holdErr: headgate.ErrHoldConflict}
	held := func() testLog { return newTestLog().hold(0, 1, open, 3, 2, done) }
	ended := func() testLog { return held().hold(2, 3, commit, 1, 4, done) }
	for _, c := range []struct {
		name string
		log  testLog
		fits bool
	}{
		{"commit of less", ended(), true},
		{"commit of less that refunds nothing", held().hold(2, 3, commit, 1, 2, done), false},
		{"commit of more", held().hold(2, 3, commit, 4, 1, done), true},
		{"commit twice", ended().hold(4, 5, commit, 0, 4, replayed), true},
		{"commit executed twice", ended().hold(4, 5, commit, 1, 5, replayed), false},
		{"commit twice, not replayed", ended().hold(4, 5, commit, 1, 4, done), false},
		{"hold twice", held().hold(2, 3, open, 3, 2, replayed), true},
		{"hold charged twice", held().hold(2, 3, open, 3, -1, done), false},
		{"hold after its commit", ended().hold(4, 5, open, 3, 4, replayed), true},
		{"hold after its commit, charged again", ended().hold(4, 5, open, 3, 1, done), false},
		{"hold with other units", held().hold(2, 3, open, 2, 0, conflict), true},
		{"hold with other units after its commit", ended().hold(4, 5, open, 1, 0, conflict), true},
		{"hold with other units, replayed", held().hold(2, 3, open, 2, 2, replayed), false},
		{"extension", held().hold(2, 3, extend, 0, 2, done), true},
		{"extension after the commit", ended().hold(4, 5, extend, 0, 4, unknown), true},
		{"extension after the commit, found", ended().hold(4, 5, extend, 0, 4, done), false},
		{"commit before the hold", newTestLog().hold(0, 1, commit, 0, 5, unknown).hold(2, 3, open, 3, 2, done), true},
		{"commit before the hold, replayed", newTestLog().hold(0, 9, commit, 0, 5, replayed).hold(2, 3, open, 3, 2, done), false},
		{"debit and take up to", newTestLog().hold(0, 1, headgate.Debit, 3, 2, done).hold(2, 3, headgate.TakeUpTo, 4, 0, answered{granted: 2}), true},
		{"take up to, too much", newTestLog().hold(0, 1, headgate.Debit, 3, 2, done).hold(2, 3, headgate.TakeUpTo, 4, 0, answered{granted: 4}), false},
		{"unknown hold, executed", newTestLog().unknownHold(0, open, 3).hold(4, 5, commit, 1, 4, done), true},
		{"unknown hold, not executed", newTestLog().unknownHold(0, open, 3).hold(4, 5, commit, 1, 5, unknown), true},
		{"unknown hold, repeated", newTestLog().unknownHold(0, open, 3).hold(4, 5, open, 3, 2, replayed), true},
		{"unknown hold, charged twice", newTestLog().unknownHold(0, open, 2).hold(4, 5, open, 2, 1, done), false},
		{"unknown commit, executed", held().unknownHold(2, commit, 0).hold(5, 6, commit, 0, 5, replayed), true},
		{"unknown commit, refunded twice", held().take(2, 3, 1).unknownHold(4, commit, 0).hold(7, 8, commit, 0, 5, done), false},
		{"hold lost in a restart", held().lose(AllState, 2, 3).hold(4, 5, commit, 1, 5, unknown), true},
		{"record lost without a fault", ended().hold(4, 5, commit, 1, 4, unknown), false},
	} {
		if err := c.log.Check(10 * time.Second); (err == nil) != c.fits {
			t.Errorf("%s: got error %v want none: %v", c.name, err, c.fits)
		}
	}
}

func TestHoldsInMemstoreAreLinearizable(t *testing.T) {
	t.Parallel()
	histories := 100
	if testing.Short() {
		histories = 5
	}
	store := memstore.New(nil)
	for _, a := range algorithms {
		if !a.CanHold() {
			continue
		}
		t.Run(string(a), func(t *testing.T) {
			t.Parallel()
			for seed := range histories {
				if err := recordHolds(t, store, a, uint64(seed)).Check(20 * time.Second); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// recordHolds lets 4 clients execute 12 operations each, most of them on 4 holds.
func recordHolds(t *testing.T, store *memstore.Store, a headgate.Algorithm, seed uint64) *Log {
	t.Helper()
	limit := headgate.MustParseLimit("12/1h")
	b, err := store.Bind(headgate.Rule{Scope: fmt.Sprint(t.Name(), seed), Limit: limit, Algorithm: a})
	if err != nil {
		t.Fatal(err)
	}
	log := New(a, limit)
	var all sync.WaitGroup
	for client := range 4 {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		all.Go(func() {
			for range 12 {
				id := byte(1 + r.IntN(4))
				request := Request{At: noon, Cost: int64(id), Hold: Hold{id, headgate.HoldVerb(r.IntN(5))}}
				o, err := log.DoHold(context.Background(), client, store, b, "key", request)
				if r.IntN(4) == 0 && err == nil {
					plain := []Request{{At: noon, Cost: 1}, {At: noon, Cost: 2, Verb: headgate.Refund}, {At: noon, Verb: headgate.Reset}}[r.IntN(3)]
					o, err = log.Do(context.Background(), client, b, "key", plain)
				}
				if o != Answered || err != nil {
					t.Errorf("got outcome %v, error %v want answered", o, err)
				}
			}
		})
	}
	all.Wait()
	return log
}
