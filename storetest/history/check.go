package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"
)

// ErrUndecided is matched by the error of [Log.Check] if the search exceeded its
// timeout. The store may then be right or wrong.
var ErrUndecided = errors.New("history: undecided")

// Check searches, for at most timeout, for an order of the operations that explains
// every decision. If no order explains them, it returns a [*Violation]. If the search
// exceeds timeout, it returns an error that matches [ErrUndecided]. No operation may be
// recorded during the search.
func (l *Log) Check(timeout time.Duration) error {
	c := &checker{machine: newMachine(l.algorithm, l.limit)}
	c.machine.holds = l.hasHolds()
	model := c.model(l.events)
	operations := c.operations(l.events)
	switch porcupine.CheckOperationsTimeout(model, operations, timeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%w after %v: use fewer concurrent operations, or fewer of unknown outcome:\n%v", ErrUndecided, timeout, l)
	default:
		return &Violation{Log: l, Total: len(operations), order: longestExplanation(model, operations, timeout)}
	}
}

// Violation is the error for a history that is not linearizable: no order of its
// operations explains their decisions.
type Violation struct {
	Log   *Log
	Total int // number of operations that an order must explain
	// position of each operation in the longest partial order
	order map[*event]int
}

// Error returns the whole history as text. The operations of the longest partial order
// are numbered.
func (v *Violation) Error() string {
	return fmt.Sprintf("history: no order of these operations explains their decisions; the longest partial order, numbered in the first column, explains %d of %d:\n%s",
		len(v.order), v.Total, v.Log.table(v.order))
}

// longestExplanation returns the position of each operation in the longest order that
// explains a part of the operations.
func longestExplanation(model porcupine.Model, operations []porcupine.Operation, timeout time.Duration) map[*event]int {
	var best []porcupine.Operation
	_, info := porcupine.CheckOperationsVerbose(model, operations, timeout)
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, part := range partition {
			if len(part) > len(best) {
				best = part
			}
		}
	}
	order := make(map[*event]int)
	for i, o := range best {
		order[o.Input.(input).event] = i + 1
	}
	return order
}

// checker is the sequential specification for the search: a machine, and the order in
// which operations of unknown outcome are tried.
type checker struct {
	machine     *machine
	classes     []Request // distinct requests with an unknown outcome
	losesWrites bool      // whether the latest writes may be lost, so that a search must store all past states
}

// state is the state of a search after some operations. Operations of unknown outcome
// with equal requests form a class. They are interchangeable, so it is enough to try
// them in the order of their calls. done is the number of operations of each class that
// have been executed.
type state struct {
	key  int
	past int // number of the set of all past states, if losesWrites is set
	done [maxClasses]uint16
}

// maxClasses is the maximum number of classes. Operations of unknown outcome that
// belong to no class are tried in every order.
const maxClasses = 16

// input is an event in the search. For an operation of unknown outcome, class is the
// number of its class, or −1, and rank is its position in the class.
type input struct {
	event       *event
	class, rank int
}

func (c *checker) model(events []event) porcupine.Model {
	for i := range events {
		c.losesWrites = c.losesWrites || events[i].loss == LatestWrites
	}
	nondeterministic := porcupine.NondeterministicModel{
		Init:  func() []any { return []any{state{}} },
		Step:  func(s, in, _ any) []any { return c.step(s.(state), in.(input)) },
		Equal: func(a, b any) bool { return a.(state) == b.(state) },
		Hash:  func(s any) uint64 { return uint64(s.(state).key)*0x9e3779b97f4a7c15 + uint64(s.(state).past) },
	}
	return nondeterministic.ToModel()
}

// operations returns the events that the search must order: the events that may have been
// executed and may have changed or observed the state. An operation of unknown outcome
// may have been executed at any time after its call.
func (c *checker) operations(events []event) []porcupine.Operation {
	ordered := slices.DeleteFunc(byCall(events), func(e *event) bool {
		return e.loss == NoLoss && (e.outcome == NotExecuted || e.outcome == Unknown && e.request.isPeek())
	})
	operations := make([]porcupine.Operation, len(ordered))
	var ranks [maxClasses]int
	for i, e := range ordered {
		in, end := input{event: e, class: -1}, int64(e.answer)
		if e.loss == NoLoss && e.outcome == Unknown {
			end = math.MaxInt64
			if in.class = c.classOf(e.request); in.class >= 0 {
				in.rank = ranks[in.class]
				ranks[in.class]++
			}
		}
		operations[i] = porcupine.Operation{ClientId: max(0, e.client), Input: in, Call: int64(e.call), Return: end}
	}
	return operations
}

// classOf returns the class of a request, which it creates if necessary, or −1 if there
// are already maxClasses classes.
func (c *checker) classOf(r Request) int {
	if i := slices.Index(c.classes, r); i >= 0 {
		return i
	}
	if len(c.classes) == maxClasses {
		return -1
	}
	c.classes = append(c.classes, r)
	return len(c.classes) - 1
}

// step returns the states that can follow s after the event in. It returns none if the
// recorded decision is not the decision in the state s.
func (c *checker) step(s state, in input) []any {
	switch in.event.loss {
	case LatestWrites:
		return c.afterLoss(s, c.machine.sets[s.past])
	case AllState:
		return c.afterLoss(s, []int{unused})
	}
	if in.class >= 0 {
		if int(s.done[in.class]) != in.rank {
			return nil
		}
		s.done[in.class]++
	}
	done := c.machine.do(s.key, in.event.request)
	if in.event.outcome == Answered && !done.equals(&in.event.answered) {
		return nil
	}
	if c.losesWrites {
		s.past = c.machine.addToSet(s.past, s.key)
	}
	next := make([]any, len(done.next))
	for i, key := range done.next {
		s.key = key
		next[i] = s
	}
	return next
}

// afterLoss returns the states that can follow s when state may have been lost: s
// itself, because nothing may have been lost, and s with each of the remaining key
// states.
func (c *checker) afterLoss(s state, remaining []int) []any {
	next := []any{s}
	for _, key := range remaining {
		if key != s.key {
			n := s
			n.key = key
			next = append(next, n)
		}
	}
	return next
}
