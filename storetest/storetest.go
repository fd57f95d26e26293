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
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/headgate/headgate"
)

// Options say how long to look, and what the store under test does not claim to do. The zero value of each field is its
// default.
type Options struct {
	// Decisions is how many are compared with the model, over all algorithms together; 0 means 1,000,000.
	Decisions int
	// Rounds is how often 64 goroutines race for one key, for each algorithm; 0 means 1,000.
	Rounds int
	// Seed repeats the random part of a run; 0 means a new seed, which failures print.
	Seed uint64
	// Unsupported lists the algorithms that the store refuses when a rule is bound, with [headgate.ErrUnsupported]. That it
	// refuses them is tested; nothing else about them is.
	Unsupported []headgate.Algorithm
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
	if o.Decisions == 0 {
		o.Decisions = 1_000_000
	}
	if o.Rounds == 0 {
		o.Rounds = 1_000
	}
	for o.Seed == 0 {
		o.Seed = rand.Uint64()
	}
	return o
}

// modelled are the algorithms that the suite knows, each under the name that it is asked for by.
var modelled = []headgate.Algorithm{
	headgate.TokenBucket,
	headgate.TokenBucketInterval,
	headgate.FixedWindow,
	headgate.SlidingLog,
	headgate.SlidingWindow,
	headgate.LeakyBucket,
}

// books are the algorithms that can promise what is still to come.
var books = []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval, headgate.LeakyBucket}

// algorithms are those that the store claims to hold.
func (o Options) algorithms() []headgate.Algorithm {
	var claimed []headgate.Algorithm
	for _, a := range modelled {
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
	return slices.Concat(answerChecks(), ruleChecks(), keyChecks(), severalChecks(), bookingChecks(), raceChecks(), lifeChecks())
}

// run looks at one rule on a store of its own, and says what it has seen or how the rule was broken.
func (o Options) run(c check, a headgate.Algorithm, store headgate.Store) (seen string, broken error) {
	j := &judge{
		options: o,
		store:   store,
		prefix:  fmt.Sprintf("storetest %x %s %s", o.Seed, c.name, a),
	}
	j.random = rand.New(rand.NewPCG(o.Seed, crc64.Checksum([]byte(j.prefix), crc64.MakeTable(crc64.ISO))))
	defer func() {
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				panic(v)
			}
			broken = f.error
		}
	}()
	if c.judge != nil {
		c.judge(j)
	} else {
		c.each(j, a)
	}
	return j.seen, nil
}
