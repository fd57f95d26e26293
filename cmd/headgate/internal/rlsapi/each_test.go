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
`

// counters are the counters of envoyproxy/ratelimit, except that a counter stops at one
// hit above the limit of 6.
type counters map[string]int64

// count counts hits. It reports whether the counter is then over its limit, and how
// many hits are left.
func (c counters) count(key string, hits int64) (over bool, left int64) {
	over = c[key]+hits > 6
	c[key] = min(7, c[key]+hits)
	return over, max(0, 6-c[key])
}

func (c counters) answer(all []hit) string {
	words := make([]string, len(all))
	denied, quotas, passed := false, false, false
	for _, h := range all {
		if h.negative {
			c[h.key] = max(0, c[h.key]-h.cost)
			passed = passed || h.key == "quota"
		}
	}
	for i, h := range all {
		if h.negative {
			words[i] = wordOf(false, max(0, 6-c[h.key]))
		}
	}
	for i, h := range all {
		if h.negative || h.key == "shadow" {
			continue
		}
		over, left := c.count(h.key, h.cost)
		words[i] = wordOf(over, left)
		denied = denied || over && h.key == "plain"
		quotas, passed = quotas || h.key == "quota", passed || h.key == "quota" && !over
	}
	for i, h := range all { // shadow rules are counted after the others
		if h.key == "shadow" && !h.negative {
			_, left := c.count(h.key, h.cost)
			words[i] = wordOf(false, left)
		}
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
				one := hit{key: []string{"plain", "quota", "shadow"}[r.IntN(3)], cost: max(0, r.Int64N(12)-3), negative: r.IntN(8) == 0}
				all = append(all, one)
				req.Descriptors = append(req.Descriptors, &ratelimit.RateLimitDescriptor{
					Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: one.key, Value: "v"}},
					HitsAddend: wrapperspb.UInt64(uint64(one.cost)), IsNegativeHits: one.negative,
				})
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
