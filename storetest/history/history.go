// Package history decides whether what many clients were told about one key can be explained by operations that happened one
// after another: whether the key was linearizable.
//
// Each operation carries the instant at which it is to be decided, so that the answer is known to the microsecond, whatever the
// order turns out to be. All instants of a history lie within one window: a store need not, but may, forget what has aged out at
// one of them, and operations at an earlier one would see whether it has. Of some operations the outcome stays unknown: a lost reply does not say whether the server ran what it
// was sent, and it may run it much later. The search for an order is [porcupine]'s, the answers are package model's.
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

// Log is what the clients of one key asked and were told. Its methods may be called concurrently.
type Log struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
	start     time.Time

	mu     sync.Mutex
	events []event
	counts Counts
}

// Counts say how the operations of a log, or of several, came out.
type Counts struct {
	Answered int // the store decided
	Unknown  int // it may or may not have happened
	Failed   int // it did not happen
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
	At   headgate.Instant // of its own: not headgate.StoreClock
	Cost int64
}

// Loss is what a fault may make a store forget, by its design.
type Loss int

// What may be forgotten.
const (
	NoLoss       Loss = iota
	LatestWrites      // the latest writes, as when a replica takes over that had not heard of them
	AllState          // the key's state
)

// Outcome is what is known of an operation.
type Outcome int

// The outcomes.
const (
	Answered    Outcome = iota // it happened, once, between its call and its return
	Unknown                    // it happened once, at any time after its call, or never
	NotExecuted                // it did not happen
)

// event is an operation of a client, or a loss.
type event struct {
	client       int
	request      Request
	loss         Loss // an operation if Nothing
	outcome      Outcome
	decision     headgate.Decision
	err          error
	call, answer time.Duration // since the log began
}

// New is an empty log of a key that was never used, under one limit.
func New(a headgate.Algorithm, l headgate.Limit) *Log {
	return &Log{algorithm: a, limit: l, start: time.Now()}
}

// Do has b do r on key and notes how it came out. It returns what is wrong with the error itself, if so: one that says nothing of
// what has happened. Client is any number that tells it from others.
func (l *Log) Do(ctx context.Context, client int, b headgate.Bound, key string, r Request) (Outcome, error) {
	e := event{client: client, request: r, call: time.Since(l.start)}
	d, err := b.Apply(ctx, r.At, key, r.Verb, r.Cost)
	e.answer, e.decision, e.err = time.Since(l.start), d, err
	outcome, wrong := outcomeOf(d, err)
	e.outcome = outcome
	l.record(e)
	return outcome, wrong
}

// Lose notes that the store may have lost so much, once, between the two times.
func (l *Log) RecordLoss(loss Loss, from, to time.Time) {
	if loss != NoLoss {
		l.record(event{client: -1, loss: loss, call: from.Sub(l.start), answer: to.Sub(l.start)})
	}
}

// Counts are those so far.
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

// outcomeOf sorts an answer. A store's error must say by its trouble whether anything was spent; one that is over its deadline may
// give the context's own error, which says nothing of it.
func outcomeOf(d headgate.Decision, err error) (Outcome, error) {
	trouble := d.Degraded
	var known *headgate.StoreError
	switch {
	case err == nil && trouble == headgate.ReasonNone:
		return Answered, nil
	case errors.As(err, &known):
		trouble = known.Reason
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		trouble = headgate.ReasonTimedOut
	case err != nil:
		return Unknown, fmt.Errorf("error %w (%T) says nothing of whether units were spent: want a headgate.StoreError", err, err)
	}
	switch trouble {
	case headgate.ReasonTimedOut:
		return Unknown, nil
	case headgate.ReasonUnreachable, headgate.ReasonRefused, headgate.ReasonOverloaded, headgate.ReasonBreakerOpen:
		return NotExecuted, nil
	default:
		return Unknown, fmt.Errorf("trouble %q with a key that nobody else writes: %w", trouble, err)
	}
}

// String is the log as a table, in the order in which operations were called.
func (l *Log) String() string { return l.table(nil) }

// table numbers the operations that have a place in order.
func (l *Log) table(order map[*event]int) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %v, %d operations\n", l.algorithm, l.limit, len(l.events))
	for _, e := range byCall(l.events) {
		place := ""
		if n, placed := order[e]; placed {
			place = fmt.Sprint(n)
		}
		fmt.Fprintf(&b, "\t%4s %v\n", place, e)
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

// String is one line of a table.
func (e *event) String() string {
	span := fmt.Sprintf("%9d…%d µs", e.call.Microseconds(), e.answer.Microseconds())
	if e.loss != NoLoss {
		return span + [...]string{"", " the newest writes may be lost", " the state may be lost"}[e.loss]
	}
	text := fmt.Sprintf("%s client %d: %s %d at %d: ", span, e.client, e.request.Verb, e.request.Cost, e.request.At)
	switch e.outcome {
	case Unknown:
		return fmt.Sprintf("%sunknown: %v", text, e.err)
	case NotExecuted:
		return fmt.Sprintf("%sdid not happen: %v", text, e.err)
	default:
		return text + formatDecision(e.decision)
	}
}

// show writes a decision on one line, waits in µs.
func formatDecision(d headgate.Decision) string {
	return fmt.Sprintf("allowed=%v never=%v remaining=%d of %d retry_after=%d reset_after=%d delay=%d", d.Allowed, d.Never, d.Remaining,
		d.Limit, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(), d.Delay.Microseconds())
}

// same compares what decisions say; which limit denied is not asked of one limit alone.
func equalDecisions(a, b headgate.Decision) bool {
	return a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay
}
