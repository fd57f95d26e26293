package lease_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
)

var errNetwork = &headgate.StoreError{Store: "network", Reason: headgate.ReasonUnreachable, Advice: "a message was lost"}

// link is the network between one node and the store, in fake time. It delays calls, and
// loses requests and replies. It executes some calls of ApplyLease again, later.
type link struct {
	headgate.LeaseStore
	shared *shared
	mu     sync.Mutex
	random *rand.Rand  // guarded by mu
	down   atomic.Bool // a partition, or the node has crashed
}

// shared is what all nodes of a simulation have in common.
type shared struct {
	store  headgate.LeaseStore
	faults bool
	mu     sync.Mutex
	log    []spend
	resets []int64 // instants at which the key was reset
	copies sync.WaitGroup
}

// noteReset records that the key is reset now.
func (s *shared) noteReset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets = append(s.resets, time.Now().UnixMicro())
}

// note records that units are allowed now.
func (s *shared) note(units int64) {
	at := time.Now().UnixMicro()
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.log); n > 0 && s.log[n-1].at == at {
		s.log[n-1].units += units
		return
	}
	s.log = append(s.log, spend{at, units})
}

func (l *link) chance(percent int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.random.IntN(100) < percent
}

// latency returns a time of whole µs: mostly up to 2 ms, sometimes up to half a second.
func (l *link) latency() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	us := 100 + l.random.IntN(1900)
	if l.shared.faults && l.random.IntN(100) == 0 {
		us += l.random.IntN(500_000)
	}
	return time.Duration(us) * time.Microsecond
}

// deliver waits for the latency of one message. It returns an error if the message is
// lost.
func (l *link) deliver(ctx context.Context) error {
	lost := l.down.Load() || l.shared.faults && l.chance(3)
	wait := l.latency()
	if lost {
		wait = 50 * time.Millisecond
	}
	select {
	case <-time.After(wait):
	case <-ctx.Done():
		return ctx.Err()
	}
	if lost || l.down.Load() {
		return errNetwork
	}
	return nil
}

// linkBound is a Bound of the store behind a link.
type linkBound struct {
	headgate.Bound
	link *link
}

func (l *link) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := l.shared.store.Bind(rule)
	return &linkBound{b, l}, err
}

// Apply executes an operation. The units of a take count as allowed even if the reply is
// lost.
func (b *linkBound) Apply(ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := b.link.deliver(ctx); err != nil {
		return headgate.Decision{}, err
	}
	d, err := b.Bound.Apply(ctx, now, key, verb, cost)
	if err == nil && d.Allowed && verb == headgate.Take {
		b.link.shared.note(cost)
	}
	if verb == headgate.Reset {
		b.link.shared.noteReset()
	}
	if lost := b.link.deliver(ctx); lost != nil {
		return headgate.Decision{}, lost
	}
	return d, err
}

func (l *link) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	op.Bound = op.Bound.(*linkBound).Bound
	if err := l.deliver(ctx); err != nil {
		return headgate.LeaseResult{}, err
	}
	if l.shared.faults && l.chance(5) {
		l.shared.copies.Go(func() {
			time.Sleep(l.latency())
			_, _ = l.shared.store.ApplyLease(context.Background(), now, op)
		})
	}
	result, err := l.shared.store.ApplyLease(ctx, now, op)
	if lost := l.deliver(ctx); lost != nil {
		return headgate.LeaseResult{}, lost
	}
	return result, err
}

// Close leaves the shared store open.
func (l *link) Close() error { return nil }
