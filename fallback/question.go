package fallback

import (
	"context"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// question is a request to the inner store: for one key or for several. It is passed by
// value, so that a decided call does not allocate.
type storeCall struct {
	bound headgate.Bound
	key   string
	store headgate.Store // used with ops; nil if bound is used
	ops   []headgate.Op
}

// kept returns a copy that does not share memory with the caller.
func (q storeCall) clone() storeCall {
	q.key, q.ops = strings.Clone(q.key), slices.Clone(q.ops)
	for i := range q.ops {
		q.ops[i].Key, q.ops[i].Cost = strings.Clone(q.ops[i].Key), 0
	}
	return q
}

// peek repeats the request without changing anything. If several keys failed together,
// any of them may be the cause, so it peeks at all of them.
func (q storeCall) peek(ctx context.Context) error {
	if q.store != nil {
		return q.store.ApplyAll(ctx, headgate.StoreClock, q.ops, true, make([]headgate.Decision, len(q.ops)))
	}
	_, err := q.bound.Apply(ctx, headgate.StoreClock, q.key, headgate.Peek, 0)
	return err
}
