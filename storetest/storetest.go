// Package storetest judges a [headgate.Store]: whoever writes one runs it in a test of his own.
//
//	func TestStore(t *testing.T) {
//		storetest.Run(t, func(t *testing.T) headgate.Store {
//			return mystore.New(…)
//		})
//	}
//
// Each failure names the rule that was broken. The answers themselves are held against package model, an independent statement
// of the arithmetic in rational numbers, on random limits and traces; a difference is printed as the shortest trace that still
// shows it, with the seed that repeats it.
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

// Options say how long to look, and what the store under test does not claim to do. The zero value of each field is its
// default.
type Options struct {
	// Decisions is how many are compared with the model, over all algorithms together; 0 means 1,000,000. Each rule is tried on
	// 60 random states of a key, and with fewer than 1,500 decisions on one for every 25, but on 12 at least.
	Decisions int
	// Rounds is how often 64 goroutines race for one key, for each algorithm; 0 means 1,000.
	Rounds int
	// Seed repeats the random part of a run; 0 means a new seed, which failures print.
	Seed uint64
	// Lanes is how many traces, and how many looks at a rule, are under way at once, each on names of its own; 0 means 1. A store
	// behind a network answers many callers in the time that it takes to answer one.
	Parallelism int
	// Unsupported lists the algorithms that the store refuses when a rule is bound, with [headgate.ErrUnsupported]. That it
	// refuses them is tested; nothing else about them is.
	Unsupported []headgate.Algorithm
	// NotIsolated is set for a store that charges several keys one after another, and gives back what it took when one denies,
	// as it must where no operation spans the keys: the nodes of a cluster, a store without transactions. Callers at the same
	// time may then be denied for units that are about to be given back, and where they meet some may stay spent. Tested is what
	// is still true: never more is admitted than the limits hold, and never more is given back than was taken. One caller alone
	// sees no difference.
	NonAtomic bool
	// Lives lists what the store under test has left on its server: every key, and how long it still lives, negative if for
	// ever. The suite calls it while no operation is under way. nil means that there is no server: keys are not looked at.
	TTLs func() (map[string]time.Duration, error)
	// Persist takes its life from a key that Lives has listed, as an accident would: the next operation that writes to the key
	// must give it one again. nil means that this is not looked at.
	RemoveTTL func(key string) error
}

// Run judges the stores that open gives, with default options. Every subtest opens one; open closes it with t.Cleanup if it
// needs to be closed. Stores may share a server, also with what an earlier run left there: no two subtests use the same names.
func Run(t *testing.T, open func(t *testing.T) headgate.Store) {
	Options{}.Run(t, open)
}

// Run is [Run] with these options.
func (o Options) Run(t *testing.T, open func(t *testing.T) headgate.Store) {
	o = o.withDefaults()
	for _, c := range checks() {
		t.Run(c.name, func(t *testing.T) {
			if c.judge != nil {
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
	seen, err := o.run(c, a, store)
	if err != nil {
		t.Errorf("%s:\n%v\n(storetest.Options{Seed: %d} repeats this)", c.rule, err, o.Seed)
	} else if seen != "" {
		t.Log(seen)
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

// algorithms are those that the store claims to hold.
func (o Options) algorithms() []headgate.Algorithm {
	var claimed []headgate.Algorithm
	for _, a := range model.Algorithms() {
		if !slices.Contains(o.Unsupported, a) {
			claimed = append(claimed, a)
		}
	}
	return claimed
}

// check is one rule and how it is looked at. Exactly one of judge and each is set; each is called for every algorithm.
type check struct {
	name  string // the subtest's
	rule  string // what is broken when it fails
	judge func(*judge)
	each  func(*judge, headgate.Algorithm)
}

func checks() []check {
	return slices.Concat(answerChecks(), ruleChecks(), keyChecks(), severalChecks(), bookingChecks(), raceChecks(), keptChecks(), lifeChecks())
}

// run looks at one rule on a store of its own, and says what it has seen or how the rule was broken.
func (o Options) run(c check, a headgate.Algorithm, store headgate.Store) (seen string, broken error) {
	j := (&judge{options: o, store: store, prefix: fmt.Sprintf("storetest %x %s %s", o.Seed, c.name, a)}).seeded()
	broken = j.attempt(func(j *judge) {
		if c.judge != nil {
			c.judge(j)
		} else {
			c.each(j, a)
		}
		j.mustAllDie("when all was done")
	})
	return j.seen, broken
}
