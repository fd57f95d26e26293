package lease_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// hot returns a bound whose key is leased with many units for a minute.
func hot(t testing.TB) headgate.Bound {
	t.Helper()
	rule := ruleOf("1000000000/1s")
	rule.Lease.TTL = time.Minute
	b := bind(t, open(t, nil, nil), rule)
	warm(t, b, "key")
	for range 100_000 { // the demand is measured
		take(t, b, "key", 1)
	}
	warm(t, b, "key")
	return b
}

// A decision from memory does not allocate, whether it allows or denies.
func TestDecisionsFromMemoryDoNotAllocate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, nil, nil)
		b := bind(t, s, ruleOf("1000/1h"))
		warm(t, b, "key")
		for range 100 { // the demand is measured
			take(t, b, "key", 1)
			time.Sleep(time.Millisecond)
		}
		leased := true
		count := func() float64 {
			return testing.AllocsPerRun(3, func() { leased = leased && take(t, b, "key", 1).Leased })
		}
		if n := count(); n != 0 || !leased {
			t.Errorf("allowed: %v allocations, from memory: %v; want none", n, leased)
		}
		for take(t, b, "key", 1).Allowed {
			time.Sleep(time.Microsecond)
		}
		if n := count(); n != 0 || !leased {
			t.Errorf("denied: %v allocations, from memory: %v; want none", n, leased)
		}
	})
}

func BenchmarkDecisionFromMemory(b *testing.B) {
	bound := hot(b)
	b.ReportAllocs()
	b.ResetTimer()
	leased := 0
	for range b.N {
		if d, _ := bound.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1); d.Leased {
			leased++
		}
	}
	b.ReportMetric(float64(leased)/float64(b.N), "leased/op")
}

func BenchmarkDecisionFromMemoryParallel(b *testing.B) {
	bound := hot(b)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			_, _ = bound.Apply(ctx, headgate.StoreClock, "key", headgate.Take, 1)
		}
	})
}

// BenchmarkUnleased compares the inner store with a rule without leases and with a leased
// rule.
func BenchmarkUnleased(b *testing.B) {
	inner := memstore.New(nil)
	s := open(b, inner, nil)
	leased := ruleOf("1000000/1s")
	plain := leased
	plain.Lease = headgate.LeaseSettings{}
	keys := make([]string, 1<<16)
	for i := range keys {
		keys[i] = fmt.Sprint("key", i)
	}
	for _, c := range []struct {
		name  string
		bound headgate.Bound
	}{{"inner", bind(b, inner, plain)}, {"unleased", bind(b, s, plain)}, {"cold", bind(b, s, leased)}} {
		b.Run(c.name, func(b *testing.B) {
			for i := range b.N {
				_, _ = c.bound.Apply(ctx, headgate.StoreClock, keys[i&(len(keys)-1)], headgate.Take, 1)
			}
		})
	}
}
