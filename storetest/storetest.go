// Package storetest tests a [headgate.Store]. Authors of a store run it in a test of
// their own:
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) headgate.Store {
//			return mystore.New(…)
//		})
//	}
//
// Each failure states the rule that was broken. The decisions are compared with package
// model, an independent implementation of the algorithms in rational numbers, on random
// limits and traces. A difference is printed as the shortest trace that still shows it,
// with the seed that reproduces it.
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

// Options sets how long to test, and what the store under test does not support. The
// zero value of each field selects its default.
type Options struct {
	// Decisions is the number of decisions that are compared with the model, over all
	// algorithms together; 0 means 1,000,000. Each rule is tested on 60 random states
	// of a key. With fewer than 1,500 decisions it is tested on one state for every 25,
	// but at least on 12.
	Decisions int
	// Rounds is how often 64 goroutines use one key concurrently, for each algorithm; 0
	// means 1,000.
	Rounds int
	// Seed reproduces the random part of a run; 0 means a new seed. Failures print the
	// seed.
	Seed uint64
	// Parallelism is the number of traces, and of random states for a rule, that are
	// tested concurrently, each with its own names; 0 means 1. A store across a network
	// answers many callers in the time that it takes to answer one.
	Parallelism int
	// Unsupported lists the algorithms for which Bind must return
	// [headgate.ErrUnsupported]. Nothing else is tested for them.
	Unsupported []headgate.Algorithm
	// NonAtomic is set for a store that takes from several keys one after another and
	// refunds if one of them denies, because it has no operation that spans the keys: a
	// cluster, a store without transactions. Concurrent callers may then be denied for
	// units that are about to be refunded, and some units may stay spent. The suite
	// then tests that the store never admits more than the limits, and never refunds
	// more than was taken. A single caller sees no difference.
	NonAtomic bool
	// TTLs lists the keys that the store under test has left on its server, with their
	// TTLs; a negative TTL means that the key never expires. The suite calls it while
	// no operation is in progress. nil means that there is no server, and keys are not
	// inspected.
	TTLs func() (map[string]time.Duration, error)
	// RemoveTTL removes the TTL of a key that TTLs has listed. The next operation that
	// writes to the key must set one again. nil means that this is not tested.
	RemoveTTL func(key string) error
}

// Run tests the stores that open returns, with default options. Every subtest opens one
// store; open must close it with t.Cleanup if it needs to be closed. Stores may share a
// server, even with keys of an earlier run: no two subtests use the same names.
func Run(t *testing.T, open func(t *testing.T) headgate.Store) {
	Options{}.Run(t, open)
}

// Run is like the function [Run], with these options.
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

// check is one rule and its test. Exactly one of once and perAlgorithm is set;
// perAlgorithm is called for every algorithm.
type check struct {
	name         string // of the subtest
	rule         string // printed if the test fails
	once         func(*tester)
	perAlgorithm func(*tester, headgate.Algorithm)
}

func checks() []check {
	return slices.Concat(modelChecks(), ruleChecks(), keyChecks(), multiChecks(), reservationChecks(), concurrencyChecks(), ttlChecks(), lifecycleChecks())
}

// run tests one rule on its own store. It returns a summary, or an error that describes
// how the rule was broken.
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
