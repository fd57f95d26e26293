package fallback

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxBreakers is the maximum number of breakers. If more nodes fail, the further
	// nodes share the breaker of the node "".
	maxBreakers = 1024

	// unusedFor is the time after which a closed breaker without failures is dropped.
	unusedFor = time.Minute
)

// breakers contains the circuit breakers of a store: one for each node that has failed
// recently. A store that does not name its nodes has only the node "". As long as no node
// fails, there is no breaker, and a call costs one atomic load here.
type breakers struct {
	options Options
	ctx     context.Context // canceled by close
	stop    context.CancelFunc
	done    sync.WaitGroup                      // goroutines of all breakers
	all     atomic.Pointer[map[string]*breaker] // by node; replaced, never changed; nil if empty
	mu      sync.Mutex                          // protects changes of all
	closed  bool
}

func newBreakers(o Options) *breakers {
	a := &breakers{options: o}
	a.ctx, a.stop = context.WithCancel(context.Background())
	return a
}

// permits allows one call to the store. It contains a permit for each node of the call
// that has a breaker.
type permits struct {
	first permit
	more  []permit
}

func (p *permits) each(do func(permit)) {
	if p.first.breaker != nil {
		do(p.first)
	}
	for _, other := range p.more {
		do(other)
	}
}

// end ends all permits with the same outcome.
func (p *permits) end(outcome error) { p.each(func(one permit) { one.end(outcome) }) }

// admit returns the permits for a call. If the breaker of one of its nodes does not allow
// the call, admit returns that breaker.
func (a *breakers) admit(asked storeCall) (p permits, refused *breaker) {
	all := a.all.Load()
	if all == nil {
		return permits{}, nil
	}
	node, several := asked.node()
	if !several {
		b := (*all)[a.shared(*all, node)]
		if b == nil {
			return permits{}, nil
		}
		one, ok := b.admit()
		if !ok {
			return permits{}, b
		}
		if one.done == nil && b.unused() {
			a.drop(b)
		}
		return permits{first: one}, nil
	}
	for node := range asked.byNode() {
		b := (*all)[a.shared(*all, node)]
		if b == nil {
			continue
		}
		one, ok := b.admit()
		if !ok {
			p.end(errNoEvidence)
			return permits{}, b
		}
		p.more = append(p.more, one)
	}
	return p, nil
}

// shared returns node, or "" if node has no breaker and there is no room for one.
func (a *breakers) shared(all map[string]*breaker, node string) string {
	if len(all) >= maxBreakers && all[node] == nil {
		return ""
	}
	return node
}

// failed ends the permits of a failed call that began at start. If the call had keys on
// several nodes, it is unknown which of them failed: the request is then repeated in the
// background, separately for each node.
func (a *breakers) failed(p *permits, start time.Time, v verdict, asked storeCall) {
	node, several := asked.node()
	if several {
		p.end(errNoEvidence)
		a.check(asked)
		return
	}
	b := p.first.breaker
	if b == nil || b.retired.Load() {
		p.end(errNoEvidence)
		p.first.done = nil
		b = a.get(node)
	}
	b.failed(p.first, start, v, asked)
}

// check repeats a request in the background, separately for each node.
func (a *breakers) check(asked storeCall) {
	node, several := asked.node()
	if !several {
		a.get(node).check(asked)
		return
	}
	for node, q := range asked.byNode() {
		a.get(node).check(q)
	}
}

// get returns the breaker of a node. It creates the breaker if there is none.
func (a *breakers) get(node string) *breaker {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := map[string]*breaker{}
	if all := a.all.Load(); all != nil {
		old = *all
	}
	if b := old[node]; b != nil && !b.retired.Load() {
		return b
	}
	all := maps.Clone(old)
	maps.DeleteFunc(all, func(_ string, b *breaker) bool { return b.unused() })
	if node = a.shared(all, node); all[node] != nil && !all[node].retired.Load() {
		return all[node]
	}
	if retired := all[node]; retired != nil {
		retired.close()
	}
	b := newBreaker(a, node)
	b.closed = a.closed
	all[node] = b
	a.all.Store(&all)
	return b
}

// drop removes a breaker that is no longer used.
func (a *breakers) drop(b *breaker) {
	a.mu.Lock()
	defer a.mu.Unlock()
	old := a.all.Load()
	if old == nil || (*old)[b.node] != b {
		return
	}
	all := maps.Clone(*old)
	delete(all, b.node)
	if len(all) == 0 {
		a.all.Store(nil)
		return
	}
	a.all.Store(&all)
}

// close stops the goroutines of all breakers and waits until they have ended.
func (a *breakers) close() {
	a.mu.Lock()
	a.closed = true
	all := a.all.Load()
	a.mu.Unlock()
	if all != nil {
		for _, b := range *all {
			b.close()
		}
	}
	a.stop()
	a.done.Wait()
}
