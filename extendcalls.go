package headgate

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxCallLimits is the maximum number of limits that one call of a store extends,
	// except for a hold that has more.
	maxCallLimits = 256
	// maxConcurrentCalls is the maximum number of such calls at the same time.
	maxConcurrentCalls = 16
)

// extendOps extends holds. sizes has the number of ops of each hold, in the order of ops.
// If a call of the store fails, the results of its ops have the error, and the other
// calls are made. extendOps returns the latest instant of the calls that have succeeded,
// and the first error.
func extendOps(
	ctx context.Context, store Store, now Instant, ttl time.Duration, ops []HoldOp, sizes []int, results []HoldResult,
) (at Instant, failed error) {
	calls := extendCalls(ops, sizes, results)
	var next atomic.Int64
	work := func() {
		for i := int(next.Add(1)) - 1; i < len(calls); i = int(next.Add(1)) - 1 {
			calls[i].run(ctx, store, now, ttl, (len(calls)-i+maxConcurrentCalls-1)/maxConcurrentCalls)
		}
	}
	var workers sync.WaitGroup
	for range min(len(calls), maxConcurrentCalls) - 1 {
		workers.Go(work)
	}
	work()
	workers.Wait()
	for _, c := range calls {
		at, failed = max(at, c.at), cmp.Or(failed, c.err)
	}
	return at, failed
}

// extendCall is a call of a store that extends holds.
type extendCall struct {
	ops     []HoldOp
	results []*HoldResult // where the result of each op is stored
	at      Instant
	err     error
}

// extendCalls divides holds into calls. A call has holds of one server, so that a server
// that does not answer delays no hold of another one. A hold with limits on several
// servers is only in a call with holds on the same servers.
func extendCalls(ops []HoldOp, sizes []int, results []HoldResult) (calls []*extendCall) {
	open := map[string]*extendCall{} // the call of each server that has room
	for _, n := range sizes {
		if n == 0 {
			continue
		}
		node := nodesOf(ops[:n])
		c := open[node]
		if c == nil || len(c.ops)+n > maxCallLimits {
			c = &extendCall{}
			open[node], calls = c, append(calls, c)
		}
		c.ops = append(c.ops, ops[:n]...)
		for i := range n {
			c.results = append(c.results, &results[i])
		}
		ops, results = ops[n:], results[n:]
	}
	return calls
}

// nodesOf returns the names of the servers of ops; see [NodeOf].
func nodesOf(ops []HoldOp) string {
	var nodes []string
	for _, op := range ops {
		if node := NodeOf(op.Bound, op.Key); node != "" && !slices.Contains(nodes, node) {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) == 1 {
		return nodes[0]
	}
	slices.Sort(nodes)
	return strings.Join(nodes, "\n")
}

// run makes the call. rounds is how many calls, this one included, follow one another
// until all calls have been made: each has an equal share of the time that is left.
func (c *extendCall) run(ctx context.Context, store Store, now Instant, ttl time.Duration, rounds int) {
	if deadline, ok := ctx.Deadline(); ok && rounds > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(rounds))
		defer cancel()
	}
	results := make([]HoldResult, len(c.ops))
	c.at, c.err = applyHoldOps(ctx, store, now, ExtendHold, ttl, c.ops, results)
	for i := range results {
		if c.err != nil {
			results[i] = HoldResult{Err: c.err}
		}
		*c.results[i] = results[i]
	}
	if c.err != nil {
		c.at = 0
	}
}
