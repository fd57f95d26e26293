// Package storetest tests implementations of [headgate.Store]. The author of a store
// calls it in a test of the store:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) headgate.Store {
//			return mystore.New(…)
//		})
//	}
//
// Every failure states the rule that was broken. On random limits and traces, the
// decisions of the store are compared with those of package model, an independent
// implementation of the algorithms in rational numbers. If a decision differs, the
// suite shortens the trace as long as the difference remains, and prints the short trace
// and the seed that reproduces it.
package storetest

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// Options determine how long the tests take, and what the store under test does not
// support. A field with the zero value has the default given in its comment.
type Options struct {
	// Decisions is the number of decisions that are compared with the model, over all
	// algorithms together; 0 means 1,000,000. Each rule is also tested on Decisions /
	// 25 random states of a key, but on at least 12 and at most 60 states.
	Decisions int
	// Rounds is the number of times that 64 goroutines use one key concurrently, for
	// each algorithm; 0 means 1,000.
	Rounds int
	// Seed is the seed of all random numbers; the same seed gives the same random
	// limits and traces. 0 means a new random seed. Failures print the seed.
	Seed uint64
	// Parallelism is the number of traces, and of random states for a rule, that are
	// tested concurrently, each with separate names; 0 means 1. A larger number saves
	// time with a store on a network, because concurrent requests share the latency.
	Parallelism int
	// Unsupported lists the algorithms that the store does not support: Bind must
	// return [headgate.ErrUnsupported] for them. No other check uses them.
	Unsupported []headgate.Algorithm
	// WithoutHolds lists the algorithms that have no holds in the store: an attempt to
	// hold must return [headgate.ErrUnsupported].
	WithoutHolds []headgate.Algorithm
	// NonAtomic is set for a store that takes units of several keys one key after
	// another, and refunds them if one key denies, because it has no operation that
	// spans keys: for example a cluster, or a store without transactions. A concurrent
	// request may then be denied because of units that are about to be refunded, and
	// some units may stay spent. The suite then tests only that the store never admits
	// more than the limits, and never refunds more than was taken. For requests that
	// are not concurrent, all checks stay the same.
	NonAtomic bool
	// TTLs returns the keys that the store under test has on its server, with their
	// TTLs. A negative TTL means that the key never expires. The suite calls TTLs only
	// while no operation is in progress. nil means that the store has no server; keys
	// and TTLs are then not tested.
	TTLs func() (map[string]time.Duration, error)
	// RemoveTTL removes the TTL of a key that TTLs has returned. The suite then
	// requires that the next operation that writes to the key sets a TTL. nil means
	// that this is not tested.
	RemoveTTL func(key string) error
}

// Run tests the stores that open returns, with default options. Every subtest calls
// open for a new store. If the store must be closed, open must do so with t.Cleanup.
// The stores may share a server, which may contain keys of an earlier test run: no two
// subtests use the same names.
func Run(t *testing.T, open func(t *testing.T) headgate.Store) {
	Options{}.Run(t, open)
}

// Run is like the function [Run], but with the options o.
func (o Options) Run(t *testing.T, open func(t *testing.T) headgate.Store) {
	o = o.withDefaults()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if c.once != nil {
				o.report(t, c, "", open(t))
				return
			}
			for _, a := range o.algorithms() {
				t.Run(string(a), func(t *testing.T) { o.report(t, c, a, open(t)) })
			}
		})
	}
}

func (o Options) report(t *testing.T, c check, a headgate.Algorithm, store headgate.Store) {
	t.Helper()
	summary, err := o.run(c, a, store)
	if err != nil {
		t.Errorf("%s:\n%v\n(storetest.Options{Seed: %d} reproduces this failure)", c.rule, err, o.Seed)
	} else if summary != "" {
		t.Log(summary)
	}
}

func (o Options) withDefaults() Options {
	o.Decisions = cmp.Or(o.Decisions, 1_000_000)
	o.Parallelism = max(1, o.Parallelism)
	o.Rounds = cmp.Or(o.Rounds, 1_000)
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o
}

// algorithms returns the algorithms that the store supports.
func (o Options) algorithms() []headgate.Algorithm {
	var claimed []headgate.Algorithm
	for _, a := range model.Algorithms() {
		if !slices.Contains(o.Unsupported, a) {
			claimed = append(claimed, a)
		}
	}
	return claimed
}

// check is one rule and its test. Exactly one of the fields once and perAlgorithm is
// set. once is called once, perAlgorithm is called for every algorithm.
type check struct {
	name         string // name of the subtest
	rule         string // the rule as text, printed if the test fails
	once         func(*tester)
	perAlgorithm func(*tester, headgate.Algorithm)
}

func checks() []check {
	return slices.Concat(modelChecks(), ruleChecks(), keyChecks(), multiChecks(), reservationChecks(), holdChecks(), leaseChecks(), slotChecks(), concurrencyChecks(), ttlChecks(), lifecycleChecks(), documentChecks())
}

// run tests the rule of c on the given store. It returns a summary, or an error that
// describes how the store broke the rule. a is empty unless c is per algorithm.
func (o Options) run(c check, a headgate.Algorithm, store headgate.Store) (summary string, err error) {
	ts := (&tester{options: o, store: store, prefix: fmt.Sprintf("storetest %x %s %s", o.Seed, c.name, a)}).withRandom()
	err = ts.catch(func(ts *tester) {
		if c.once != nil {
			c.once(ts)
		} else {
			c.perAlgorithm(ts, a)
		}
		ts.mustAllHaveTTL("at the end of the test")
	})
	return ts.summary, err
}
