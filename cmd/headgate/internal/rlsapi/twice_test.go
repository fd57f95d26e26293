package rlsapi_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

const twiceConfig = `
domain: t
descriptors:
  - key: plain
    rate_limit: {unit: year, requests_per_unit: 6}
  - key: quota
    rate_limit: {unit: year, requests_per_unit: 6}
    quota_mode: true
  - key: several
    rate_limit: {limits: [4/365d, 9/24h], algorithm: fixed_window}
    quota_mode: true
  - key: none
    rate_limit: {unit: year, requests_per_unit: 0}
    quota_mode: true
`

// hit is one descriptor: of a rule, or with its own limit that uses the counter of the
// rule.
type hit struct {
	key      string
	own      int64 // the limit that it brings; below 0 for none
	cost     int64
	negative bool
}

func (h hit) limits() []window {
	switch {
	case h.own >= 0:
		return []window{{h.key + " year", h.own}}
	case h.key == "several":
		return []window{{"several year", 4}, {"several day", 9}}
	case h.key == "none":
		return []window{{"none year", 0}}
	}
	return []window{{h.key + " year", 6}}
}

func (h hit) quota() bool { return h.own < 0 && h.key != "plain" }

// window is a counter and its limit.
type window struct {
	name  string
	limit int64
}

// ledger records what was spent, independently of the operations on the store.
type ledger map[string]int64

func (l ledger) fits(h hit) bool {
	for _, w := range h.limits() {
		if h.cost > 0 && l[w.name]+h.cost > w.limit {
			return false
		}
	}
	return true
}

func (l ledger) spend(h hit) {
	for _, w := range h.limits() {
		l[w.name] += h.cost
	}
}

func (l ledger) copy() ledger {
	c := make(ledger)
	for k, v := range l {
		c[k] = v
	}
	return c
}

// answer returns which hits are over their limit, and whether the request is, and
// spends the hits: first the hits that deny alone, then as many of the others as fit,
// in order.
func (l ledger) answer(all []hit) (denied bool, over []bool) {
	over = make([]bool, len(all))
	plain, kept := l.copy(), l.copy()
	quotas, passed := false, false
	for i, h := range all {
		if h.negative || h.quota() {
			passed = passed || h.negative && h.quota()
			continue
		}
		if over[i] = !plain.fits(h); over[i] {
			denied = true
		} else {
			kept.spend(h)
		}
		if h.limits()[0].limit > 0 {
			plain.spend(h)
		}
	}
	for i, h := range all {
		if h.negative || !h.quota() {
			continue
		}
		quotas = true
		if over[i] = !kept.fits(h); !over[i] {
			kept.spend(h)
			passed = true
		}
	}
	if denied = denied || quotas && !passed; denied {
		return true, over
	}
	for name, n := range kept {
		l[name] = n
	}
	return false, over
}

func (l ledger) refund(all []hit) {
	for _, h := range all {
		for _, w := range h.limits() {
			if h.negative {
				l[w.name] = max(0, l[w.name]-h.cost)
			}
		}
	}
}

// TestOneCounterTwice: requests that charge one counter several times, under one limit or
// several, are denied only if necessary, and leave out as few descriptors as possible.
func TestOneCounterTwice(t *testing.T) {
	t.Parallel()
	r := newRandom(t)
	rounds := 10_000
	if testing.Short() {
		rounds = 2_000
	}
	for i := range rounds / 10 {
		h := open(t, nil, twiceConfig, nil)
		spent := make(ledger)
		for j := range 10 {
			all, req := randomHits(r)
			resp, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req)
			if err != nil {
				t.Fatal(err)
			}
			before := spent.copy()
			spent.refund(all)
			denied, over := spent.answer(all)
			if got, want := codesOf(resp), wantCodes(denied, over); got != want {
				t.Fatalf("round %d, request %d: %v behind %v\n got %s\nwant %s", i, j, all, before, got, want)
			}
			mustHaveSpent(t, h, spent, fmt.Sprintf("%v behind %v", all, before))
		}
	}
}

func randomHits(r *rand.Rand) ([]hit, *pb.RateLimitRequest) {
	var all []hit
	req := &pb.RateLimitRequest{Domain: "t"}
	for range 1 + r.IntN(6) {
		h := hit{key: []string{"plain", "quota", "quota", "several", "none"}[r.IntN(5)], own: -1, cost: r.Int64N(5), negative: r.IntN(8) == 0}
		d := &ratelimit.RateLimitDescriptor{Entries: []*ratelimit.RateLimitDescriptor_Entry{{Key: h.key, Value: "v"}}}
		if r.IntN(5) == 0 {
			h.own = r.Int64N(9)
			d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(h.own), Unit: typev3.RateLimitUnit_YEAR}
		}
		d.HitsAddend, d.IsNegativeHits = wrapperspb.UInt64(uint64(h.cost)), h.negative
		all, req.Descriptors = append(all, h), append(req.Descriptors, d)
	}
	return all, req
}

func codesOf(resp *pb.RateLimitResponse) string {
	text := resp.GetOverallCode().String()
	for _, s := range resp.GetStatuses() {
		text += " " + s.GetCode().String()
	}
	return text
}

func wantCodes(denied bool, over []bool) string {
	name := map[bool]string{false: "OK", true: "OVER_LIMIT"}
	text := name[denied]
	for _, o := range over {
		text += " " + name[o]
	}
	return text
}

// mustHaveSpent checks what was spent, by a peek under a very large limit.
func mustHaveSpent(t *testing.T, h *rlsapi.Handler, spent ledger, what string) {
	t.Helper()
	for counter, unit := range map[string]typev3.RateLimitUnit{
		"plain year": 6, "quota year": 6, "several year": 6, "several day": 4, "none year": 6,
	} {
		key, _, _ := strings.Cut(counter, " ")
		req := request("t", key, "v")
		req.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
		req.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1_000_000, Unit: unit}
		resp, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req)
		if err != nil {
			t.Fatal(err)
		}
		if got := 1_000_000 - int64(resp.GetStatuses()[0].GetLimitRemaining()); got != spent[counter] {
			t.Fatalf("%s: %s has counted %d, want %d", what, counter, got, spent[counter])
		}
	}
}
