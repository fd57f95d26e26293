package redisstore

import (
	"context"
	"time"
)

const (
	maxKeys  = 128 // maximum number of keys in one script call, during which the server executes nothing else
	maxRules = 200 // maximum number of rules in one script call
)

// packer groups operations into script calls. A goroutine reuses it for all its
// batches.
type packer struct {
	store  *Store
	index  map[string]*keyOps
	byName map[string]*group
}

// groups distributes operations to as few script calls as possible. Operations with the
// same instant share a call. In a cluster, they must also have the same key.
func (p *packer) groups(ops []*op) []*group {
	if p.store.sharded.Load() {
		return p.groupsByKey(ops)
	}
	var all []*group
	var last *group
	for _, o := range ops {
		if last == nil || !last.accepts(o) {
			last = p.newGroup(o, len(all) == 0, len(ops))
			all = append(all, last)
		}
		last.add(o)
	}
	return all
}

// newGroup returns a group that starts at o's instant and has room for the given number
// of keys, up to maxKeys. The first group of a batch uses the packer's index.
func (p *packer) newGroup(o *op, first bool, keys int) *group {
	g := &group{now: o.request.T}
	if first {
		if p.index == nil {
			p.index = make(map[string]*keyOps, maxKeys)
		}
		clear(p.index)
		g.index = p.index
	}
	g.room = make([]keyOps, min(keys, maxKeys))
	g.keys = make([]*keyOps, 0, min(keys, maxKeys))
	return g
}

func (p *packer) groupsByKey(ops []*op) []*group {
	if p.byName == nil {
		p.byName = map[string]*group{}
	}
	clear(p.byName)
	var all []*group
	for _, o := range ops {
		g := p.byName[o.redisKey]
		if g == nil || !g.accepts(o) {
			g = &group{now: o.request.T}
			p.byName[o.redisKey] = g
			all = append(all, g)
		}
		g.add(o)
	}
	return all
}

// accepts reports whether an operation may be added to the group. Operations on the
// same key must keep their order. Therefore nothing is added to a group after the next
// group was started or, in a cluster, after the next group with the same key was
// started.
func (g *group) accepts(o *op) bool {
	if g.now != o.request.T || len(g.rules) >= maxRules {
		return false
	}
	g.ruleNumber(o.rule)
	return len(g.keys) < maxKeys || g.find(o.redisKey) != nil
}

// send executes the calls of the groups and stores the results in the operations of the
// groups.
func (s *Store) send(ctx context.Context, groups []*group) {
	calls, replies := make([]Call, len(groups)), make([]Reply, len(groups))
	for i, g := range groups {
		calls[i] = g.call()
	}
	sentAt := s.elapsed()
	s.run(ctx, calls, replies)
	s.sendAgainWithWindows(ctx, groups, calls, replies)
	receivedAt := s.elapsed()
	for i, g := range groups {
		if err := replies[i].Err; err != nil {
			err = classify(err)
			s.noteFailure(err)
			g.fail(err)
			continue
		}
		g.read(replies[i].Text)
		g.setTimestamp(sentAt, receivedAt)
		if !g.failed {
			s.watchClock(g, sentAt, receivedAt)
		}
	}
}

// sendAlone sends one operation in its own call.
func (s *Store) sendAlone(ctx context.Context, o *op) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	g := &group{now: o.request.T}
	g.add(o)
	s.send(ctx, []*group{g})
}

// retryDelay is the delay before a call is sent again that the server temporarily could
// not execute.
const retryDelay = 2 * time.Millisecond

// maxRetries is the maximum number of retries of a call. A healthy server needs far
// fewer.
const maxRetries = 1000

// runWithRetries executes calls through the client. It sends a call again if the server
// certainly did not execute the call. After NOSCRIPT, it sends the full script. After
// TRYAGAIN, which a cluster returns while it moves the keys, it retries until ctx ends.
// If the connection was found closed before the call was sent, runWithRetries sends the
// call on another connection.
func (s *Store) runWithRetries(ctx context.Context, calls []Call, replies []Reply) {
	s.client.Run(ctx, calls, replies)
	for range maxRetries {
		var retries []int
		wait := false
		for i := range replies {
			switch retryReasonOf(replies[i].Err) {
			case noRetry:
				continue
			case noScript:
				calls[i].Load = true
			case tryAgain:
				wait = true
			}
			retries = append(retries, i)
		}
		if len(retries) == 0 || wait && !sleep(ctx, retryDelay) {
			return
		}
		s.runAgain(ctx, calls, replies, retries)
	}
}

func (s *Store) runAgain(ctx context.Context, calls []Call, replies []Reply, indexes []int) {
	some, results := make([]Call, len(indexes)), make([]Reply, len(indexes))
	for i, j := range indexes {
		some[i] = calls[j]
	}
	s.client.Run(ctx, some, results)
	for i, j := range indexes {
		replies[j] = results[i]
	}
}

// sleep waits for d and returns true. It returns false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
