package lease_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
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

// BenchmarkUnleased compares a rule without leases, in a store that leases another key,
// with the same rule in the inner store. cold is a leased rule whose keys have few
// requests. All take turns, so that changes in the machine's speed affect all of them.
func BenchmarkUnleased(b *testing.B) {
	b.Run("memory", func(b *testing.B) {
		compareUnleased(b, memstore.New(nil), 1, 1<<16, 1000)
	})
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("redis-%d", callers), func(b *testing.B) {
			inner, err := redisstore.Open("redis://"+testserver.Redis(b).Addr(), nil)
			if err != nil {
				b.Fatal(err)
			}
			compareUnleased(b, inner, callers, 10_000, 100)
		})
	}
}

// compareUnleased makes the requests of b.N in turns. It reports the median time of each
// case and the median of the ratios to the inner store.
func compareUnleased(b *testing.B, inner headgate.LeaseStore, callers, keys, turn int) {
	b.Helper()
	s := open(b, inner, nil)
	hot := bind(b, s, ruleOf("1000/1s"))
	cold := ruleOf("1000000/1s")
	cold.Lease.TTL = 10 * time.Millisecond // no key has more than three requests in it
	plain := cold
	plain.Lease = headgate.LeaseSettings{}
	names := make([]string, keys)
	for i := range names {
		names[i] = fmt.Sprint("key", i)
	}
	bounds := []headgate.Bound{bind(b, inner, plain), bind(b, s, plain), bind(b, s, cold)}
	times, ratios := make([][]float64, len(bounds)), make([][]float64, len(bounds))
	b.ResetTimer()
	for round, size := 0, turn*callers*len(bounds); round*size < b.N; round++ {
		warm(b, hot, "hot")
		took := make([]float64, len(bounds))
		for i := range bounds {
			i = (i + round) % len(bounds)
			took[i] = float64(ask(bounds[i], names, round*size+i*turn*callers, callers, turn)) / float64(turn*callers)
		}
		for i := range bounds {
			times[i], ratios[i] = append(times[i], took[i]), append(ratios[i], took[i]/took[0])
		}
	}
	for i, name := range []string{"inner", "unleased", "cold"} {
		b.ReportMetric(median(times[i]), name+"-ns/op")
		if i > 0 {
			b.ReportMetric(median(ratios[i]), name+"/inner")
		}
	}
}

// ask makes n requests with each of the callers and returns the time.
func ask(bound headgate.Bound, keys []string, from, callers, n int) time.Duration {
	begun := time.Now()
	var all sync.WaitGroup
	for c := range callers {
		all.Go(func() {
			for i := range n {
				_, _ = bound.Apply(ctx, headgate.StoreClock, keys[(from+c*n+i)%len(keys)], headgate.Take, 1)
			}
		})
	}
	all.Wait()
	return time.Since(begun)
}

func median(values []float64) float64 {
	slices.Sort(values)
	return values[len(values)/2]
}
