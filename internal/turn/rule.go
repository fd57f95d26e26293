package turn

import (
	"context"
	"time"
)

// Taken describes the units that one limit spent for a request. The request has left,
// or costs less than it was charged.
type Taken struct {
	Queues     bool          // true if the algorithm has a queue, so that delays have been promised
	Reserved   bool          // true if the units were reserved and are not yet due
	Age        time.Duration // time since the units were spent
	ResetAfter time.Duration // ResetAfter of the decision that spent the units
}

// Action is what to do with units that were spent but are not needed.
type Action uint8

// The values of [Action].
const (
	Keep   Action = iota // the units stay spent
	Cancel               // cancel the reservation, which has no effect if there is a later one
	Refund               // refund the units, with the context of [WithSource]
)

// String returns “keep”, “cancel” or “refund”.
func (a Action) String() string { return [...]string{"keep", "cancel", "refund"}[a] }

// Undo returns what to do with the units, so that no unit is granted twice:
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

// Source is the store that granted the units of a refund.
type Source uint8

// The values of [Source].
const (
	AnySource      Source = iota // unknown
	StoreSource                  // the inner store granted the units
	FallbackSource               // the local fallback granted the units
)

type sourceKey struct{}

// WithSource returns a context for a refund. The units were granted by the local
// fallback if degraded is true, otherwise by the inner store. Package fallback refunds
// them in that store or not at all. Other stores ignore this value.
func WithSource(ctx context.Context, degraded bool) context.Context {
	source := StoreSource
	if degraded {
		source = FallbackSource
	}
	return context.WithValue(ctx, sourceKey{}, source)
}

// SourceOf returns the source that is set in ctx, or AnySource.
func SourceOf(ctx context.Context) Source {
	source, _ := ctx.Value(sourceKey{}).(Source)
	return source
}
