package rlsapi_test

import (
	"context"
	"flag"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/quotaclient"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

var quotaSeed = flag.Uint64("quota-seed", 1, "seed of the simulated Envoys")

// simulationRandom are random numbers for several goroutines. They depend on the seed and
// on the order of the calls.
type simulationRandom struct {
	mu     sync.Mutex
	random *rand.Rand // guarded by mu
}

// newSimulationRandom returns the random numbers of one part of a simulation.
func newSimulationRandom(seed, part uint64) *simulationRandom {
	return &simulationRandom{random: rand.New(rand.NewPCG(seed, part))}
}

// below returns a random number below n.
func (r *simulationRandom) below(n int) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.random.IntN(n)
}

// within returns a random duration below d.
func (r *simulationRandom) within(d time.Duration) time.Duration {
	return time.Duration(r.below(int(d)))
}

// interval returns a random time between two events of a Poisson process.
func (r *simulationRandom) interval(seconds float64) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Duration(r.random.ExpFloat64() * seconds * 1e9)
}

// fakeTimeStore is a store whose clock is that of its goroutines. It loses calls and
// replies at random if faults is set, and all of them while down is set. If unsure is
// set, it loses replies to renewals.
type fakeTimeStore struct {
	*memstore.Store
	random *simulationRandom // unused if exact is set
	faults bool
	unsure bool
	exact  bool         // no latency except reply
	reply  atomic.Int64 // latency of replies in ns
	down   atomic.Bool

	mu    sync.Mutex
	open  map[headgate.HoldID]int64 // units of leases that have not ended
	spent int64                     // units of leases that have ended
	calls []leaseCall
}

// leaseCall is an operation that the store has executed.
type leaseCall struct {
	at time.Time
	op headgate.LeaseOp
}

var errLost = &headgate.StoreError{Store: "test", Reason: headgate.ReasonUnreachable, Advice: "a message was lost"}

func (s *fakeTimeStore) ApplyLease(ctx context.Context, _ headgate.Instant, op headgate.LeaseOp) (headgate.LeaseResult, error) {
	time.Sleep(s.latency())
	if s.down.Load() || s.faults && s.random.below(20) == 0 {
		return headgate.LeaseResult{}, errLost
	}
	r, err := s.Store.ApplyLease(ctx, headgate.InstantOf(time.Now()), op)
	if err == nil {
		s.note(&op, &r)
	}
	time.Sleep(time.Duration(s.reply.Load()) + s.latency())
	if s.faults && s.random.below(20) == 0 || s.unsure && op.Previous != (headgate.HoldID{}) && s.random.below(4) == 0 {
		return headgate.LeaseResult{}, errLost
	}
	return r, err
}

// latency returns the latency of a message between the service and the store: up to 2 ms,
// and sometimes up to a second.
func (s *fakeTimeStore) latency() time.Duration {
	switch {
	case s.exact:
		return 0
	case s.random.below(100) == 0:
		return s.random.within(time.Second)
	}
	return s.random.within(2 * time.Millisecond)
}

// note keeps account of the units that were spent under leases.
func (s *fakeTimeStore) note(op *headgate.LeaseOp, r *headgate.LeaseResult) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.exact {
		s.calls = append(s.calls, leaseCall{time.Now(), *op})
	}
	if _, ok := s.open[op.Previous]; ok && r.PreviousOpen {
		s.spent += op.Spent
		delete(s.open, op.Previous)
	}
	if r.Units > 0 {
		s.open[op.ID] = r.Units
	}
}

// total returns the number of units that clients may have spent, at the end. A lease that
// has not ended counts as spent.
func (s *fakeTimeStore) total() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := s.spent
	for _, units := range s.open {
		sum += units
	}
	return sum
}

// executed returns the operations of an exact store.
func (s *fakeTimeStore) executed() []leaseCall {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// pipe is a stream whose messages arrive in order, after at most 240 ms.
type pipe struct {
	ctx     context.Context
	random  *simulationRandom
	reports chan delayed[[]byte]
	answers chan delayed[*quotapb.RateLimitQuotaResponse]
	last    [2]time.Time
	mu      sync.Mutex
}

type delayed[T any] struct {
	at      time.Time
	message T
}

func newPipe(ctx context.Context, random *simulationRandom) *pipe {
	return &pipe{ctx: ctx, random: random, reports: make(chan delayed[[]byte], 1000), answers: make(chan delayed[*quotapb.RateLimitQuotaResponse], 1000)}
}

// arrival returns when the next message in a direction arrives.
func (p *pipe) arrival(direction int) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(p.random.within(5 * time.Millisecond))
	if p.random.below(3) == 0 {
		at = time.Now().Add(p.random.within(240 * time.Millisecond))
	}
	if at.Before(p.last[direction]) {
		at = p.last[direction]
	}
	p.last[direction] = at
	return at
}

func pass[T any](ctx context.Context, from chan delayed[T]) (message T, err error) {
	select {
	case d := <-from:
		time.Sleep(time.Until(d.at))
		return d.message, ctx.Err()
	case <-ctx.Done():
		return message, io.EOF
	}
}

func (p *pipe) Send(r *quotapb.RateLimitQuotaUsageReports) error {
	b, err := proto.Marshal(r)
	if err == nil {
		p.reports <- delayed[[]byte]{p.arrival(0), b}
	}
	return err
}

func (p *pipe) Recv() (*quotapb.RateLimitQuotaResponse, error) { return pass(p.ctx, p.answers) }

func (p *pipe) read() ([]byte, error) { return pass(p.ctx, p.reports) }

func (p *pipe) write(r *quotapb.RateLimitQuotaResponse) error {
	p.answers <- delayed[*quotapb.RateLimitQuotaResponse]{p.arrival(1), proto.Clone(r).(*quotapb.RateLimitQuotaResponse)}
	return p.ctx.Err()
}

// quotaSimulation is a run of several Envoys at two instances of the service, in fake
// time.
type quotaSimulation struct {
	rule     string        // rate_limit of the bucket
	rate     float64       // requests per second of all Envoys
	interval time.Duration // between reports
	duration time.Duration
	envoys   int
	faults   bool // lost calls of the store, ended streams, and an outage of the store
	unsure   bool // lost replies to renewals
}

// run returns the times of all admitted requests, and the number of requests.
func (s quotaSimulation) run(t *testing.T) (admitted []int64, requests int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		random := newSimulationRandom(*quotaSeed, 1<<32)
		store := &fakeTimeStore{Store: memstore.New(nil), random: random, faults: s.faults, unsure: s.unsure, open: make(map[headgate.HoldID]int64)}
		defer store.Close()
		var instances []*rlsapi.Handler
		for range 2 {
			instances = append(instances, open(t, store, "domain: d\ndescriptors: [{key: k, rate_limit: "+s.rule+"}]", nil))
		}
		ctx, cancel := context.WithTimeout(t.Context(), s.duration)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		for i := range s.envoys {
			all.Go(func() {
				c := s.envoy(ctx, instances, i)
				mu.Lock()
				defer mu.Unlock()
				times, denied := c.Log()
				admitted = append(admitted, times...)
				requests += len(times) + denied
			})
		}
		if s.faults {
			time.Sleep(s.duration / 2)
			store.down.Store(true)
			time.Sleep(15 * time.Second)
			store.down.Store(false)
		}
		all.Wait()
		if total := store.total(); int64(len(admitted)) > total {
			t.Errorf("%+v, seed %d: %d requests were admitted, and %d units were spent", s, *quotaSeed, len(admitted), total)
		}
	})
	return admitted, requests
}

// envoy is one Envoy until ctx ends.
func (s quotaSimulation) envoy(ctx context.Context, instances []*rlsapi.Handler, i int) *quotaclient.Client {
	c := quotaclient.New("d")
	random := newSimulationRandom(*quotaSeed, uint64(i))
	var all sync.WaitGroup
	all.Go(func() { c.ReportEvery(ctx, s.interval) })
	all.Go(func() { s.request(ctx, c, newSimulationRandom(*quotaSeed, 1<<16+uint64(i))) })
	for n := i; ctx.Err() == nil; n++ {
		life := s.duration
		if s.faults {
			life = random.within(20 * time.Second)
		}
		stream, end := context.WithTimeout(ctx, life)
		p := newPipe(stream, random)
		all.Go(func() { _ = instances[n%len(instances)].ServeQuotas(stream, p.read, p.write) })
		_ = c.Serve(p)
		end()
		time.Sleep(random.within(time.Second))
	}
	all.Wait()
	return c
}

// request sends requests at random intervals. With faults, there are pauses, in which the
// client saves tokens, and bursts.
func (s quotaSimulation) request(ctx context.Context, c *quotaclient.Client, random *simulationRandom) {
	mean := float64(s.envoys) / s.rate
	for ctx.Err() == nil {
		speed := 1.0
		if s.faults {
			time.Sleep(random.within(6 * time.Second))
			speed = 1 + float64(random.below(1000))/100
		}
		for range random.below(2000) {
			time.Sleep(random.interval(mean / speed).Round(time.Microsecond))
			if ctx.Err() != nil {
				return
			}
			c.Request(map[string]string{"k": "v"})
		}
	}
}

// TestQuotaSimulation: in no span, all Envoys together admit more than the limit, also if
// streams end, calls of the store are lost, and the store is unavailable. Without faults,
// most of the limit is admitted. It is not parallel, because it uses all processors.
func TestQuotaSimulation(t *testing.T) {
	second := time.Second.Microseconds()
	for name, c := range map[string]struct {
		rule  string
		above func(admitted []int64) int64
		least float64 // of the limit of 200 per second, without faults
	}{
		"token_bucket":          {`{algorithm: token_bucket, limits: ["200/1s burst 400"]}`, bucketOf(200, second, 400), 0.8},
		"short bucket":          {`{algorithm: token_bucket, limits: ["200/1s"]}`, bucketOf(200, second, 200), 0.5},
		"token_bucket_interval": {`{algorithm: token_bucket_interval, limits: ["200/1s burst 400"]}`, bucketOf(200, second, 600), 0.8},
		"fixed_window":          {`{unit: second, unit_multiplier: 20, requests_per_unit: 4000}`, windowOf(4000, 20*second), 0.7},
		"sliding_window":        {`{algorithm: sliding_window, limits: ["4000/20s"]}`, bucketOf(4000, 20*second, 4000), 0.7},
		"budget":                {`{algorithm: token_bucket, limits: ["10000/24h"]}`, bucketOf(10000, 86400*second, 10000), 0.4},
		"two limits":            {`{algorithm: token_bucket, limits: ["200/1s burst 400", "12000/1m"]}`, bucketOf(200, second, 400), 0.8},
	} {
		for _, mode := range []string{"no faults", "lost replies", "faults", "faults, rare reports"} {
			if mode == "faults, rare reports" && testing.Short() {
				continue
			}
			s := quotaSimulation{rule: c.rule, rate: 600, interval: time.Second, duration: 2 * time.Minute, envoys: 4}
			s.unsure, s.faults = mode == "lost replies", strings.HasPrefix(mode, "faults")
			if mode == "faults, rare reports" { // most assignments expire between two reports
				s.interval = 12 * time.Second
			}
			if testing.Short() {
				s.duration = time.Minute
			}
			admitted, requests := s.run(t)
			share := float64(len(admitted)) / (200 * s.duration.Seconds())
			t.Logf("%s, %s, seed %d: %d of %d requests admitted, %.1f%% of the limit", name, mode, *quotaSeed, len(admitted), requests, 100*share)
			if above := c.above(admitted); above > 0 {
				t.Errorf("%s, %s, seed %d: a span has %d requests above the limit", name, mode, *quotaSeed, above)
			}
			if mode == "no faults" && share < c.least {
				t.Errorf("%s, seed %d: %.1f%% of the limit was admitted, want %.0f%%", name, *quotaSeed, 100*share, 100*c.least)
			}
		}
	}
}

func bucketOf(rate, period, capacity int64) func([]int64) int64 {
	return func(admitted []int64) int64 { return quotaclient.AboveBucket(admitted, rate, period, capacity) }
}

func windowOf(limit, period int64) func([]int64) int64 {
	return func(admitted []int64) int64 { return quotaclient.AboveWindow(admitted, limit, period) }
}

// TestQuotaLowLoad: below the limit, nearly every request is admitted, also if reports
// are rare.
func TestQuotaLowLoad(t *testing.T) {
	t.Parallel()
	for name, rule := range map[string]string{
		"token_bucket": `{algorithm: token_bucket, limits: ["200/1s burst 400"]}`,
		"fixed_window": `{unit: minute, requests_per_unit: 12000}`,
	} {
		for _, interval := range []time.Duration{time.Second, 10 * time.Second} {
			s := quotaSimulation{rule: rule, rate: 100, interval: interval, duration: 5 * time.Minute, envoys: 4}
			admitted, requests := s.run(t)
			share := float64(len(admitted)) / float64(requests)
			t.Logf("%s, reports each %v, seed %d: %.2f%% of %d requests admitted", name, interval, *quotaSeed, 100*share, requests)
			if share < 0.8 {
				t.Errorf("%s, reports each %v, seed %d: %.2f%% of the requests were admitted, want 80%%", name, interval, *quotaSeed, 100*share)
			}
		}
	}
}
