// Package history checks whether the decisions that many clients received for one key
// can be explained by operations that were executed one after another. This means that
// the key is linearizable.
//
// Every operation has an explicit instant, so that for every order the expected
// decisions are known to the microsecond. All instants of a history are within one
// window. A store may drop units that have expired at one instant, and an operation at
// an earlier instant would observe that. An operation can have an unknown outcome: if
// the reply is lost, the client cannot know whether the server executed the request,
// and the server may execute it much later. [porcupine] searches for an order, and
// package model computes the decisions.
//
// [porcupine]: https://github.com/anishathalye/porcupine
package history

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// Log records the operations of all clients of one key. Its methods may be called
// concurrently.
type Log struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
	start     time.Time

	mu     sync.Mutex
	events []event
	counts Counts
}

// Counts are the numbers of operations with each outcome, in one or several logs.
type Counts struct {
	Answered int // number of operations that the store decided
	Unknown  int // number of operations that may or may not have been executed
	Failed   int // number of operations that were not executed
}

// Add adds other to c.
func (c *Counts) Add(other Counts) {
	c.Answered += other.Answered
	c.Unknown += other.Unknown
	c.Failed += other.Failed
}

// Request is an operation on the key.
type Request struct {
	Verb headgate.Verb
	At   headgate.Instant // explicit instant; must not be headgate.StoreClock
	Cost int64
	Hold Hold // an operation of holds, which takes the place of Verb
	// Limit is the limit of the operation, whose Bound must have it; zero means that of
	// the log. In a history with several limits, all instants must be equal: a store may
	// drop a state that has recovered under the last limit.
	Limit headgate.Limit
}

// Loss is the state that a store may, by design, lose during a fault.
type Loss int

// The kinds of loss.
const (
	NoLoss Loss = iota
	// LatestWrites are the last writes before the fault. They can be lost, for example,
	// if a replica takes over that has not received them.
	LatestWrites
	AllState // AllState is the whole state of the key.
)

// Outcome is how an operation ended, as far as the client can know.
type Outcome int

// The outcomes of an operation.
const (
	Answered    Outcome = iota // executed once, between its call and its return
	Unknown                    // executed once, at any time after its call, or never
	NotExecuted                // never executed
)

// event is an operation of a client, or a possible loss of state.
type event struct {
	client  int
	request Request
	loss    Loss // NoLoss if the event is an operation
	outcome Outcome
	answered
	err          error
	call, answer time.Duration // times of the call and the return, since the start of the log
}

// New returns an empty log for an unused key under the limit l of the algorithm a.
func New(a headgate.Algorithm, l headgate.Limit) *Log {
	return &Log{algorithm: a, limit: l, start: time.Now()}
}

// Do executes the request r for key on b, and records the outcome. client is a number
// that identifies the caller. Do returns an error if the store's error does not show
// whether units were spent, because a store must report that.
func (l *Log) Do(ctx context.Context, client int, b headgate.Bound, key string, r Request) (Outcome, error) {
	return l.do(client, r, func() (answered, error) {
		d, err := b.Apply(ctx, r.At, key, r.Verb, r.Cost)
		return answered{decision: d}, err
	})
}

// do records the outcome of an operation.
func (l *Log) do(client int, r Request, operate func() (answered, error)) (Outcome, error) {
	e := event{client: client, request: r, call: time.Since(l.start)}
	e.answered, e.err = operate()
	e.answer = time.Since(l.start)
	outcome, err := outcomeOf(e.decision, e.err)
	e.outcome = outcome
	l.record(e)
	return outcome, err
}

// RecordLoss records that the store may have lost state once, at some time from from to
// to.
func (l *Log) RecordLoss(loss Loss, from, to time.Time) {
	if loss != NoLoss {
		l.record(event{client: -1, loss: loss, call: from.Sub(l.start), answer: to.Sub(l.start)})
	}
}

// Counts returns the number of recorded operations with each outcome.
func (l *Log) Counts() Counts {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.counts
}

func (l *Log) record(e event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, e)
	switch {
	case e.loss != NoLoss:
	case e.outcome == Answered:
		l.counts.Answered++
	case e.outcome == Unknown:
		l.counts.Unknown++
	default:
		l.counts.Failed++
	}
}

// outcomeOf classifies the result of an operation. An error of a store must show, by
// its reason, whether units were spent; if not, outcomeOf returns an error. The
// exception is the error of a context that ended, which a store may return as it is;
// the outcome is then Unknown.
func outcomeOf(d headgate.Decision, err error) (Outcome, error) {
	reason := d.Degraded
	var known *headgate.StoreError
	switch {
	case err == nil && reason == headgate.ReasonNone:
		return Answered, nil
	case errors.As(err, &known):
		reason = known.Reason
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		reason = headgate.ReasonTimedOut
	case err != nil:
		return Unknown, fmt.Errorf("error %w (%T) does not show whether units were spent: want a headgate.StoreError", err, err)
	}
	switch reason {
	case headgate.ReasonTimedOut:
		return Unknown, nil
	case headgate.ReasonUnreachable, headgate.ReasonRefused, headgate.ReasonOverloaded, headgate.ReasonBreakerOpen:
		return NotExecuted, nil
	default:
		return Unknown, fmt.Errorf("unexpected reason %q for a key that only this test writes: %w", reason, err)
	}
}

// String returns the log as a table, in the order of the calls.
func (l *Log) String() string { return l.table(nil) }

// table returns the log as a table whose first column is the position of each operation
// in order, if it has one.
func (l *Log) table(order map[*event]int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v, %d operations\n", l.algorithm, l.limit, len(l.events))
	for _, e := range byCall(l.events) {
		position := ""
		if n, found := order[e]; found {
			position = fmt.Sprint(n)
		}
		fmt.Fprintf(&b, "\t%4s %v\n", position, e)
	}
	return b.String()
}

func byCall(events []event) []*event {
	ordered := make([]*event, len(events))
	for i := range events {
		ordered[i] = &events[i]
	}
	slices.SortStableFunc(ordered, func(a, b *event) int { return int(a.call - b.call) })
	return ordered
}

// String returns the event as one line of the table.
func (e *event) String() string {
	span := fmt.Sprintf("%9d…%d µs", e.call.Microseconds(), e.answer.Microseconds())
	if e.loss != NoLoss {
		return span + [...]string{"", " the newest writes may be lost", " the state may be lost"}[e.loss]
	}
	under := ""
	if e.request.Limit != (headgate.Limit{}) {
		under = " under " + e.request.Limit.String()
	}
	text := fmt.Sprintf("%s client %d: %s %d at %d%s: ", span, e.client, e.request.name(), e.request.Cost, e.request.At, under)
	switch e.outcome {
	case Unknown:
		return fmt.Sprintf("%sunknown: %v", text, e.err)
	case NotExecuted:
		return fmt.Sprintf("%snot executed: %v", text, e.err)
	default:
		return text + formatDecision(e.decision) + e.holdText()
	}
}

// formatDecision returns a decision as one line of text, with waits in µs.
func formatDecision(d headgate.Decision) string {
	return fmt.Sprintf("allowed=%v never=%v remaining=%d of %d retry_after=%d reset_after=%d delay=%d", d.Allowed, d.Never, d.Remaining,
		d.Limit, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds())
}

// equalDecisions reports whether two decisions are equal. It ignores DeniedBy, because
// a history has only one limit.
func equalDecisions(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay
}
