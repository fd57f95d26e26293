package lease_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// blockingStore sends on called when a call of ApplyLease begins, and executes the call
// when resume is closed.
type blockingStore struct {
	headgate.LeaseStore
	called, resume chan struct{}
}

func (s *blockingStore) ApplyLease(ctx context.Context, now headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	s.called <- struct{}{}
	<-s.resume
	return s.LeaseStore.ApplyLease(ctx, now, op)
}

// Two requests for a new key make one call to the store. The second request arrives when
// the first one has added the key and has not started the call.
func TestFirstCallIsStartedOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inner := &blockingStore{memstore.New(nil), make(chan struct{}, 2), make(chan struct{})}
		s := open(t, inner, nil)
		b := bind(t, s, ruleOf("1000/1h"))
		second := make(chan headgate.Decision, 1)
		added := false
		lease.OnClock(s, func() {
			if added || lease.Keys(s) == 0 {
				return
			}
			added = true
			go func() { second <- take(t, b, "key", 1) }()
			<-inner.called
		})
		for range 4 {
			if d := take(t, b, "key", 1); d.Leased {
				t.Errorf("got %+v before the first reply, want a decision of the store", d)
			}
		}
		if got := lease.CallsInFlight(s); !added || got != 1 {
			t.Errorf("got %d calls, key added: %t; want one call", got, added)
		}
		close(inner.resume)
		if d := <-second; !d.Allowed || !d.Leased {
			t.Errorf("the second request: got %+v, want it decided by the lease", d)
		}
		if got := s.Stats().Calls; got != 1 {
			t.Errorf("got %d calls to the store, want 1", got)
		}
	})
}
