package redisstore

import (
	"context"
	"sync/atomic"
	"time"
)

const (
	// guardedFor is the time for which calls are guarded after a call without a reply.
	guardedFor = 5 * time.Second

	// maxGuarded is the maximum number of guarded calls in the client.
	maxGuarded = 1024
)

// guard makes calls return when their context ends even if the client does not. A client
// may block for longer: rueidis makes callers wait while another caller opens a
// connection, for as long as the context of that caller lasts, and go-redis waits for its
// own timeouts. A guarded call costs a goroutine. Therefore calls are guarded only while
// the client may block: after a call without a reply, and while a connection is being
// opened.
type guard struct {
	until   atomic.Int64 // in ns since the store was created; 0 if no call has failed recently
	running atomic.Int64 // guarded calls in the client
}

// connecting is an optional interface of a Client.
type connecting interface {
	// connecting reports whether a connection is being opened.
	connecting() bool
}

// suspecting is an optional interface of a Client.
type suspecting interface {
	// suspect checks whether the connections on which requests wait for replies still
	// work. It does not block.
	suspect()
}

// suspect is called when a caller has stopped waiting for a reply.
func (s *Store) suspect() {
	if c, ok := s.client.(suspecting); ok {
		c.suspect()
	}
}

// guarded reports whether a call must be guarded.
func (s *Store) guarded() bool {
	if c, ok := s.client.(connecting); ok && c.connecting() {
		return true
	}
	until := s.guard.until.Load()
	if until == 0 {
		return false
	}
	if s.elapsed() < until {
		return true
	}
	s.guard.until.CompareAndSwap(until, 0)
	return false
}

// run executes calls and stores the replies. It returns when ctx ends, at the latest;
// then it is unknown whether the calls are executed. See [Client].Run.
func (s *Store) run(ctx context.Context, calls []Call, replies []Reply) {
	if s.guarded() {
		s.runGuarded(ctx, calls, replies)
	} else {
		s.runWithRetries(ctx, calls, replies)
	}
	for i := range replies {
		if err := replies[i].Err; err != nil && !isServerReply(err) {
			s.guard.until.Store(s.elapsed() + int64(guardedFor))
			if ctx.Err() != nil {
				s.suspect()
			}
			return
		}
	}
}

func (s *Store) runGuarded(ctx context.Context, calls []Call, replies []Reply) {
	fail := func(err error) {
		for i := range replies {
			replies[i] = Reply{Err: err}
		}
	}
	if s.guard.running.Add(1) > maxGuarded {
		s.guard.running.Add(-1)
		fail(errOverloaded())
		return
	}
	own, done := make([]Reply, len(replies)), make(chan struct{})
	go func() {
		defer s.guard.running.Add(-1)
		defer close(done)
		s.runWithRetries(ctx, calls, own)
	}()
	select {
	case <-done:
		copy(replies, own)
	case <-ctx.Done():
		fail(ctx.Err())
	}
}

// runWithin executes a transaction. It returns when ctx ends, at the latest. A
// transaction of several calls then ends in the background, because it may have to undo
// what it has taken.
func (x *transaction) runWithin(ctx context.Context) error {
	if len(x.groups)+len(x.guideOps) <= 1 {
		return x.run(ctx)
	}
	done := make(chan error, 1)
	go func() { done <- x.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return errTimedOut(ctx.Err())
	}
}
