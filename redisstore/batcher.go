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
	// maxInFlight is the maximum number of calls in flight. A call is a single script
	// call or a pipeline of script calls.
	maxInFlight = 3

	// maxUnbatched is the maximum number of operations in flight, including the new
	// operation, with which a new operation is sent immediately.
	maxUnbatched = 4

	// minBatch is the number of queued operations from which they are sent in a further
	// call while other calls are in flight.
	minBatch = 24

	// maxBatch is the maximum number of operations in one call.
	maxBatch = 512

	// maxDelay is the maximum time for which an operation is queued to be batched with
	// others, unless maxInFlight calls are in flight.
	maxDelay = 2 * time.Millisecond
)

// batcher sends operations to Redis. While few operations are in flight, each new
// operation is sent alone on its caller's goroutine. Otherwise operations are queued.
// The queue is sent as one batch when all calls have completed, when minBatch
// operations are queued, or when the oldest operation has waited for maxDelay. In a
// batch, operations on the same key are executed in one step, different keys share one
// script call where the server allows it, and the script calls are pipelined.
type batcher struct {
	store       *Store
	mu          sync.Mutex
	queue       []*op
	inFlight    int  // calls in flight
	opsInFlight int  // operations in the calls in flight
	flushing    bool // a goroutine is about to send the queue
	lastBatched bool // whether the last call had several operations

	// directKeys contains the Redis keys of the operations that are in flight and were
	// sent alone; "" means that the direct slot is free.
	directKeys [maxInFlight]string

	closed   bool
	calls    sync.WaitGroup
	timer    *time.Timer // calls onTimer
	timerDue int64       // when timer expires, in ns since the store was created; 0 if it is not set
}

// batchers contains the batchers of a store. Except in a cluster, only the first one is
// used. In a cluster, each node has its own batcher, so that a node that does not answer
// delays no caller of another node: see [topology]. For slots whose node is unknown, each
// batcher here serves 1/32 of the hash slots.
type batchers [slotRanges]batcher

// slotRanges is the number of ranges of hash slots in a cluster, each of 512 slots.
const slotRanges = 32

func (all *batchers) forKey(s *Store, redisKey string) *batcher {
	if !s.sharded.Load() {
		return &all[0]
	}
	if s.topology.stale.Load() {
		s.refreshTopology(0)
	}
	slot := slotOf(tagOf(redisKey))
	if n := s.topology.current.Load().of(slot); n != nil {
		return &n.batcher
	}
	return &all[slot>>9]
}

// queueEntry is the state of a queued operation.
type queueEntry struct {
	state    atomic.Uint32
	queuedAt int64 // ns since the store was created
	done     chan struct{}
}

const (
	opQueued    uint32 = iota
	opSent             // the operation has been sent
	opAbandoned        // the operation was not sent: its caller stopped waiting, or it was queued for too long
)

// do sends an operation and waits for its result, which is stored in the operation.
// After an error, the operation must not be reused: a call may still write to it.
func (b *batcher) do(ctx context.Context, o *op) error {
	slot, err := b.startOrQueue(o)
	if err != nil {
		return err
	}
	if slot >= 0 {
		b.store.sendAlone(ctx, o)
		b.finishDirect(slot)
		return o.err
	}
	select {
	case <-o.done:
		return o.err
	case <-ctx.Done():
		return o.abandon(ctx)
	}
}

// startOrQueue reserves a direct slot (an index of directKeys) if the operation may be
// sent alone. Otherwise it queues the operation and returns -1.
func (b *batcher) startOrQueue(o *op) (slot int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed || b.store.closed.Load() {
		return 0, headgate.ErrClosed
	}
	slot = b.freeSlot(o.redisKey)
	if slot >= 0 && !b.lastBatched && !b.flushing && b.canSend(1) {
		b.calls.Add(1)
		b.startCall(1)
		b.directKeys[slot] = o.redisKey
		return slot, nil
	}
	if len(b.queue) >= b.store.options.MaxWaiting {
		return 0, errOverloaded()
	}
	o.queuedAt = b.store.elapsed()
	if o.done == nil {
		o.done = make(chan struct{}, 1)
	}
	b.queue = append(b.queue, o)
	if slot >= 0 || len(b.queue) >= minBatch {
		b.flush()
	}
	b.armTimer()
	return -1, nil
}

// canSend reports whether another call with ops operations may be sent now. Each call
// has a fixed cost, on the server and on the client, that equals the cost of several
// operations. Therefore operations are batched when many of them arrive.
func (b *batcher) canSend(ops int) bool {
	switch {
	case b.inFlight == 0:
		return true
	case b.inFlight == maxInFlight:
		return false
	case ops >= minBatch || b.opsInFlight+ops <= maxUnbatched:
		return true
	}
	return len(b.queue) > 0 && b.store.elapsed() >= b.queue[0].queuedAt+int64(maxDelay)
}

// startCall counts a call with ops operations as in flight.
func (b *batcher) startCall(ops int) {
	b.inFlight++
	b.opsInFlight += ops
	b.lastBatched = ops > 1
}

// finishCall ends the counting of a call with ops operations as in flight.
func (b *batcher) finishCall(ops int) {
	b.inFlight--
	b.opsInFlight -= ops
}

// flush starts a goroutine that sends the queue, if a call may be sent now.
func (b *batcher) flush() {
	if len(b.queue) > 0 && !b.flushing && b.canSend(len(b.queue)) {
		b.flushing = true
		b.calls.Add(1)
		go b.sendQueue()
	}
}

// armTimer sets the timer, so that operations that have been queued for too long are
// sent or fail even if no call in flight returns. A call may last until the deadline of
// its caller.
func (b *batcher) armTimer() {
	first := b.oldestQueued()
	if first == nil {
		return
	}
	due := first.queuedAt + int64(maxDelay)
	if b.inFlight == maxInFlight || b.flushing {
		due = first.queuedAt + b.store.options.Timeout.Nanoseconds()
	}
	if b.timerDue != 0 && b.timerDue <= due {
		return
	}
	b.timerDue = due
	if after := time.Duration(due - b.store.elapsed()); b.timer == nil {
		b.timer = time.AfterFunc(after, b.onTimer)
	} else {
		b.timer.Reset(after)
	}
}

// oldestQueued returns the operation that has been queued for the longest time, or nil.
// It removes abandoned operations from the front of the queue.
func (b *batcher) oldestQueued() *op {
	for len(b.queue) > 0 {
		if o := b.queue[0]; o.state.Load() == opQueued {
			return o
		}
		b.queue[0] = nil
		b.queue = b.queue[1:]
	}
	return nil
}

// onTimer fails the operations that have been queued for longer than Timeout, and sends
// the remaining operations if a call may be sent now.
func (b *batcher) onTimer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timerDue = 0
	latest := b.store.elapsed() - b.store.options.Timeout.Nanoseconds()
	for o := b.oldestQueued(); o != nil && o.queuedAt <= latest; o = b.oldestQueued() {
		if o.state.CompareAndSwap(opQueued, opAbandoned) {
			o.err = errOverloaded()
			o.done <- struct{}{}
		}
	}
	b.flush()
	b.armTimer()
}

// freeSlot returns a free direct slot. It returns -1 if there is none, or if an
// operation on the same key was sent alone and is in flight: operations on the same key
// are batched.
func (b *batcher) freeSlot(redisKey string) int {
	free := -1
	for i, inFlight := range b.directKeys {
		switch inFlight {
		case redisKey:
			return -1
		case "":
			free = i
		}
	}
	return free
}

// abandon returns the error for a caller whose context has ended. If the operation has
// not been sent yet, it is removed and spends nothing.
func (o *op) abandon(ctx context.Context) error {
	if o.state.CompareAndSwap(opQueued, opAbandoned) {
		return errNotSent(ctx)
	}
	select {
	case <-o.done: // the operation completed in the meantime
		return o.err
	default:
		o.rule.store.suspect()
		return errTimedOut(ctx.Err())
	}
}

// finishDirect ends the call of the operation that has this direct slot, and sends the
// queue if a call may be sent now.
func (b *batcher) finishDirect(slot int) {
	defer b.calls.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.directKeys[slot] = ""
	b.finishCall(1)
	b.flush()
	b.armTimer()
}

// sendQueue sends batches until the queue is empty, no further call may be sent, or
// another goroutine is about to send the queue.
func (b *batcher) sendQueue() {
	defer b.calls.Done()
	p := &packer{store: b.store}
	for ops := b.takeBatch(nil); len(ops) > 0; ops = b.takeBatch(ops[:0]) {
		ctx, cancel := context.WithTimeout(context.Background(), b.store.options.Timeout)
		b.store.send(ctx, p.groups(ops))
		cancel()
		n := len(ops)
		for i, o := range ops {
			o.done <- struct{}{}
			ops[i] = nil // the caller of the operation may reuse it
		}
		if !b.finishBatch(n) {
			return
		}
	}
}

// finishBatch ends a call with ops operations. It returns true if the calling goroutine
// must continue to send the queue, and false if another goroutine is about to do so.
func (b *batcher) finishBatch(ops int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.finishCall(ops)
	if b.flushing {
		return false
	}
	b.flushing = true
	return true
}

// takeBatch removes up to maxBatch operations from the queue and counts them as one
// call in flight, if a call may be sent now. It drops abandoned operations, fails
// operations that have been queued for longer than Timeout, and decides operations that
// the denial cache certainly denies. It yields the processor first, so that further
// callers can queue their operations for this batch: for example the remaining callers
// of a burst, or callers that have just received their results.
func (b *batcher) takeBatch(ops []*op) []*op {
	runtime.Gosched()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flushing = false
	defer b.armTimer()
	if !b.canSend(len(b.queue)) {
		return nil
	}
	latest := b.store.elapsed() - b.store.options.Timeout.Nanoseconds()
	i := 0
	for ; i < len(b.queue) && len(ops) < maxBatch; i++ {
		o := b.queue[i]
		switch {
		case !o.state.CompareAndSwap(opQueued, opSent):
		case o.queuedAt < latest:
			o.err = errOverloaded()
			o.done <- struct{}{}
		case b.store.denials.answer(o):
			o.done <- struct{}{}
		default:
			ops = append(ops, o)
		}
	}
	rest := copy(b.queue, b.queue[i:])
	clear(b.queue[rest:])
	b.queue = b.queue[:rest]
	if len(ops) > 0 {
		b.startCall(len(ops))
	}
	return ops
}

// busy reports whether operations are queued or in flight.
func (b *batcher) busy() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.inFlight > 0 || b.flushing || b.oldestQueued() != nil
}

// close makes all later operations fail with [headgate.ErrClosed].
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// closeBatchers closes all batchers. The returned channel is closed when no call is in
// flight.
func (s *Store) closeBatchers() (idle chan struct{}) {
	var all []*batcher
	for i := range s.batchers {
		all = append(all, &s.batchers[i])
	}
	if t := s.topology.current.Load(); t != nil {
		for _, n := range t.nodes {
			all = append(all, &n.batcher)
		}
	}
	for _, b := range all {
		b.close()
	}
	idle = make(chan struct{})
	go func() {
		for _, b := range all {
			b.calls.Wait()
		}
		close(idle)
	}()
	return idle
}
