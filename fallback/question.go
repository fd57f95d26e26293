package fallback

import (
	"context"
	"slices"
	"strings"

	"github.com/headgate/headgate"
)

// question is what the inner store was asked for: one key, or several at once. It is passed by value, so that a call which is
// decided allocates nothing for it.
type question struct {
	bound headgate.Bound
	key   string
	store headgate.Store // asked for ops; nil if bound was asked
	ops   []headgate.Op
}

// kept is a copy that holds nothing of the caller's.
func (q question) kept() question {
	q.key, q.ops = strings.Clone(q.key), slices.Clone(q.ops)
	for i := range q.ops {
		q.ops[i].Key, q.ops[i].Cost = strings.Clone(q.ops[i].Key), 0
	}
	return q
}

// peek asks again, without changing anything. What several keys failed of may lie with any of them, so it asks for all.
func (q question) peek(ctx context.Context) error {
	if q.store != nil {
		return q.store.ApplyAll(ctx, headgate.StoreClock, q.ops, true, make([]headgate.Decision, len(q.ops)))
	}
	_, err := q.bound.Apply(ctx, headgate.StoreClock, q.key, headgate.Peek, 0)
	return err
}
