package redisstore

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

const (
	mostFlying = 3   // script calls, or pipelines of them, under way at once
	mostOps    = 512 // operations in one of them
	maxKeys    = 128 // keys in one script call: a server does nothing else meanwhile
	maxRules   = 200 // rules in one script call
)

// lane sends operations to Redis. While few are under way each goes by itself, on its caller's goroutine. Those that come in
// meanwhile wait, and go together once one has landed: several on one key in one step, several keys in one script call where they
// may be, and all else pipelined.
type lane struct {
	store   *Store
	mu      sync.Mutex
	waiting []*op
	flying  int
	alone   [mostFlying]string // the keys that are under way each by itself
	closed  bool
	inAir   sync.WaitGroup
	late    *time.Timer // tells those who wait for too long, while armed
	armed   bool
}

// lanes are all lanes of a store: one, or in a cluster one for each 32nd of the slots, so that a node which does not answer holds up
// few of those who ask others.
type lanes [32]lane

func (all *lanes) of(s *Store, name string) *lane {
	if !s.sharded.Load() {
		return &all[0]
	}
	return &all[slotOf(tagOf(name))>>9]
}

// queued is an operation's place in a lane.
type queued struct {
	state atomic.Uint32
	since int64 // ns since the store was made
	done  chan struct{}
}

const (
	isWaiting   uint32 = iota
	isFlying           // it is being sent
	isAbandoned        // its caller left before it was sent
)

// do sends an operation and waits for its answer, which is then in it. After an error the operation is not to be used again.
func (l *lane) do(ctx context.Context, o *op) error {
	place, err := l.enter(o)
	if err != nil {
		return err
	}
	if place >= 0 {
		l.store.sendAlone(ctx, o)
		l.land(place)
		return o.err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return o.leave(ctx)
	}
}

// enter gives an operation a place of its own in the air if there is one, and its key has none; else it waits, and place is -1.
func (l *lane) enter(o *op) (place int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, headgate.ErrClosed
	}
	if place = l.placeFor(o.name); place >= 0 && l.flying < mostFlying {
		l.inAir.Add(1)
		l.flying++
		l.alone[place] = o.name
		return place, nil
	}
	if len(l.waiting) >= l.store.options.MaxWaiting {
		return 0, errOverloaded()
	}
	o.since = l.store.elapsed()
	if o.done == nil {
		o.done = make(chan struct{}, 1)
	}
	l.waiting = append(l.waiting, o)
	l.arm(l.store.options.Timeout)
	return -1, nil
}

// arm sees that whoever waits for too long is told so, also while nothing lands: a call in the air may have all the time its caller
// gave it.
func (l *lane) arm(after time.Duration) {
	switch {
	case l.armed:
		return
	case l.late == nil:
		l.late = time.AfterFunc(after, l.expire)
	default:
		l.late.Reset(after)
	}
	l.armed = true
}

// expire answers those that have waited for too long; they stay in the list, as those who have left.
func (l *lane) expire() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.armed = false
	limit := l.store.options.Timeout.Nanoseconds()
	now := l.store.elapsed()
	for _, o := range l.waiting {
		if left := o.since + limit - now; left > 0 {
			l.arm(time.Duration(left))
			return
		}
		if o.state.CompareAndSwap(isWaiting, isAbandoned) {
			o.err = errOverloaded()
			o.done <- struct{}{}
		}
	}
}

// placeFor is a free place for a key, or -1 if it has one already: those who ask for one key ask together.
func (l *lane) placeFor(name string) int {
	free := -1
	for i, flying := range l.alone {
		switch flying {
		case name:
			return -1
		case "":
			free = i
		}
	}
	return free
}

// leave is for a caller whose context is over: nothing was spent if the operation is not yet on its way.
func (o *op) leave(ctx context.Context) error {
	if o.state.CompareAndSwap(isWaiting, isAbandoned) {
		return errNotSent(ctx)
	}
	select {
	case <-o.done: // just now
		return o.err
	default:
		return errTimedOut(ctx.Err())
	}
}

// land hands a place in the air on to those who wait, if any.
func (l *lane) land(place int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alone[place] = ""
	if len(l.waiting) == 0 {
		l.flying--
		l.inAir.Done()
		return
	}
	go l.fly()
}

// fly sends what waits until nothing does.
func (l *lane) fly() {
	defer l.inAir.Done()
	p := &packer{store: l.store}
	var ops []*op
	for {
		if ops = l.board(ops[:0]); len(ops) == 0 {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), l.store.options.Timeout)
		l.store.send(ctx, p.groups(ops))
		cancel()
		for i, o := range ops {
			o.done <- struct{}{}
			ops[i] = nil // its caller may use it again
		}
		runtime.Gosched() // so that those who have their answer can ask again, and go along
	}
}

// board takes those that wait, but for those whose callers have left or that have waited for too long. If there are none the place
// in the air is free again.
func (l *lane) board(ops []*op) []*op {
	l.mu.Lock()
	defer l.mu.Unlock()
	latest := l.store.elapsed() - l.store.options.Timeout.Nanoseconds()
	i := 0
	for ; i < len(l.waiting) && len(ops) < mostOps; i++ {
		o := l.waiting[i]
		switch {
		case !o.state.CompareAndSwap(isWaiting, isFlying):
		case o.since < latest:
			o.err = errOverloaded()
			o.done <- struct{}{}
		case l.store.denials.answers(o):
			o.done <- struct{}{}
		default:
			ops = append(ops, o)
		}
	}
	rest := copy(l.waiting, l.waiting[i:])
	clear(l.waiting[rest:])
	l.waiting = l.waiting[:rest]
	if len(ops) == 0 {
		l.flying--
	}
	return ops
}

// close answers all later calls with an error.
func (l *lane) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
}

// close closes all lanes; empty is closed once nothing is in the air.
func (all *lanes) close() (empty chan struct{}) {
	for i := range all {
		all[i].close()
	}
	empty = make(chan struct{})
	go func() {
		for i := range all {
			all[i].inAir.Wait()
		}
		close(empty)
	}()
	return empty
}

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
