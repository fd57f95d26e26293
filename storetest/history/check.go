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

// ErrUndecided is what an error of [Log.Check] matches if the search took too long. It is no verdict about the store.
var ErrUndecided = errors.New("history: undecided")

// Check looks for an order of the operations that explains every answer, for at most so long, and says that there is none, or that
// none was found in time. Nobody may write to the log meanwhile.
func (l *Log) Check(timeout time.Duration) error {
	c := &checker{machine: newMachine(l.algorithm, l.limit)}
	model := c.model(l.events)
	operations := c.operations(l.events)
	switch porcupine.CheckOperationsTimeout(model, operations, timeout) {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("%w after %v: fewer operations at once, or fewer of unknown outcome, are decided sooner:\n%v", ErrUndecided, timeout, l)
	default:
		return &Violation{Log: l, Total: len(operations), order: longestExplanation(model, operations, timeout)}
	}
}

// Violation is a history that no order of its operations explains.
type Violation struct {
	Log   *Log
	Total int            // how many operations there are to explain
	order map[*event]int // the place of each operation that the longest explanation found has
}

// Error is the whole history, with the order in which most of it can be explained.
func (v *Violation) Error() string {
	return fmt.Sprintf("history: no order of these operations gives these answers; the best, by the numbers in front, explains %d of %d:\n%s",
		len(v.order), v.Total, v.Log.table(v.order))
}

// longest is the order of the longest explanation of a part of the operations.
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

// checker is the sequential specification: a machine, and the order of what is unknown.
type checker struct {
	machine     *machine
	classes     []Request // of operations whose outcome is unknown
	losesWrites bool      // the newest writes may be lost at some time: the states that were are kept in mind
}

// state is where a search stands. Operations of unknown outcome that ask for the same are alike: whichever was called first may as
// well have happened first, so no other order of them is tried, and done says how many of each class have happened.
type state struct {
	key  int
	past int // the states before, if they matter
	done [maxClasses]uint16
}

// maxClasses is of how many kinds operations of unknown outcome may be before some are searched in every order.
const maxClasses = 16

// input is an event to the search. Class and rank are those of an unknown outcome.
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

// operations are the events that may have happened, an unknown one at any time from its call on.
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

// classOf is the number of a kind of request, or −1 if there are too many.
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

// step gives the states that may follow; none if the answer does not fit.
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

// lost gives the state as it is, and what it may have become.
func (c *checker) afterLoss(s state, became []int) []any {
	next := []any{s}
	for _, key := range became {
		if key != s.key {
			n := s
			n.key = key
			next = append(next, n)
		}
	}
	return next
}
