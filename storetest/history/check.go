package history

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/headgate/headgate"
)

// ErrUndecided is matched by the error of [Log.Check] if the search took too long. It
// does not mean that the store is wrong.
var ErrUndecided = errors.New("history: undecided")

// Check searches for an order of the operations that explains every decision, for at
// most timeout. It returns a [Violation] if no order does, and an error that
// matches [ErrUndecided] if the search timed out. No operation may be recorded during
// the search.
func (l *Log) Check(timeout time.Duration) error {
	c := &checker{machine: newMachine(l.algorithm, l.limit)}
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

// Violation is a history that no order of its operations explains.
type Violation struct {
	Log   *Log
	Total int // operations to explain
	// position of each operation in the longest partial explanation
	order map[*event]int
}

// Error returns the whole history with the order that explains most of it.
func (v *Violation) Error() string {
	return fmt.Sprintf("history: no order of these operations explains their decisions; the longest partial order, numbered in the first column, explains %d of %d:\n%s",
		len(v.order), v.Total, v.Log.table(v.order))
}

// longestExplanation returns the order of the longest partial explanation.
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

// checker is the sequential specification: a machine, and the order of unknown
// operations.
type checker struct {
	machine     *machine
	classes     []Request // distinct requests of unknown outcome
	losesWrites bool      // the latest writes may be lost, so a search needs past states
}

// state is a position of a search. Unknown operations with the same request are
// interchangeable: it is enough to try them in the order of their calls. done is the
// number of operations of each class that have been executed.
type state struct {
	key  int
	past int // the set of earlier states, if losesWrites
	done [maxClasses]uint16
}

// maxClasses is the maximum number of distinct unknown requests. Further ones are
// searched in every order.
const maxClasses = 16

// input is an event in the search. class and rank are set for an unknown outcome.
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

// operations returns the events that may have been executed. An unknown operation may
// have been executed at any time after its call.
func (c *checker) operations(events []event) []porcupine.Operation {
	ordered := slices.DeleteFunc(byCall(events), func(e *event) bool {
		return e.loss == NoLoss && (e.outcome == NotExecuted || e.outcome == Unknown && e.request.Verb == headgate.Peek)
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

// classOf returns the class of a request, or −1 if there are too many.
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

// step returns the possible next states, or none if the decision does not fit.
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
	if in.event.outcome == Answered && !equalDecisions(done.decision, in.event.decision) {
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

// afterLoss returns the unchanged state and the states that may remain after a loss.
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
