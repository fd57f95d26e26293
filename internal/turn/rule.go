package turn

import (
	"context"
	"time"
)

// Taken describes what one limit took from a request that has left, or that costs less
// than was charged.
type Taken struct {
	Queues     bool          // the limit's algorithm has a queue: it promises instants
	Reserved   bool          // it was taken by a reservation whose turn has not come
	Age        time.Duration // since it was taken
	ResetAfter time.Duration // when it was taken: the wait until the key is unused
}

// Action is what to do with what was taken.
type Action uint8

// The actions.
const (
	Keep   Action = iota // leave it spent
	Cancel               // cancel the reservation; the store refuses if there are later ones
	Refund               // refund it, with the context of [WithSource]
)

// String returns "keep", "cancel" or "refund".
func (a Action) String() string { return [...]string{"keep", "cancel", "refund"}[a] }

// Undo returns what to do with what was taken, so that nothing is granted twice.
//
//   - A reservation is cancelled, not refunded: later ones were promised their instants.
//   - A place in a queue that cannot be cancelled stays taken, for the same reason.
//   - Units that the limit has regained since are kept: a window has ended, or a bucket
//     is full again. A refund would return units that other requests spent since.
//   - All other units are refunded to the store or the local fallback that granted them.
func (t Taken) Undo() Action {
	switch {
	case t.Reserved:
		return Cancel
	case t.Queues, t.Age >= t.ResetAfter:
		return Keep
	default:
		return Refund
	}
}

// Source is where the units of a refund were granted.
type Source uint8

// The sources.
const (
	AnySource      Source = iota // unknown
	StoreSource                  // the store granted them
	FallbackSource               // the local fallback granted them
)

type sourceKey struct{}

// WithSource returns a context for the refund of units that the local fallback granted
// if degraded is set, and the store if not. Package fallback refunds them there or
// nowhere. A store that ignores the context refunds them wherever it decides.
func WithSource(ctx context.Context, degraded bool) context.Context {
	source := StoreSource
	if degraded {
		source = FallbackSource
	}
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceOf returns the source that ctx has.
func SourceOf(ctx context.Context) Source {
	source, _ := ctx.Value(sourceKey{}).(Source)
	return source
}
