package headgate

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxLimitsPerCall is the maximum number of limits that one call of a store extends,
	// except for a hold that has more.
	maxLimitsPerCall = 256
	// maxConcurrentCalls is the maximum number of such calls at the same time.
	maxConcurrentCalls = 16
	// maxRepeatedCalls is the maximum number of calls that repeat parts of a failed call.
	// 54 calls separate four failing holds from 252 others.
	maxRepeatedCalls = 64
)

// extendOps extends holds. sizes has the number of ops of each hold, in the order of ops.
// If a call of the store fails because of one of its keys, its parts are repeated, so
// that the other holds are extended. The results of holds that are not extended have the
// error, and the other calls are made. extendOps returns the latest instant of the calls
// that have succeeded, and the first error.
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
	sizes   []int         // number of ops of each hold
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
		if c == nil || len(c.ops)+n > maxLimitsPerCall {
			c = &extendCall{}
			open[node], calls = c, append(calls, c)
		}
		c.ops, c.sizes = append(c.ops, ops[:n]...), append(c.sizes, n)
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

// run makes the call. rounds is the number of calls that still run one after another,
// including this one. The time until the deadline of ctx is divided equally among them.
func (c *extendCall) run(ctx context.Context, store Store, now Instant, ttl time.Duration, rounds int) {
	if deadline, ok := ctx.Deadline(); ok && rounds > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Until(deadline)/time.Duration(rounds))
		defer cancel()
	}
	c.apply(ctx, store, now, ttl)
	failed := []*extendCall{c}
	for repeated := 0; len(failed) > 0 && repeated < maxRepeatedCalls; failed = failed[1:] {
		if !failed[0].canDivide(ctx) {
			continue
		}
		for _, half := range failed[0].halves() {
			half.apply(ctx, store, now, ttl)
			c.at = max(c.at, half.at)
			failed = append(failed, half)
			repeated++
		}
	}
}

// apply makes one call and stores its results.
func (c *extendCall) apply(ctx context.Context, store Store, now Instant, ttl time.Duration) {
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

// canDivide reports whether the call has failed and its halves can succeed: not if the
// server is unavailable or refuses requests, because all its keys then fail. An extension
// can be repeated, because it has the same effect again.
func (c *extendCall) canDivide(ctx context.Context) bool {
	if c.err == nil || len(c.sizes) < 2 || ctx.Err() != nil {
		return false
	}
	var known *StoreError
	return !errors.As(c.err, &known) || known.Reason == ReasonWrongType
}

// halves returns two calls with half of the holds each.
func (c *extendCall) halves() [2]*extendCall {
	holds, ops := len(c.sizes)/2, 0
	for _, n := range c.sizes[:holds] {
		ops += n
	}
	return [2]*extendCall{
		{ops: c.ops[:ops], sizes: c.sizes[:holds], results: c.results[:ops]},
		{ops: c.ops[ops:], sizes: c.sizes[holds:], results: c.results[ops:]},
	}
}
