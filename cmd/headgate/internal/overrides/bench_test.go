package overrides_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/overrides"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
)

// BenchmarkDecisions compares decisions without overrides and with 10,000, in turns of 5
// ms, so that a busy machine disturbs both. It reports the medians of the turns and their
// ratio.
func BenchmarkDecisions(b *testing.B) {
	server := testserver.Redis(b)
	for name, open := range map[string]func() headgate.Store{
		"redis": func() headgate.Store { return openRedis(b, "redis://"+server.Addr()) },
		"memory": func() headgate.Store {
			store := memstore.New(nil)
			b.Cleanup(func() { _ = store.Close() })
			return store
		},
	} {
		b.Run(name, func(b *testing.B) {
			none, many := newInstance(b, open(), overrides.Options{}), newInstance(b, open(), overrides.Options{})
			large := headgate.MustPolicy("1000000000/1h")
			large.Algorithm = headgate.FixedWindow
			for _, i := range []*instance{none, many} {
				if err := i.engine.Apply(&engine.Options{Policies: map[string]headgate.Policy{"api": large}}); err != nil {
					b.Fatal(err)
				}
			}
			var all []engine.LiveOverride
			for i := range 10_000 {
				target := [...]string{"key:k%d", "pattern:t%d-*", "network:10.%d.0.0/16"}[i%3]
				if i%3 == 2 {
					target = fmt.Sprintf("network:10.%d.%d.0/24", i/256%256, i%256)
				} else {
					target = fmt.Sprintf(target, i)
				}
				all = append(all, engine.LiveOverride{Policy: "api", Target: target, Limits: large.Limits})
			}
			if err := many.engine.ApplyLive(all); err != nil {
				b.Fatal(err)
			}
			keys := make([]string, 1024)
			for i := range keys {
				keys[i] = fmt.Sprintf("k%d", 3*i)
			}
			var without, with []float64
			for b.Loop() {
				without = append(without, turn(b, none, keys))
				with = append(with, turn(b, many, keys))
			}
			slices.Sort(without)
			slices.Sort(with)
			b.ReportMetric(without[len(without)/2], "ns/decision-without")
			b.ReportMetric(with[len(with)/2], "ns/decision-with")
			b.ReportMetric(100*(with[len(with)/2]/without[len(without)/2]-1), "%-longer")
		})
	}
}

// turn decides for 5 ms, and returns the ns per decision.
func turn(b *testing.B, i *instance, keys []string) float64 {
	var a engine.Answer
	check, n, begin := []engine.Check{{Policy: "api", Cost: 1}}, 0, time.Now()
	for time.Since(begin) < 5*time.Millisecond {
		for range 16 {
			check[0].Key = keys[n%len(keys)]
			if err := i.engine.Decide(b.Context(), headgate.Take, check, &a); err != nil {
				b.Fatal(err)
			}
			n++
		}
	}
	return float64(time.Since(begin)) / float64(n)
}
