package redisstore

import (
	"context"
	"time"
)

const (
	maxKeys  = 128 // keys in one script call; the server runs nothing else during it
	maxRules = 200 // rules in one script call
)

// packer groups operations into script calls. It is reused for every batch.
type packer struct {
	store  *Store
	index  map[string]*keyOps
	byName map[string]*group
}

// groups puts operations into as few script calls as possible. Operations decided at
// the same instant share a call; in a cluster only operations on one key do.
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

// newGroup returns a group with room for keys keys. The first group of a batch uses the
// packer's index.
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

// accepts reports whether an operation may join the group. Operations on one key keep
// their order: a group accepts nothing more after the next group was started, or in a
// cluster after the next group with the same key.
func (g *group) accepts(o *op) bool {
	if g.now != o.request.T || len(g.rules) >= maxRules {
		return false
	}
	g.ruleNumber(o.rule)
	return len(g.keys) < maxKeys || g.find(o.redisKey) != nil
}

// send runs the calls of the groups and stores the results in their operations.
func (s *Store) send(ctx context.Context, groups []*group) {
	calls, replies := make([]Call, len(groups)), make([]Reply, len(groups))
	for i, g := range groups {
		calls[i] = g.call()
	}
	sentAt := s.elapsed()
	s.run(ctx, calls, replies)
	receivedAt := s.elapsed()
	for i, g := range groups {
		if err := replies[i].Err; err != nil {
			g.fail(classify(err))
			continue
		}
		g.read(replies[i].Text)
		g.setTimestamp(sentAt, receivedAt)
	}
}

// sendAlone sends one operation in a call of its own.
func (s *Store) sendAlone(ctx context.Context, o *op) {
	ctx, cancel := s.withTimeout(ctx)
	defer cancel()
	g := &group{now: o.request.T}
	g.add(o)
	s.send(ctx, []*group{g})
}

// retryDelay is the pause before a call is retried that the server could not run
// temporarily.
const retryDelay = 2 * time.Millisecond

// maxRetries bounds the retries of a call. It is far above what a healthy server needs.
const maxRetries = 1000

// run runs calls through the client and retries the calls that the server certainly did
// not run. After NOSCRIPT it sends the full script. After TRYAGAIN, while a cluster
// moves the keys, it retries until ctx ends. A call that found its connection closed is
// sent on another connection.
func (s *Store) run(ctx context.Context, calls []Call, replies []Reply) {
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

// sleep waits for d. It returns false if ctx ends first.
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
