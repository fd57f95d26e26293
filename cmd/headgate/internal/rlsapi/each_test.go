package rlsapi_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

const eachConfig = `
domain: t
descriptors:
  - key: plain
    rate_limit: {unit: year, requests_per_unit: 6}
  - key: quota
    rate_limit: {unit: year, requests_per_unit: 6}
    quota_mode: true
  - key: shadow
    rate_limit: {unit: year, requests_per_unit: 6}
    shadow_mode: true
  - key: blocked
    rate_limit: {unit: year, requests_per_unit: 0}
`

// counters are the counters of envoyproxy/ratelimit.
type counters map[string]int64

// counterOf returns the key whose counter a hit uses.
func counterOf(h hit) string { return strings.TrimPrefix(h.key, "own ") }

// limitOf returns the limit of a hit. If the key begins with own, the limit is in the
// request.
func limitOf(h hit) int64 {
	switch h.key {
	case "own", "own shadow":
		return h.own
	case "blocked":
		return 0
	}
	return 6
}

// count counts hits. It reports whether the counter is then over its limit, and how
// many hits are left.
func (c counters) count(h hit) (over bool, left int64) {
	key := counterOf(h)
	over = c[key]+h.cost > limitOf(h)
	c[key] += h.cost
	return over, max(0, limitOf(h)-c[key])
}

func (c counters) answer(all []hit) string {
	words := make([]string, len(all))
	denied, quotas, passed := false, false, false
	for _, h := range all {
		if h.negative {
			c[counterOf(h)] = max(0, c[counterOf(h)]-h.cost)
			passed = passed || h.key == "quota"
		}
	}
	for i, h := range all {
		if h.negative {
			words[i] = wordOf(false, max(0, limitOf(h)-c[counterOf(h)]))
		}
	}
	for i, h := range all {
		if h.negative {
			continue
		}
		over, left := c.count(h)
		over = over && h.key != "shadow"
		words[i] = wordOf(over, left)
		denied = denied || over && h.key != "quota"
		quotas, passed = quotas || h.key == "quota", passed || h.key == "quota" && !over
	}
	return wordOf(denied || quotas && !passed, 0) + " | " + strings.Join(words, " | ")
}

func wordOf(over bool, left int64) string {
	if over {
		return "OVER_LIMIT 0"
	}
	return fmt.Sprint("OK ", left)
}

// TestEach: in mode Each, random requests get the responses of envoyproxy/ratelimit.
func TestEach(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	rounds := 1000
	if testing.Short() {
		rounds = 200
	}
	for i := range rounds {
		h, c := open(t, nil, eachConfig, &rlsapi.Options{Charge: rlsapi.Each}), make(counters)
		for j := range 10 {
			var all []hit
			req := &pb.RateLimitRequest{Domain: "t"}
			for range 1 + r.IntN(5) {
				one := hit{
					key:  []string{"plain", "quota", "shadow", "blocked", "own", "own shadow"}[r.IntN(6)],
					cost: max(0, r.Int64N(12)-3), negative: r.IntN(8) == 0, own: r.Int64N(20),
				}
				all = append(all, one)
				d := &ratelimit.RateLimitDescriptor{
					Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: counterOf(one), Value: "v"}},
					HitsAddend: wrapperspb.UInt64(uint64(one.cost)), IsNegativeHits: one.negative,
				}
				if strings.HasPrefix(one.key, "own") {
					d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(one.own), Unit: 6}
				}
				req.Descriptors = append(req.Descriptors, d)
			}
			resp, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req)
			if err != nil {
				t.Fatal(err)
			}
			before := fmt.Sprint(c)
			got := wordOf(resp.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT, 0)
			for _, s := range resp.GetStatuses() {
				got += " | " + wordOf(s.GetCode() == pb.RateLimitResponse_OVER_LIMIT, int64(s.GetLimitRemaining()))
			}
			if want := c.answer(all); got != want {
				t.Fatalf("round %d, request %d: %v behind %s\n got %s\nwant %s", i, j, all, before, got, want)
			}
		}
	}
}

// TestEachExhaustsWindow: a denied request exhausts the window, even if other requests
// spend concurrently.
func TestEachExhaustsWindow(t *testing.T) {
	t.Parallel()
	h := open(t, nil, eachConfig, &rlsapi.Options{Charge: rlsapi.Each})
	ask := func(key string, hits uint64) pb.RateLimitResponse_Code {
		req := request("t", "plain", key)
		req.Descriptors[0].HitsAddend = wrapperspb.UInt64(hits)
		resp, err := h.ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Error(err)
		}
		return resp.GetOverallCode()
	}
	rounds := 3000
	if testing.Short() {
		rounds = 300
	}
	for i := range rounds {
		key := fmt.Sprint(i)
		var wg sync.WaitGroup
		wg.Go(func() { ask(key, 7) })
		for range 3 {
			wg.Go(func() { ask(key, 1) })
		}
		wg.Wait()
		if code := ask(key, 0); code != pb.RateLimitResponse_OVER_LIMIT {
			t.Fatalf("round %d: hits of 0 behind hits that were denied: got %v want OVER_LIMIT", i, code)
		}
	}
}

// askEach sends hits of one value of a key, and returns its status.
func askEach(t *testing.T, h *rlsapi.Handler, key string, hits uint64) string {
	t.Helper()
	req := request("t", key, "v")
	req.Descriptors[0].HitsAddend = wrapperspb.UInt64(hits)
	resp, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req)
	if err != nil {
		t.Fatal(err)
	}
	s := resp.GetStatuses()[0]
	return wordOf(s.GetCode() == pb.RateLimitResponse_OVER_LIMIT, int64(s.GetLimitRemaining()))
}

// TestEachCountsDeniedHits: a limit that is raised during a window leaves as many hits as
// in envoyproxy/ratelimit.
func TestEachCountsDeniedHits(t *testing.T) {
	t.Parallel()
	const config = "domain: t\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: %d}}]"
	for _, c := range []struct {
		local bool
		hits  []uint64
		limit uint32 // after the hits
		want  string // status of one more hit
	}{
		{false, []uint64{1, 1, 1, 1, 1}, 10, "OK 4"},
		{false, []uint64{2, 5}, 10, "OK 2"},
		{false, []uint64{7, 1}, 10, "OK 1"},
		{false, []uint64{3, 0, 0}, 10, "OK 6"},
		{false, []uint64{1 << 40}, 1_000_000_000, "OVER_LIMIT 0"},
		{true, []uint64{1, 1, 1, 1, 1}, 10, "OK 5"},
		{true, []uint64{2, 5, 1, 1}, 10, "OK 2"},
	} {
		h := open(t, nil, fmt.Sprintf(config, 3), &rlsapi.Options{Charge: rlsapi.Each, LocalDenials: c.local})
		for _, n := range c.hits {
			askEach(t, h, "k", n)
		}
		if err := h.Apply(mustConfig(t, fmt.Sprintf(config, c.limit))); err != nil {
			t.Fatal(err)
		}
		if got := askEach(t, h, "k", 1); got != c.want {
			t.Errorf("hits %v, local denials %v: one more hit of %d: got %s want %s", c.hits, c.local, c.limit, got, c.want)
		}
	}
}

// TestEachBlocked: with a limit of 0, a check of 0 hits is over the limit after hits in
// the same window.
func TestEachBlocked(t *testing.T) {
	t.Parallel()
	for _, local := range []bool{false, true} {
		h := open(t, nil, eachConfig, &rlsapi.Options{Charge: rlsapi.Each, LocalDenials: local})
		for i, want := range []string{"OK 0", "OVER_LIMIT 0", "OVER_LIMIT 0", "OVER_LIMIT 0"} {
			if got := askEach(t, h, "blocked", uint64(i%2)*5); got != want {
				t.Errorf("local denials %v, request %d: got %s want %s", local, i+1, got, want)
			}
		}
	}
}
