package rlsapi_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/fallback"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/redisstore"
)

// TestReloadsUnderLoad: however often the configuration changes, each request uses one
// configuration, and none is lost.
func TestReloadsUnderLoad(t *testing.T) {
	t.Parallel()
	reloads := 2000
	if testing.Short() {
		reloads = 200
	}
	h := open(t, nil, "", nil)
	config := func(n int) string {
		return fmt.Sprintf("domain: d\ndescriptors:\n"+
			"  - {key: a, rate_limit: {unit: year, requests_per_unit: %d, name: v%d}}\n  - {key: b, rate_limit: {unit: year, requests_per_unit: %d, name: v%d}}\n",
			900_000_000+n, n, 900_000_000+n, n)
	}
	if err := h.Apply(mustConfig(t, config(0))); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for ctx.Err() == nil {
				req := request("d", "a", "x")
				req.Descriptors = append(req.Descriptors, request("d", "b", "x").Descriptors...)
				resp, err := h.ShouldRateLimit(context.Background(), req)
				if err != nil {
					t.Error(err)
					return
				}
				a, b := resp.GetStatuses()[0].GetCurrentLimit(), resp.GetStatuses()[1].GetCurrentLimit()
				if a.GetName() != b.GetName() || a.GetRequestsPerUnit() != b.GetRequestsPerUnit() {
					t.Errorf("one request under %v and %v", a, b)
				}
			}
		})
	}
	for i := range reloads {
		if err := h.Apply(mustConfig(t, config(i%7))); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
}

// TestApplyRejectsUnsupportedRules: a rule may require what the store does not support.
// The configuration is then rejected and the previous one stays in effect.
func TestApplyRejectsUnsupportedRules(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	store, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	h := open(t, store, smallConfig, nil)
	err = h.Apply(mustConfig(t, "domain: d\ndescriptors: [{key: first, rate_limit: {unit: day, requests_per_unit: 1}},"+
		"{key: k, rate_limit: {unit: day, requests_per_unit: 1, on_store_error: local}}]"))
	if err == nil {
		t.Fatal("a store that can be away, and nothing in its place: got no error")
	}
	if _, there := h.Stats().Rules["d.first"]; there {
		t.Error("what is refused left a counter behind")
	}
	resp, err := h.ShouldRateLimit(t.Context(), request("d", "k", "v"))
	if err != nil || resp.GetStatuses()[0].GetCurrentLimit().GetName() != "five" {
		t.Errorf("got %v, error %v, want the last good one", resp, err)
	}
}

// TestStoreStopped: while the store is unavailable, each rule follows its failure mode
// without delay.
func TestStoreStopped(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	remote, err := redisstore.Open("redis://"+redis.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	const budget = 50 * time.Millisecond
	store, err := fallback.New(remote, &fallback.Options{Budget: budget, Local: memstore.New(nil), Instances: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c := client(t, open(t, store, `
domain: d
descriptors:
  - {key: closed, rate_limit: {unit: year, requests_per_unit: 1000}} # more than attempts to connect
  - {key: open, rate_limit: {unit: year, requests_per_unit: 2, on_store_error: open}}
  - {key: local, rate_limit: {unit: year, requests_per_unit: 2, on_store_error: local}}
`, nil), nil)
	code := func(key string) string {
		resp, err := c.ShouldRateLimit(t.Context(), request("d", key, "v"))
		if err != nil {
			return status.Code(err).String()
		}
		return resp.GetOverallCode().String()
	}
	until(t, "the store has connected", func() bool { return code("closed") == "OK" })
	redis.Kill()
	for range 3 {
		for key, want := range map[string][]string{
			"closed": {codes.Unavailable.String()}, "open": {"OK"}, "local": {"OK", "OVER_LIMIT"},
		} {
			begin := time.Now()
			got := code(key)
			if took := time.Since(begin); took > budget+20*time.Second { // fallback verifies the budget, in fake time
				t.Errorf("%s: answered after %v", key, took)
			}
			if got != want[0] && got != want[len(want)-1] {
				t.Errorf("%s with the store unavailable: got %s want %v", key, got, want)
			}
		}
	}
	twice := request("d", "open", "v")
	twice.Descriptors = append(twice.Descriptors, request("d", "open", "v").Descriptors...)
	resp, err := c.ShouldRateLimit(t.Context(), twice)
	if err != nil || resp.GetStatuses()[0].GetLimitRemaining() != 2 {
		t.Errorf("the same twice with the store unavailable: got %v, error %v, want 2 left", resp, err)
	}
}

// TestEnforcement: enforcement shadow and off apply to Envoy requests, too.
func TestEnforcement(t *testing.T) {
	t.Parallel()
	for _, charge := range []rlsapi.ChargeMode{rlsapi.AllOrNone, rlsapi.Each} {
		for enforcement, left := range map[engine.Enforcement]uint32{engine.Off: 5, engine.Shadow: 0} {
			e, err := engine.New(memstore.New(nil), &engine.Options{Enforcement: enforcement})
			if err != nil {
				t.Fatal(err)
			}
			h := mustHandler(t, e, &rlsapi.Options{Charge: charge})
			if err := h.Apply(mustConfig(t, smallConfig+"  - key: none\n    rate_limit: {unit: hour, requests_per_unit: 0}\n")); err != nil {
				t.Fatal(err)
			}
			req := request("d", "k", "v")
			req.Descriptors = append(req.Descriptors, request("d", "none", "v").Descriptors...)
			for i := range 9 {
				resp, err := h.ShouldRateLimit(t.Context(), req)
				if err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OK || resp.GetStatuses()[1].GetCode() != pb.RateLimitResponse_OK {
					t.Errorf("%s, %s: got %v, error %v, want OK", charge, enforcement, resp, err)
				} else if got := resp.GetStatuses()[0].GetLimitRemaining(); i == 8 && got != left {
					t.Errorf("%s, %s: %d left, want %d", charge, enforcement, got, left)
				}
			}
		}
	}
}

// awaitConnection waits until a store has connected, which may take several attempts on a
// slow machine.
func awaitConnection(t *testing.T, store headgate.Store) {
	t.Helper()
	l, err := headgate.New(store, headgate.MustPolicy("1/s"), nil)
	if err != nil {
		t.Fatal(err)
	}
	until(t, "the store has connected", func() bool {
		_, err := l.Peek(t.Context(), "key")
		return err == nil
	})
}

// TestSameOverRedis: one timeline gets equal responses with the memory store and with
// Redis.
func TestSameOverRedis(t *testing.T) {
	t.Parallel()
	redis := testserver.Redis(t)
	r := newRandom(t)
	for _, charge := range []rlsapi.ChargeMode{rlsapi.AllOrNone, rlsapi.Each} {
		remote, err := redisstore.Open("redis://"+redis.Addr()+"?namespace="+string(charge), &redisstore.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = remote.Close() })
		awaitConnection(t, remote)
		var handlers []*rlsapi.Handler
		for _, store := range []headgate.Store{memstore.New(nil), remote} {
			handlers = append(handlers, open(t, store, modelConfig, &rlsapi.Options{Charge: charge}))
		}
		now := headgate.InstantOf(time.Now())
		for i := range 1000 {
			now += headgate.Instant(r.Int64N(400_000))
			_, req := randomRequest(r)
			var answers [2]*pb.RateLimitResponse
			for j, h := range handlers {
				if answers[j], err = h.ShouldRateLimitAt(t.Context(), now, req); err != nil {
					t.Fatal(err)
				}
			}
			if a, b := shown(answers[0], nil), shown(answers[1], nil); a != b {
				t.Fatalf("%s, request %d: %v\nmemory %s\nRedis  %s", charge, i, req, a, b)
			}
		}
	}
}
