package memcachedstore

import (
	"context"

	"github.com/headgate/headgate"
)

// ListHolds lists the open holds and leases of a key; see [headgate.HoldLister]. It is
// one round trip.
func (b *bound) ListHolds(ctx context.Context, now headgate.Instant, key string, skip, limit int) (headgate.HoldList, error) {
	if !b.canHold {
		return headgate.HoldList{}, errCannotHold()
	}
	q := &listRequest{bound: b, skip: skip, limit: limit}
	j := &job{now: now, peek: true, list: q, done: make(chan struct{})}
	if err := b.store.do(ctx, j, []digest{b.scope.digest(key)}); err != nil {
		return headgate.HoldList{}, err // a round may still write q
	}
	return q.result, nil
}

// listRequest is a request for the holds of one key.
type listRequest struct {
	bound       *bound
	skip, limit int
	result      headgate.HoldList
}

func (q *listRequest) apply(c *cell, t int64) {
	q.result = c.ledger.List(t, q.skip, q.limit, q.bound.log != nil)
}

var _ headgate.HoldLister = (*bound)(nil)
