// Package faults tests a store while its server is killed, stopped, disconnected or
// moved. The author of the test defines how each fault is injected. While the fault
// occurs, many clients use many keys through several stores, which represent several
// processes. For every key, package history then checks whether the decisions can be
// explained. A fault declares which state the store may lose; any other loss is a
// failure.
package faults

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/history"
	"github.com/headgate/headgate/storetest/model"
)

// Fault is one kind of failure, which the test injects repeatedly.
type Fault struct {
	// Name is the name of the subtest.
	Name string
	// Inject starts the fault and returns when the fault has taken effect. It is called
	// repeatedly; before each further call, the fault has ended.
	Inject func(ctx context.Context) error
	// Duration is how long the fault lasts while clients send requests; 0 means 100 ms.
	Duration time.Duration
	// Recover ends the fault and returns when the server has recovered. nil means that
	// the server recovers automatically.
	Recover func(ctx context.Context) error
	// RecoverWithin is the maximum time from the return of Recover until every client
	// gets an answer again; 0 means 15 s, which is enough on a busy machine.
	RecoverWithin time.Duration
	// Deadline is the deadline of each operation under this fault; 0 means
	// Suite.Deadline.
	Deadline time.Duration
	// MayLose is the state that the store may lose, once for each injection and key, at
	// some time between the call of Inject and the return of Recover.
	MayLose history.Loss
	// Transparent is set for a fault that must not affect clients: every operation must
	// be answered.
	Transparent bool
	// MustFail is set for a fault under which at least one operation must fail or have
	// an unknown outcome. If all operations are answered, the test fails, because the
	// fault had no effect.
	MustFail bool
}

// Suite is the configuration of the test. Open is required. Any other field with the
// zero value has the default given in its comment.
type Suite struct {
	// Open returns a new store that uses the servers on which the faults occur, as a
	// further process would. It must close the store with t.Cleanup.
	Open func(t *testing.T) headgate.Store
	// Processes is the number of stores that are opened for each fault; 0 means 2.
	Processes int
	// Histories is the number of keys whose histories are checked under each fault; 0
	// means 500.
	Histories int
	// Keys is the number of keys that are in use during one injection of a fault; 0
	// means 50.
	Keys int
	// Clients is the number of clients of each key; 0 means 4.
	Clients int
	// Deadline is the deadline of each operation; 0 means 100 ms.
	Deadline time.Duration
	// Grace is how long after its deadline an operation may still return; 0 means 10 s,
	// which is enough on a busy machine.
	Grace time.Duration
	// Algorithms lists the algorithms, which are assigned to the keys in turn; nil
	// means all.
	Algorithms []headgate.Algorithm
	// TakesOnly is set for a store that caches denials. Clients then do not refund or
	// reset units, because the caches of other processes would not observe it.
	TakesOnly bool
	// Holds makes clients open, commit and extend holds, debit units and take up to a
	// number of them. All operations on a key are at one instant. The stores must be
	// [headgate.HoldStore]s.
	Holds bool
	// Overrides makes the clients of a key use three limits in turn, as instances do that
	// have different overrides of it for a while. All operations on a key are at one
	// instant.
	Overrides bool
	// Bans makes clients ban a key with a debit that puts a large bucket into debt for 10
	// s, and end the bans with resets, while others take units. The stores must be
	// [headgate.HoldStore]s.
	Bans bool
	// NoResets is set for a store on which a reset during a commit can leave the record
	// of the hold, so that the commit is answered as replayed. Clients then reset no key
	// in histories with holds.
	NoResets bool
	// Seed is the seed of the requests; the same seed gives the same requests, but not
	// the same timing. 0 means a new random seed. Failures print the seed.
	Seed uint64
}

// ban is the limit of a bucket that requests do not empty, and banUnits is a debit that
// denies every request for 10 s.
var ban = headgate.MustParseLimit("1000000000/s burst 10000000")

const banUnits = int64(10*time.Second) + 10_000_000 - 1

// Run tests the store under each of the given faults, in one subtest for each.
func (s Suite) Run(t *testing.T, faults ...Fault) {
	s = s.withDefaults()
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			r := &run{suite: s, fault: f.withDefaults(s), check: (*history.Log).Check}
			for range s.Processes {
				r.stores = append(r.stores, s.Open(t))
			}
			if err := r.runAll(); err != nil {
				t.Fatalf("%v\n(faults.Suite{Seed: %d} repeats the requests)", err, s.Seed)
			}
			t.Log(r)
		})
	}
}

func (s Suite) withDefaults() Suite {
	s.Processes = orDefault(s.Processes, 2)
	s.Histories = orDefault(s.Histories, 500)
	s.Keys = min(orDefault(s.Keys, 50), s.Histories)
	s.Clients = orDefault(s.Clients, 4)
	s.Deadline = orDefault(s.Deadline, 100*time.Millisecond)
	s.Grace = orDefault(s.Grace, 10*time.Second)
	for s.Seed == 0 {
		s.Seed = rand.Uint64()
	}
	if s.Algorithms == nil {
		s.Algorithms = model.Algorithms()
	}
	if s.Bans {
		s.Algorithms = []headgate.Algorithm{headgate.TokenBucket}
	}
	if s.Holds {
		s.Algorithms = slices.DeleteFunc(append(s.Algorithms, headgate.Concurrency), func(a headgate.Algorithm) bool { return !a.CanHold() })
	}
	return s
}

func (f Fault) withDefaults(s Suite) Fault {
	f.Deadline = orDefault(f.Deadline, s.Deadline)
	f.Duration = orDefault(f.Duration, 100*time.Millisecond)
	f.RecoverWithin = orDefault(f.RecoverWithin, 15*time.Second)
	return f
}

// orDefault returns v, or byDefault if v is zero.
func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}
