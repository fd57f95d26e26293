package algo_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// key is one key under one limit, with the state that its algorithm stores.
type key struct {
	goStepper
	algorithm algo.Algorithm
	limit     headgate.Limit
}

func newKey(a algo.Algorithm, l headgate.Limit) *key {
	k := &key{algorithm: a}
	k.setLimit(l)
	return k
}

// keyOf returns an unused key under the limit.
func keyOf(t *testing.T, name headgate.Algorithm, limit string) *key {
	t.Helper()
	a, err := algo.Named(name)
	if err != nil {
		t.Fatal(err)
	}
	return newKey(a, headgate.MustParseLimit(limit))
}

func (k *key) setLimit(l headgate.Limit) {
	k.limit = l
	k.bind(k.algorithm, l)
}

func (k *key) clone() *key {
	c := *k
	c.list = algo.Log{}
	for at, units := range k.list.Units {
		c.list.Append(at, units)
	}
	return &c
}

func (k *key) run(s step) headgate.Decision {
	s.room = true
	var r result
	k.do(&s, &r)
	return r.decision
}

func (k *key) take(t, n int64) headgate.Decision   { return k.run(step{verb: take, t: t, n: n}) }
func (k *key) peek(t, n int64) headgate.Decision   { return k.clone().run(step{verb: peek, t: t, n: n}) }
func (k *key) refund(t, n int64) headgate.Decision { return k.run(step{verb: refund, t: t, n: n}) }

func (k *key) allows(t, n int64) bool  { return k.peek(t, n).Allowed }
func (k *key) remaining(t int64) int64 { return k.peek(t, 0).Remaining }

// resetAt returns the instant from which the key is unused, from its state alone.
func (k *key) resetAt(t int64) int64 {
	var r result
	k.clone().do(&step{verb: peek, t: t}, &r)
	return r.resetAt
}

// storedState returns everything that a store would keep of the key.
func (k *key) storedState() string {
	text := fmt.Sprint(k.state)
	for at, units := range k.list.Units {
		text += fmt.Sprint(" ", at, ":", units)
	}
	return text
}

// observed returns everything that a caller can observe of the key at t.
func (k *key) observed(t int64) string {
	most := k.peek(t, 0).Limit
	left := k.remaining(t)
	text := ""
	costs := []int64{0, 1, left, left + 1, most, most + 1}
	slices.Sort(costs)
	for _, n := range slices.Compact(costs) {
		text += fmt.Sprintf("%d: %+v\n", n, k.peek(t, n))
	}
	return text
}

func (k *key) String() string {
	return fmt.Sprintf("%s %v %s", k.algorithm.Name, k.limit, k.storedState())
}

// forEachAlgorithm runs a test for every algorithm that limits a rate.
func forEachAlgorithm(t *testing.T, test func(t *testing.T, a algo.Algorithm)) {
	t.Helper()
	forEachOf(t, algo.Rates(), test)
}

func forEachOf(t *testing.T, algorithms []algo.Algorithm, test func(t *testing.T, a algo.Algorithm)) {
	t.Helper()
	for _, a := range algorithms {
		t.Run(string(a.Name), func(t *testing.T) {
			t.Parallel()
			test(t, a)
		})
	}
}

// forEachStep runs random sequences of all operations on keys. Before each step it calls
// check with a copy of the key and with the time and the cost of the step.
func forEachStep(t *testing.T, stepsPerTest int, check func(t *testing.T, d generator, k *key, now, cost int64)) {
	t.Helper()
	if testing.Short() {
		stepsPerTest = min(stepsPerTest, 2_000)
	}
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		d := newGenerator(*seedFlag, 400)
		for done := 0; done < stepsPerTest && !t.Failed(); {
			k := newKey(a, d.limit(a))
			now := d.instant()
			last := headgate.Decision{Limit: k.limit.Capacity(), Remaining: k.limit.Capacity()}
			for range 20 {
				now = d.after(now, k.limit, last)
				cost := d.cost(last.Limit, last.Remaining)
				check(t, d, k.clone(), now, cost)
				done++
				last = d.move(k, now, cost)
			}
		}
	})
}

// move executes a random request or limit change on the key.
func (d generator) move(k *key, now, cost int64) headgate.Decision {
	switch {
	case d.oneIn(25):
		k.setLimit(d.changed(k.algorithm, k.limit))
		k.refund(now, 1)
		return k.take(now, 1) // allowed after the refund, so it converts the state
	case d.oneIn(8):
		return k.refund(now, cost)
	case canReserve(k.algorithm) && d.oneIn(6):
		return k.run(step{verb: reserve, t: now, n: cost, maxDelay: d.scaled(1, hundredYear)})
	default:
		return k.take(now, cost)
	}
}
