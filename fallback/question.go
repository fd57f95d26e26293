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

// node returns the name of the node that stores the key. several is true if the call has
// keys on several nodes; node is then the first of them.
func (q storeCall) node() (node string, several bool) {
	if q.store == nil {
		return headgate.NodeOf(q.bound, q.key), false
	}
	for i, op := range q.ops {
		n := headgate.NodeOf(op.Bound, op.Key)
		if i > 0 && n != node {
			return node, true
		}
		node = n
	}
	return node, false
}

// byNode returns one call for each node, with the keys on this node.
func (q storeCall) byNode() map[string]storeCall {
	calls := map[string]storeCall{}
	for _, op := range q.ops {
		node := headgate.NodeOf(op.Bound, op.Key)
		calls[node] = storeCall{store: q.store, ops: append(calls[node].ops, op)}
	}
	return calls
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
