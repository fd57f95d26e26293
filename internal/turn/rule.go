package turn

import "time"

// Taken describes what one limit took from a request that has left, or that costs less than was charged.
type Taken struct {
	Queues     bool          // the limit's algorithm has a queue: it promises instants to the requests in it
	Booked     bool          // it was taken by a reservation, and its turn has not come
	Degraded   bool          // the store was unavailable: the limit's failure mode decided
	Age        time.Duration // since it was taken
	ResetAfter time.Duration // when it was taken: the wait until the key is unused, if nobody spends
}

// Action is what to do with it.
type Action uint8

// The actions.
const (
	Keep                Action = iota // leave it spent
	Cancel                            // cancel the reservation: the store refuses if there are later ones
	Refund                            // refund it
	RefundIfUnavailable               // refund it only if the store is still unavailable
)

// Action returns what to do with what was taken, so that nothing is granted twice.
//
//   - A reservation is cancelled, not refunded: later ones were promised their instants.
//   - A place in a queue that cannot be cancelled stays taken, for the same reason.
//   - What the limit has regained since is kept: a window has ended, or a bucket is full again. A refund would return what other
//     requests spent since.
//   - What the failure mode granted is unknown to the store, so it is refunded only where it was taken.
func (t Taken) Action() Action {
	switch {
	case t.Booked:
		return Cancel
	case t.Queues, t.Age >= t.ResetAfter:
		return Keep
	case t.Degraded:
		return RefundIfUnavailable
	default:
		return Refund
	}
}
