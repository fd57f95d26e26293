package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/testserver"
	crowdtest "github.com/headgate/headgate/storetest/crowd"
	"github.com/headgate/headgate/storetest/model"
)

// leasedLimit is the limit of the load, 30 units of which are on lease.
const leasedLimit = "300/1s"

// Two services share one key of the HTTP API and one of Envoy's API on Redis, each with
// three times the limit. Redis is stopped for a moment, and one service is killed. No
// span has more units than the limit without leases.
func TestLeasingServicesKeepTheLimit(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	var both [2]*leasing
	for i := range both {
		both[i] = startLeasingOn(t, "redis://"+redis.Addr(), "500ms", "  hot: {limits: ["+leasedLimit+"], lease: {share: 10%, ttl: 500ms}}\n",
			"  - {key: hot, rate_limit: {limits: ["+leasedLimit+"], lease: auto}}\n")
	}
	calls := 700
	if testing.Short() {
		calls = 350
	}
	l := &leaseLoad{ctx: t.Context(), calls: calls}
	for _, s := range both {
		for range 2 {
			l.callers.Go(func() { l.run(s, &l.http, s.checkHot) })
			l.callers.Go(func() {
				l.run(s, &l.envoy, func(ctx context.Context) (bool, error) { return s.shouldLimit(ctx, "hot", "v") })
			})
		}
	}
	eventually(t, "an eighth of the calls", func() bool { return l.made.Load() > int64(calls) })
	redis.Stop()
	before := l.made.Load()
	eventually(t, "calls while Redis is stopped", func() bool { return l.made.Load() > before+20 })
	redis.Continue()
	eventually(t, "half of the calls", func() bool { return l.made.Load() > int64(4*calls) })
	l.killed.Store(both[1])
	if err := both[1].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	l.callers.Wait()
	for name, all := range map[string]*admissions{"HTTP": &l.http, "Envoy": &l.envoy} {
		if err := crowdtest.Check(all.list, model.UpperBoundOf(headgate.TokenBucket, headgate.MustParseLimit(leasedLimit))); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if len(all.list) < 270 {
			t.Errorf("%s: %d units were allowed, want at least 270: those that are never on lease", name, len(all.list))
		}
	}
	if l.failed.Load() != nil {
		t.Errorf("a call of the service that was not killed failed: %v", *l.failed.Load())
	}
	if got := both[0].metric("headgate_lease_decisions_total"); got < 100 {
		t.Errorf("%v decisions were made in memory, want at least 100", got)
	}
	t.Logf("%d calls: %d units allowed over HTTP, %d over gRPC; %v decisions in memory, %v calls for leases in the service that was not killed",
		l.made.Load(), len(l.http.list), len(l.envoy.list), both[0].metric("headgate_lease_decisions_total"), both[0].metric("headgate_lease_store_calls_total"))
}

// leaseLoad is the load of a test.
type leaseLoad struct {
	ctx         context.Context
	calls       int // of each caller
	callers     sync.WaitGroup
	made        atomic.Int64
	failed      atomic.Pointer[error]
	killed      atomic.Pointer[leasing]
	http, envoy admissions
}

type admissions struct {
	mu   sync.Mutex
	list []crowdtest.Admission
}

// run makes calls at three quarters of the limit, and ends when the service is killed.
// While Redis is stopped, a call may fail.
func (l *leaseLoad) run(s *leasing, to *admissions, call func(context.Context) (bool, error)) {
	next := time.Now()
	for range l.calls {
		before := time.Now()
		allowed, err := call(l.ctx)
		l.made.Add(1)
		switch {
		case err != nil && l.killed.Load() == s:
			return
		case status.Code(err) == codes.Unavailable: // Redis is stopped
		case err != nil:
			l.failed.CompareAndSwap(nil, &err)
		case allowed:
			to.mu.Lock()
			to.list = append(to.list, crowdtest.Admission{Before: before.UnixMicro(), After: time.Now().UnixMicro() + 1, Cost: 1})
			to.mu.Unlock()
		}
		next = next.Add(time.Duration(rand.ExpFloat64() / 225 * float64(time.Second)))
		time.Sleep(time.Until(next))
	}
}

// checkHot sends one check of the policy hot. While Redis is stopped, the status is 503.
func (s *leasing) checkHot(ctx context.Context) (allowed bool, err error) {
	d, err := s.ask(ctx, "check", "hot", "k")
	if err == nil && d.Status != http.StatusOK && d.Status != http.StatusTooManyRequests && d.Status != http.StatusServiceUnavailable {
		err = fmt.Errorf("status %d", d.Status)
	}
	return d.Allowed && d.Status == http.StatusOK, err
}

// While Redis is stopped for less than the TTL, the service goes on deciding.
func TestLeasesOutliveStoppedRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	const limit = "limits: [10000/1s], lease: {share: 1%, ttl: 1m}" // at most 100 units of a key are on lease
	s := startLeasingOn(t, "redis://"+redis.Addr(), "500ms", "  hot: {"+limit+"}\n", "  - {key: hot, rate_limit: {"+limit+"}}\n")
	eventually(t, "more than 30 units of each key on lease", func() bool {
		for range 10 {
			s.check("hot", "k")
			_, _ = s.shouldLimit(t.Context(), "hot", "v") // a busy machine may need longer than the budget
		}
		return s.metric("headgate_lease_keys") == 2 && s.metric("headgate_lease_units") > 130
	})
	redis.Stop()
	defer redis.Continue()
	for range 30 {
		if d := s.check("hot", "k"); !d.Allowed || !d.Leased || !d.Results[0].Leased || d.Degraded {
			t.Fatalf("while Redis is stopped: got %+v, want an answer from memory", d)
		}
		if allowed, err := s.shouldLimit(t.Context(), "hot", "v"); !allowed || err != nil {
			t.Fatalf("while Redis is stopped: got %v, %v from Envoy's API, want allowed", allowed, err)
		}
	}
	if d := s.check("hot", "other"); d.Status != http.StatusServiceUnavailable {
		t.Errorf("a key that is not leased: got %+v, want 503", d)
	}
	redis.Continue()
	eventually(t, "a decision of Redis", func() bool { return s.check("hot", "other").Allowed })
}

// A service that shuts down returns the units that it has not spent. It waits for at most
// one second, so on a busy machine some of several services may not return them.
func TestShutdownReturnsLeasedUnits(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	const policies = "  budget: {limits: [100000/366d], lease: {share: 50%, ttl: 1m}}\n"
	last := startLeasing(t, redis, policies, "")
	for try := range 5 {
		key := fmt.Sprint(try)
		first, spent := startLeasing(t, redis, policies, ""), int64(0)
		eventually(t, "a leased decision", func() bool { spent++; return first.check("budget", key).Leased })
		if err := first.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := first.cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		switch left := last.peek("budget", key).Remaining; {
		case left == 100000-spent:
			return
		case left > 100000-spent:
			t.Fatalf("%d units remain after %d were spent", left, spent)
		}
	}
	t.Error("no service has returned its units")
}
