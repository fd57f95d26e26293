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
	mostFlying = 3                    // script calls, or pipelines of them, under way at once
	few        = 4                    // operations under way: up to here the next is sent as soon as it comes
	enough     = 24                   // operations that wait: from here on they are worth a call beside those under way
	mostOps    = 512                  // operations in one of them
	patience   = 2 * time.Millisecond // for how long one waits for others, while there is room for a call
)

// lane sends operations to Redis. While few are under way each goes by itself, on its caller's goroutine. Those that come in
// meanwhile wait, and go together once all have landed, enough are waiting or one has waited for long: several on one key in one
// step, several keys in one script call where they may be, and all else pipelined.
type lane struct {
	store   *Store
	mu      sync.Mutex
	waiting []*op
	flying  int                // calls under way
	aboard  int                // operations in them
	gathers bool               // somebody is about to send what waits
	company bool               // the last call had several operations
	alone   [mostFlying]string // the keys that are under way each by itself
	closed  bool
	inAir   sync.WaitGroup
	late    *time.Timer // calls look
	due     int64       // when it does, in ns since the store was made; 0: not at all
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

// enter gives an operation a place of its own in the air if it may go by itself; else it waits, and place is -1.
func (l *lane) enter(o *op) (place int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return 0, headgate.ErrClosed
	}
	place = l.placeFor(o.name)
	if place >= 0 && !l.company && !l.gathers && l.mayFly(1) {
		l.inAir.Add(1)
		l.takeOff(1)
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
	if place >= 0 || len(l.waiting) >= enough {
		l.gather()
	}
	l.arm()
	return -1, nil
}

// mayFly reports whether one more call, with so many operations, may be sent now. What a call costs the server and the client
// besides its operations is as much as that of several of them, so where many come they are gathered.
func (l *lane) mayFly(ops int) bool {
	switch {
	case l.flying == 0:
		return true
	case l.flying == mostFlying:
		return false
	case ops >= enough || l.aboard+ops <= few:
		return true
	}
	return len(l.waiting) > 0 && l.store.elapsed() >= l.waiting[0].since+int64(patience)
}

// takeOff counts a call with so many operations as under way.
func (l *lane) takeOff(ops int) {
	l.flying++
	l.aboard += ops
	l.company = ops > 1
}

// touchDown is the end of takeOff.
func (l *lane) touchDown(ops int) {
	l.flying--
	l.aboard -= ops
}

// gather sees that what waits is sent, if it may go now.
func (l *lane) gather() {
	if len(l.waiting) > 0 && !l.gathers && l.mayFly(len(l.waiting)) {
		l.gathers = true
		l.inAir.Add(1)
		go l.fly()
	}
}

// arm sees that whoever waits for too long is sent, or told so, also while nothing lands: a call in the air may have all the time its
// caller gave it.
func (l *lane) arm() {
	first := l.oldest()
	if first == nil {
		return
	}
	due := first.since + int64(patience)
	if l.flying == mostFlying || l.gathers {
		due = first.since + l.store.options.Timeout.Nanoseconds()
	}
	if l.due != 0 && l.due <= due {
		return
	}
	l.due = due
	if after := time.Duration(due - l.store.elapsed()); l.late == nil {
		l.late = time.AfterFunc(after, l.look)
	} else {
		l.late.Reset(after)
	}
}

// oldest is who has waited for longest, or nil. It forgets those before him who have left.
func (l *lane) oldest() *op {
	for len(l.waiting) > 0 {
		if o := l.waiting[0]; o.state.Load() == isWaiting {
			return o
		}
		l.waiting[0] = nil
		l.waiting = l.waiting[1:]
	}
	return nil
}

// look answers those that have waited for too long, and sends the others if they may go now.
func (l *lane) look() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.due = 0
	latest := l.store.elapsed() - l.store.options.Timeout.Nanoseconds()
	for o := l.oldest(); o != nil && o.since <= latest; o = l.oldest() {
		if o.state.CompareAndSwap(isWaiting, isAbandoned) {
			o.err = errOverloaded()
			o.done <- struct{}{}
		}
	}
	l.gather()
	l.arm()
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

// land ends the call of one operation in its place. What waits may go now.
func (l *lane) land(place int) {
	defer l.inAir.Done()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.alone[place] = ""
	l.touchDown(1)
	l.gather()
	l.arm()
}

// fly sends what waits until nothing does, or others are under way with which it has to wait.
func (l *lane) fly() {
	defer l.inAir.Done()
	p := &packer{store: l.store}
	for ops := l.board(nil); len(ops) > 0; ops = l.board(ops[:0]) {
		ctx, cancel := context.WithTimeout(context.Background(), l.store.options.Timeout)
		l.store.send(ctx, p.groups(ops))
		cancel()
		n := len(ops)
		for i, o := range ops {
			o.done <- struct{}{}
			ops[i] = nil // its caller may use it again
		}
		if !l.next(n) {
			return
		}
	}
}

// next ends a call with so many operations, and reports whether nobody else is about to send what waits.
func (l *lane) next(ops int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.touchDown(ops)
	if l.gathers {
		return false
	}
	l.gathers = true
	return true
}

// board takes those off the list that wait, if they may go, but for those whose callers have left or that have waited for too long.
// The call is then under way. It lets those first come who are about to: the others of a burst, or who just had their answer.
func (l *lane) board(ops []*op) []*op {
	runtime.Gosched()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gathers = false
	defer l.arm()
	if !l.mayFly(len(l.waiting)) {
		return nil
	}
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
	if len(ops) > 0 {
		l.takeOff(len(ops))
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
