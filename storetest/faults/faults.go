// Package faults judges a store while what it stands on breaks: its server is killed, stopped, cut off or moved elsewhere. Whoever
// can start such servers says how each fault is made, and this package does the rest: many clients in several processes' worth of
// stores ask for many keys, the fault strikes in their midst, and package history decides for every key whether the answers can be
// explained. What a fault may make a store forget is said beforehand, and nothing else is forgiven.
package faults

import (
	"context"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/history"
	"github.com/headgate/headgate/storetest/model"
)

// Fault is one way in which things break.
type Fault struct {
	// Name is that of the subtest.
	Name string
	// Strike breaks things, and returns once they are broken. It is called again and again, each time after Heal.
	Inject func(ctx context.Context) error
	// Hold is how long they stay so, with clients asking; 0 means 100 ms.
	Duration time.Duration
	// Heal puts things right and returns once they are, as far as the server goes; nil if they come right by themselves.
	Recover func(ctx context.Context) error
	// Back is how soon after Heal every client must be answered again; 0 means 15 s, for a machine that has much else to do.
	RecoverWithin time.Duration
	// Deadline is each operation's under this fault; 0 means the suite's.
	Deadline time.Duration
	// Loses is what the store may forget, once for each strike and key, at some moment between Strike and the end of Heal.
	MayLose history.Loss
	// Quiet is set for a fault that no client may notice: every operation must be answered.
	Transparent bool
	// Felt is set for a fault that some clients must notice, or it did not strike.
	MustFail bool
}

// Suite says how to look. The zero value of each field but Open is its default.
type Suite struct {
	// Open gives a store over the servers that the faults break, as one more process would have it. It closes it with t.Cleanup.
	Open func(t *testing.T) headgate.Store
	// Processes is how many stores are opened for each fault; 0 means 2.
	Processes int
	// Histories is how many keys have their history judged under each fault; 0 means 500.
	Histories int
	// Keys is how many histories each strike is part of; 0 means 50.
	Keys int
	// Clients is how many ask for each key; 0 means 4.
	Clients int
	// Deadline is each operation's; 0 means 100 ms.
	Deadline time.Duration
	// Grace is how much later than its deadline an operation may return; 0 means 10 s, for a machine that has much else to do.
	Grace time.Duration
	// Algorithms are those of the keys, in turn; nil means all.
	Algorithms []headgate.Algorithm
	// TakesOnly is for stores that remember denials: nothing is given back, which another process's memory could not know of.
	TakesOnly bool
	// Seed repeats what clients ask for, though not when; 0 means a new one, which failures print.
	Seed uint64
}

// Run judges the store under one fault after another.
func (s Suite) Run(t *testing.T, faults ...Fault) {
	s = s.withDefaults()
	for _, f := range faults {
		t.Run(f.Name, func(t *testing.T) {
			r := &run{suite: s, fault: f.withDefaults(s), check: (*history.Log).Check}
			for range s.Processes {
				r.stores = append(r.stores, s.Open(t))
			}
			if err := r.runAll(); err != nil {
				t.Fatalf("%v\n(faults.Suite{Seed: %d} asks for the same)", err, s.Seed)
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
	return s
}

func (f Fault) withDefaults(s Suite) Fault {
	f.Deadline = orDefault(f.Deadline, s.Deadline)
	f.Duration = orDefault(f.Duration, 100*time.Millisecond)
	f.RecoverWithin = orDefault(f.RecoverWithin, 15*time.Second)
	return f
}

// or is v, or what it defaults to.
func orDefault[T comparable](v, byDefault T) T {
	var zero T
	if v == zero {
		return byDefault
	}
	return v
}
