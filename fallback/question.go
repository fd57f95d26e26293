package fallback

import (
	"context"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// storeCall is a request to the inner store, for one key or for several keys. It is
// passed by value, so that a call that succeeds does not allocate.
type storeCall struct {
	bound headgate.Bound
	key   string
	store headgate.Store // store of ops; nil if bound is used
	ops   []headgate.Op
}

// clone returns a copy that shares no memory with the caller's strings and slices.
func (q storeCall) clone() storeCall {
	q.key, q.ops = strings.Clone(q.key), slices.Clone(q.ops)
	for i := range q.ops {
		q.ops[i].Key, q.ops[i].Cost = strings.Clone(q.ops[i].Key), 0
	}
	return q
}

// peek repeats the request as a peek, which changes nothing. If the request has several
// keys, peek includes all of them, because any of them may have caused the failure.
func (q storeCall) peek(ctx context.Context) error {
	if q.store != nil {
		return q.store.ApplyAll(ctx, headgate.StoreClock, q.ops, true, make([]headgate.Decision, len(q.ops)))
	}
	_, err := q.bound.Apply(ctx, headgate.StoreClock, q.key, headgate.Peek, 0)
	return err
}
