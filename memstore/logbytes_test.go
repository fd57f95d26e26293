package memstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// TestCountedMemory executes random operations on small stores. After each, the memory
// that is counted for logs and holds is the memory of the state: if it were less, a store
// could exceed its maximum, and a folder that was saved would not fit into a store with
// the same bounds.
func TestCountedMemory(t *testing.T) {
	t.Parallel()
	for seed := range uint64(atLeast(5, 30)) {
		s := memstore.New(&memstore.Options{MaxEntries: 150})
		p := newPlayer(t, s, seed, headgate.InstantOf(time.Unix(1_700_000_000, 0)), 40)
		for i := range 3000 {
			p.step(t)
			if counted, sum := s.BytesOfLogsAndHolds(); counted != sum {
				t.Fatalf("seed %d, step %d: %d bytes are counted, the state has %d", seed, i, counted, sum)
			}
		}
	}
}

// TestRefundOfOnlyEntryWithOpenHold: a refund that returns the only unit of a sliding log
// removes the log once, although the key has an open hold.
func TestRefundOfOnlyEntryWithOpenHold(t *testing.T) {
	t.Parallel()
	s := memstore.New(nil)
	l := newLimiter(t, s, "p", headgate.SlidingLog, "7/1h")
	at := time.Unix(1_700_000_000, 0)
	if h, err := l.HoldAt(t.Context(), at, "k", 1, time.Minute); err != nil || !h.OK() {
		t.Fatalf("got hold %+v, error %v", h, err)
	}
	if _, err := l.RefundAt(t.Context(), at, "k", 1); err != nil {
		t.Fatal(err)
	}
	if counted, sum := s.BytesOfLogsAndHolds(); counted != sum {
		t.Errorf("%d bytes are counted, the state has %d", counted, sum)
	}
}
