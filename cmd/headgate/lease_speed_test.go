package main

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/load"
	"github.com/headgate/headgate/internal/testserver"
)

var (
	leaseRounds = flag.Int("lease-rounds", 1, "number of rounds of TestLeasedThroughput")
	leaseRound  = flag.Duration("lease-round", 100*time.Millisecond, "duration of each load of TestLeasedThroughput")
)

// measured are the measurements of a service.
type measured struct {
	perSecond  []float64 // calls per second, in each round
	calls, cpu float64   // number, and µs of CPU time, in all rounds
}

func (m *measured) cpuPerCall() float64 { return m.cpu / max(m.calls, 1) }

// TestLeasedThroughput logs the throughput of services with one hot key: in memory,
// leased from Redis, and on Redis without leases. The rounds of the services alternate.
func TestLeasedThroughput(t *testing.T) {
	const policy = "  hot: {limits: [100000000/1s], lease: "
	const rule = "  - {key: hot, rate_limit: {limits: [100000000/1s], lease: "
	redis := testserver.Redis(t)
	services := map[string]*leasing{
		"memory":       startLeasingOn(t, "memory://", "1m", policy+"off}\n", rule+"off}}\n"),
		"leased Redis": startLeasing(t, redis, policy+"auto}\n", rule+"auto}}\n"),
		"Redis":        startLeasing(t, redis, policy+"off}\n", rule+"off}}\n"),
	}
	names := []string{"memory", "leased Redis", "Redis"}
	for api, scheme := range map[string]string{"http": "http://", "grpc": "grpc://"} {
		results := make(map[string]*measured)
		for round := range *leaseRounds {
			for i := range names {
				name := names[(i+round)%len(names)]
				if results[name] == nil {
					results[name] = &measured{}
				}
				results[name].add(t, services[name], scheme+services[name].addrs[api])
			}
		}
		memory := results["memory"]
		for _, name := range names {
			m := results[name]
			t.Logf("%s, %s: %.0f calls per second (%.0f %% of memory), %.1f µs of CPU per call (%.0f %%)", api, name,
				median(m.perSecond), 100*medianRatio(m.perSecond, memory.perSecond), m.cpuPerCall(), 100*m.cpuPerCall()/memory.cpuPerCall())
		}
	}
	leased := services["leased Redis"]
	eventually(t, "a decision from memory", func() bool { // the rounds are short
		new(measured).add(t, leased, "http://"+leased.addrs["http"])
		return leased.metric("headgate_lease_decisions_total") > 0
	})
}

// add measures one round. The first calls are not measured.
func (m *measured) add(t *testing.T, s *leasing, url string) {
	t.Helper()
	opts := &load.Options{Connections: 16, Keys: 1, Policy: "hot", Domain: "d", Entry: "hot", Duration: *leaseRound / 4}
	if url[:4] == "grpc" {
		opts.Policy = ""
	}
	mustLoad(t, url, opts)
	opts.Duration = *leaseRound
	before := s.metric("process_cpu_seconds_total")
	result := mustLoad(t, url, opts)
	m.perSecond = append(m.perSecond, result.PerSecond())
	m.calls += float64(result.Calls())
	m.cpu += 1e6 * (s.metric("process_cpu_seconds_total") - before)
}

// mustLoad makes calls for opts.Duration. If no call has ended in that time, it tries
// again with twice the time.
func mustLoad(t *testing.T, url string, opts *load.Options) *load.Result {
	t.Helper()
	for repeated := *opts; repeated.Duration < time.Minute; repeated.Duration *= 2 {
		run, err := load.Start(t.Context(), url, &repeated)
		if err != nil {
			t.Fatal(err)
		}
		result := run.Wait()
		if result.Failed > 0 {
			t.Fatalf("%d of %d calls failed: %v", result.Failed, result.Failed+result.Calls(), result.First)
		}
		if result.Calls() > 0 {
			return result
		}
	}
	t.Fatal("no call has ended within half a minute")
	return nil
}

// medianRatio returns the median of the ratios of a to b in each round.
func medianRatio(a, b []float64) float64 {
	ratios := make([]float64, len(a))
	for i := range a {
		ratios[i] = a[i] / b[i]
	}
	return median(ratios)
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}
