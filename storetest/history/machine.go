package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// machine computes the states of one key with package model. It numbers all states that
// occur and caches all steps, because a search repeats the same steps. It must not be
// used concurrently.
type machine struct {
	algorithm  headgate.Algorithm
	limit      headgate.Limit
	holds      bool // whether there are operations of holds
	numbers    map[string]int
	keys       []*heldKey
	steps      map[step]result
	setNumbers map[string]int // the number of each set of states
	sets       [][]int        // each set of states by its number, sorted
}

type step struct {
	state   int
	request Request
}

// result is the decision on a request in a state, and the states that may follow. There
// can be several: a store may or may not have dropped a state that has recovered at the
// request's instant, and it need not write anything for a refund if no units are spent.
// A later operation at an earlier instant observes the difference.
type result struct {
	answered
	next []int
}

// unused is the number of the state of an unused key, which is the initial state.
const unused = 0

func newMachine(a headgate.Algorithm, l headgate.Limit) *machine {
	m := &machine{algorithm: a, limit: l, numbers: make(map[string]int), steps: make(map[step]result), setNumbers: make(map[string]int)}
	m.number(&heldKey{Holds: model.NewHolds(a)})
	m.setNumber(nil)
	return m
}

func (m *machine) number(k *heldKey) int {
	text := k.text(m.holds)
	n, known := m.numbers[text]
	if !known {
		n = len(m.keys)
		m.numbers[text] = n
		m.keys = append(m.keys, k)
	}
	return n
}

// do returns the result of the request r in a state, from the cache or the model.
func (m *machine) do(state int, r Request) result {
	s := step{state, r}
	done, known := m.steps[s]
	if !known {
		done = m.compute(state, r)
		m.steps[s] = done
	}
	return done
}

func (m *machine) compute(state int, r Request) result {
	k, l := m.keys[state].clone(), m.limit
	if r.Limit != (headgate.Limit{}) {
		l = r.Limit
	}
	if m.holds {
		done := k.do(l, r)
		return result{done, []int{m.number(k)}}
	}
	t := int64(r.At)
	var done answered
	if r.isHold() { // a debit
		done = k.doHold(l, t, r)
	} else {
		done.decision = apply(k.Key, l, r)
	}
	next := []int{m.number(k)}
	if k.Key.Unused(l, t) && next[0] != unused {
		next = append(next, unused)
	}
	if r.Verb == headgate.Refund && m.keys[state].Key.Unused(l, t) && !slices.Contains(next, state) {
		next = append(next, state)
	}
	return result{done, next}
}

// apply executes a request that is not one of holds.
func apply(k *model.Key, l headgate.Limit, r Request) headgate.Decision {
	t := int64(r.At)
	switch r.Verb {
	case headgate.Take:
		return k.Take(l, t, r.Cost)
	case headgate.Peek:
		return k.Peek(l, t, r.Cost)
	case headgate.Refund:
		return k.Refund(l, t, r.Cost)
	default:
		return k.Reset(l, t)
	}
}

// setNumber returns the number that identifies a set of states. A new set gets the next
// number. states must be sorted.
func (m *machine) setNumber(states []int) int {
	text := strings.Trim(fmt.Sprint(states), "[]")
	n, known := m.setNumbers[text]
	if !known {
		n = len(m.sets)
		m.setNumbers[text] = n
		m.sets = append(m.sets, states)
	}
	return n
}

// addToSet returns the number of the set that contains the states of the given set and
// one more state.
func (m *machine) addToSet(set, state int) int {
	i, found := slices.BinarySearch(m.sets[set], state)
	if found {
		return set
	}
	return m.setNumber(slices.Insert(slices.Clone(m.sets[set]), i, state))
}
