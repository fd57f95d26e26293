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
	// maxInFlight is the maximum number of calls in flight. A call is one script call
	// or one pipeline of script calls.
	maxInFlight = 3

	// maxUnbatched is the number of operations in flight up to which a new operation is
	// sent immediately.
	maxUnbatched = 4

	// minBatch is the number of queued operations that justifies another call while
	// calls are in flight.
	minBatch = 24

	// maxBatch is the maximum number of operations in one call.
	maxBatch = 512

	// maxDelay is how long an operation waits for others to batch with while another
	// call is allowed.
	maxDelay = 2 * time.Millisecond
)

// batcher sends operations to Redis. While few operations are in flight, each one is
// sent alone on its caller's goroutine. Operations that arrive in the meantime are
// queued. The queue is sent as one batch when all calls have completed, when minBatch
// operations are queued, or when the oldest one has waited for maxDelay. In a batch,
// operations on one key are one step, different keys share one script call where the
// server allows it, and everything else is pipelined.
type batcher struct {
	store       *Store
	mu          sync.Mutex
	queue       []*op
	inFlight    int  // calls in flight
	opsInFlight int  // operations in these calls
	flushing    bool // a goroutine is about to send the queue
	lastBatched bool // the last call had several operations

	// directKeys has the Redis keys of the operations sent alone; "" is a free slot.
	directKeys [maxInFlight]string

	closed   bool
	calls    sync.WaitGroup
	timer    *time.Timer // runs onTimer
	timerDue int64       // when timer fires, in ns since the store was created; 0: not set
}

// batchers are all batchers of a store. A store without a cluster uses the first one
// only. In a cluster each batcher serves 1/32 of the slots, so that a node that does
// not answer delays few callers of the other nodes.
type batchers [32]batcher

func (all *batchers) forKey(s *Store, redisKey string) *batcher {
	if !s.sharded.Load() {
		return &all[0]
	}
	return &all[slotOf(tagOf(redisKey))>>9]
}

// queueEntry is the state of an operation in the queue of a batcher.
type queueEntry struct {
	state    atomic.Uint32
	queuedAt int64 // ns since the store was created
	done     chan struct{}
}

const (
	opQueued    uint32 = iota
	opSent             // it is in flight
	opAbandoned        // its caller returned before it was sent
)

// do sends an operation and waits for its result, which it stores in the operation.
// After an error the operation must not be reused.
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

// startOrQueue reserves a direct slot for an operation if the operation may be sent
// alone. Otherwise it queues the operation and returns -1.
func (b *batcher) startOrQueue(o *op) (slot int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
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

// canSend reports whether another call with ops operations may be sent now. The fixed
// cost of a call on the server and the client equals the cost of several operations, so
// operations are batched when many arrive.
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

// startCall records a call with ops operations as in flight.
func (b *batcher) startCall(ops int) {
	b.inFlight++
	b.opsInFlight += ops
	b.lastBatched = ops > 1
}

// finishCall records the end of a call that startCall recorded.
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

// armTimer schedules a flush, so that operations queued for too long are sent or fail
// even if no call in flight returns: a call may last as long as its caller's deadline.
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

// oldestQueued returns the operation that has been queued longest, or nil. It removes
// abandoned operations from the front of the queue.
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

// onTimer fails the operations that were queued for longer than the timeout, and sends
// the others if a call may be sent now.
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
// operation on the same key has one: operations on one key are batched.
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

// abandon returns the error for a caller whose context has ended. Nothing was spent if
// the operation has not been sent yet.
func (o *op) abandon(ctx context.Context) error {
	if o.state.CompareAndSwap(opQueued, opAbandoned) {
		return errNotSent(ctx)
	}
	select {
	case <-o.done: // it completed in the meantime
		return o.err
	default:
		return errTimedOut(ctx.Err())
	}
}

// finishDirect ends the call of the one operation in slot, and sends the queue if
// possible.
func (b *batcher) finishDirect(slot int) {
	defer b.calls.Done()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.directKeys[slot] = ""
	b.finishCall(1)
	b.flush()
	b.armTimer()
}

// sendQueue sends batches until the queue is empty, the batcher may not send another
// call, or another goroutine is about to send the queue.
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
			ops[i] = nil // its caller may reuse it
		}
		if !b.finishBatch(n) {
			return
		}
	}
}

// finishBatch ends a call with ops operations. It reports whether the calling goroutine
// must send the queue: no other goroutine is about to.
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

// takeBatch removes up to maxBatch operations from the queue and records them as one
// call in flight, if a call may be sent. It drops operations whose callers have
// returned and fails operations queued for longer than the timeout. It yields the
// processor first, so that callers that are about to queue an operation, such as the
// rest of a burst or callers that have just received their results, join the batch.
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

// close makes all later operations fail with [headgate.ErrClosed].
func (b *batcher) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
}

// close closes all batchers. It returns a channel that is closed when no call is in
// flight.
func (all *batchers) close() (idle chan struct{}) {
	for i := range all {
		all[i].close()
	}
	idle = make(chan struct{})
	go func() {
		for i := range all {
			all[i].calls.Wait()
		}
		close(idle)
	}()
	return idle
}
