package fallback_test

import (
	"context"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/memstore"
)

func TestDecisionAllocations(t *testing.T) {
	inner := newFaultyStore()
	s := around(t, inner, &fallback.Options{Local: memstore.New(nil), Instances: 1, ProbeEvery: time.Minute})
	caller, cancel := context.WithCancel(background)
	defer cancel()
	requireAllocs := func(name string, ctx context.Context, mode headgate.OnStoreError, want float64) {
		t.Helper()
		l := limiter(t, s, "", "1000/1s", mode)
		take := func() { l.AllowAt(ctx, noon.Time(), "key", 1) }
		take()
		// Calls that start within a millisecond share a context, which may be created
		// meanwhile.
		if got := testing.AllocsPerRun(2000, take); got > want {
			t.Errorf("%s: got %v allocations want %v", name, got, want)
		}
	}
	requireAllocs("context without cancellation", background, headgate.FailLocal, 0)
	requireAllocs("context with cancellation", caller, headgate.FailLocal, 1)
	inner.set(failWith(headgate.ReasonRefused))
	l := limiter(t, s, "", "1000/1s", headgate.FailOpen)
	for d := (headgate.Decision{}); d.Degraded != headgate.ReasonBreakerOpen; {
		d, _ = l.AllowAt(background, noon.Time(), "key", 1)
	}
	for _, mode := range []headgate.OnStoreError{headgate.FailClosed, headgate.FailOpen, headgate.FailLocal} {
		requireAllocs("outage, "+string(mode), caller, mode, 0)
	}
}

func BenchmarkDecision(b *testing.B) {
	caller, cancel := context.WithCancel(background)
	defer cancel()
	bare := memstore.New(nil)
	well := around(b, memstore.New(nil), nil)
	inner := newFaultyStore()
	outage := around(b, inner, &fallback.Options{Local: memstore.New(nil), Instances: 1, ProbeEvery: time.Minute})
	for _, c := range []struct {
		name  string
		ctx   context.Context
		store headgate.Store
		mode  headgate.OnStoreError
	}{
		{"memstore alone", caller, bare, headgate.FailOpen},
		{"available", caller, well, headgate.FailOpen},
		{"available, context.Background", background, well, headgate.FailOpen},
		{"outage, local", caller, outage, headgate.FailLocal},
		{"outage, open", caller, outage, headgate.FailOpen},
		{"outage, closed", caller, outage, headgate.FailClosed},
	} {
		l := limiter(b, c.store, "", "1000/1s", c.mode)
		if c.store == outage {
			inner.set(failWith(headgate.ReasonRefused))
			for began := time.Now(); time.Since(began) < 60*time.Millisecond; {
				l.Allow(background, "key")
			}
		}
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.Allow(c.ctx, "key")
			}
		})
	}
	b.Run("context.WithTimeout, for comparison", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			_, cancel := context.WithTimeout(caller, 50*time.Millisecond)
			cancel()
		}
	})
}
