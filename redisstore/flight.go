package redisstore

import (
	"context"
	"time"
)

const (
	maxKeys  = 128 // keys in one script call: a server does nothing else meanwhile
	maxRules = 200 // rules in one script call
)

// packer puts operations into groups; it is used again and again.
type packer struct {
	store  *Store
	index  map[string]*keyOps
	byName map[string]*group
}

// groups puts operations into as few script calls as may be: those at one instant together, in a cluster those on one key.
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

// newGroup is one with room for so many keys; the first of a flight takes the packer's index along.
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
		g := p.byName[o.name]
		if g == nil || !g.accepts(o) {
			g = &group{now: o.request.T}
			p.byName[o.name] = g
			all = append(all, g)
		}
		g.add(o)
	}
	return all
}

// accepts reports whether an operation may go into the group. Operations on one key keep their order: a group is closed once
// another was begun, or in a cluster another with its key.
func (g *group) accepts(o *op) bool {
	if g.now != o.request.T || len(g.rules) >= maxRules {
		return false
	}
	g.numberOf(o.rule)
	return len(g.keys) < maxKeys || g.find(o.name) != nil
}

// send runs the groups' calls and reads the replies into their operations.
func (s *Store) send(ctx context.Context, groups []*group) {
	calls, replies := make([]Call, len(groups)), make([]Reply, len(groups))
	for i, g := range groups {
		calls[i] = g.call()
	}
	sent := s.elapsed()
	s.run(ctx, calls, replies)
	received := s.elapsed()
	for i, g := range groups {
		if err := replies[i].Err; err != nil {
			g.fail(storeError(err))
			continue
		}
		g.read(replies[i].Text)
		g.stamp(sent, received)
	}
}

// sendAlone sends one operation in a call of its own.
func (s *Store) sendAlone(ctx context.Context, o *op) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	g := &group{now: o.request.T}
	g.add(o)
	s.send(ctx, []*group{g})
}

// again is how long to wait before a call is sent once more that the server could not run just now.
const again = 2 * time.Millisecond

// mostTries is how often a call is sent once more: far more than it takes, unless something is wrong.
const mostTries = 1000

// run is the client's Run, and heals what the server certainly did not run: a script it has forgotten is sent in full, keys that a
// cluster is moving are asked for again until ctx ends, and what found its connection closed goes by another.
func (s *Store) run(ctx context.Context, calls []Call, replies []Reply) {
	s.client.Run(ctx, calls, replies)
	for range mostTries {
		var missed []int
		pause := false
		for i := range replies {
			switch reason := notRun(replies[i].Err); reason {
			case ran:
				continue
			case noScript:
				calls[i].Load = true
			case tryAgain:
				pause = true
			}
			missed = append(missed, i)
		}
		if len(missed) == 0 || pause && !sleep(ctx, again) {
			return
		}
		s.runSome(ctx, calls, replies, missed)
	}
}

func (s *Store) runSome(ctx context.Context, calls []Call, replies []Reply, which []int) {
	some, answers := make([]Call, len(which)), make([]Reply, len(which))
	for i, j := range which {
		some[i] = calls[j]
	}
	s.client.Run(ctx, some, answers)
	for i, j := range which {
		replies[j] = answers[i]
	}
}

// sleep waits, and reports whether ctx is not over.
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
