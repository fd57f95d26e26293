package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// machine is the model of a key, with every state that was met under a number, and every step from it done only once: a search
// comes by the same ones again and again. It is not for concurrent use.
type machine struct {
	algorithm  headgate.Algorithm
	limit      headgate.Limit
	numbers    map[string]int
	keys       []*model.Key
	steps      map[step]result
	setNumbers map[string]int
	sets       [][]int // of each trail, in order
}

type step struct {
	state   int
	request Request
}

// result is what a request is answered in a state, and the states that may be left. What is as if never used at the request's
// instant may have been dropped, or not; and where nothing is there to be given back, nothing need be written. An operation at an
// earlier instant, which comes later, sees the difference.
type result struct {
	decision headgate.Decision
	next     []int
}

// unused is the number of the state that a key begins in.
const unused = 0

func newMachine(a headgate.Algorithm, l headgate.Limit) *machine {
	m := &machine{algorithm: a, limit: l, numbers: make(map[string]int), steps: make(map[step]result), setNumbers: make(map[string]int)}
	m.number(model.NewKey(a))
	m.setNumber(nil)
	return m
}

func (m *machine) number(k *model.Key) int {
	text := k.Text()
	n, known := m.numbers[text]
	if !known {
		n = len(m.keys)
		m.numbers[text] = n
		m.keys = append(m.keys, k)
	}
	return n
}

// do is one step, from what is known or from the model.
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
	k, t := m.keys[state].Clone(), int64(r.At)
	var d headgate.Decision
	switch r.Verb {
	case headgate.Take:
		d = k.Take(m.limit, t, r.Cost)
	case headgate.Peek:
		d = k.Peek(m.limit, t, r.Cost)
	case headgate.Refund:
		d = k.Refund(m.limit, t, r.Cost)
	default:
		d = k.Reset(m.limit, t)
	}
	next := []int{m.number(k)}
	if k.Unused(m.limit, t) && next[0] != unused {
		next = append(next, unused)
	}
	if r.Verb == headgate.Refund && m.keys[state].Unused(m.limit, t) && !slices.Contains(next, state) {
		next = append(next, state)
	}
	return result{d, next}
}

// trail is the number of a set of states.
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

// extended is the trail with one more state.
func (m *machine) addToSet(trail, state int) int {
	i, found := slices.BinarySearch(m.sets[trail], state)
	if found {
		return trail
	}
	return m.setNumber(slices.Insert(slices.Clone(m.sets[trail]), i, state))
}
