package rlsapi_test

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

const modelConfig = `
domain: m
descriptors:
  - key: a
    rate_limit: {unit: second, requests_per_unit: 3}
  - key: b
    rate_limit: {unit: minute, requests_per_unit: 10}
  - key: c
    rate_limit: {unit: minute, requests_per_unit: 5}
    shadow_mode: true
  - key: d
    rate_limit: {unit: hour, requests_per_unit: 7}
    quota_mode: true
  - key: e
    rate_limit: {unit: minute, requests_per_unit: 4}
    quota_mode: true
`

// model counts hits in fixed windows like envoyproxy/ratelimit, except for denied hits.
type model struct{ counts map[string]int64 }

var modelLimits = map[string]struct{ limit, unit int64 }{"a": {3, 1}, "b": {10, 60}, "c": {5, 60}, "d": {7, 3600}, "e": {4, 60}}

// charge is one descriptor in the model.
type charge struct {
	key, value string
	hits       int64
	negative   bool
}

func (m *model) key(c charge, now int64) string {
	unit := modelLimits[c.key].unit
	return fmt.Sprint(c.key, "=", c.value, "@", now-now%unit)
}

// fits reports whether a descriptor is within its limit after the descriptors that are
// charged before it.
func (m *model) fits(c charge, now, before int64) bool {
	return c.hits == 0 || m.counts[m.key(c, now)]+before+c.hits <= modelLimits[c.key].limit
}

// answer returns the expected response in the format of the cases.
func (m *model) answer(all []charge, now int64) string {
	for _, c := range all {
		if c.negative {
			k := m.key(c, now)
			m.counts[k] = max(0, m.counts[k]-c.hits)
		}
	}
	charged, denied := m.choose(all, now)
	over := make([]bool, len(all))
	left := make([]int64, len(all))
	for i, c := range all {
		if charged[i] {
			m.counts[m.key(c, now)] += c.hits
		}
		over[i] = denied[i]
	}
	overall := m.overall(all, denied)
	for i, c := range all { // shadows come behind
		if c.key == "c" && !c.negative {
			if over[i] = !m.fits(c, now, 0); !over[i] && !overall {
				m.counts[m.key(c, now)] += c.hits
			}
		}
	}
	text := "OK"
	if overall {
		text = "OVER_LIMIT"
	}
	for i, c := range all {
		l := modelLimits[c.key]
		if left[i] = l.limit - m.counts[m.key(c, now)]; over[i] {
			left[i] = 0
		}
		code := "OK"
		if over[i] && c.key != "c" {
			code = "OVER"
		}
		text += fmt.Sprintf(" | %s %d left %d reset %d", code, l.limit, left[i], l.unit-now%l.unit)
	}
	return text
}

// choose returns which descriptors are charged and which are over: all or none, except
// for quotas that are left out.
func (m *model) choose(all []charge, now int64) (charged, denied []bool) {
	denied = make([]bool, len(all))
	for {
		charged = make([]bool, len(all))
		before, allowed := make(map[string]int64), true
		for i, c := range all {
			if c.key == "c" || c.negative || denied[i] {
				continue
			}
			if k := m.key(c, now); m.fits(c, now, before[k]) {
				before[k] += c.hits
				charged[i] = true
			} else {
				denied[i], allowed = true, false
			}
		}
		if allowed {
			if m.overall(all, denied) {
				clear(charged)
			}
			return charged, denied
		}
		if m.overall(all, denied) {
			clear(charged)
			return charged, denied
		}
	}
}

func (m *model) overall(all []charge, denied []bool) bool {
	quotas, passed := false, false
	for i, c := range all {
		switch quota := c.key == "d" || c.key == "e"; {
		case !quota && denied[i]:
			return true
		case quota:
			quotas, passed = true, passed || !denied[i]
		}
	}
	return quotas && !passed
}

// TestModel: random requests on random keys over some minutes get the responses of the
// model. No request contains a key twice; the cases cover that.
func TestModel(t *testing.T) {
	t.Parallel()
	rounds := 10_000
	if testing.Short() {
		rounds = 4_000
	}
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 1))
	e, err := engine.New(memstore.New(nil), nil)
	if err != nil {
		t.Fatal(err)
	}
	h := mustHandler(t, e, nil)
	if err := h.Apply(mustConfig(t, modelConfig)); err != nil {
		t.Fatal(err)
	}
	m := &model{counts: make(map[string]int64)}
	now := int64(1_700_000_000_000_000)
	for i := range rounds {
		now += r.Int64N(400_000)
		all, req := randomRequest(r)
		resp, err := h.ShouldRateLimitAt(t.Context(), headgate.Instant(now), req)
		if err != nil {
			t.Fatal(err)
		}
		got := resp.GetOverallCode().String()
		for _, s := range resp.GetStatuses() {
			got += fmt.Sprintf(" | %s %d left %d reset %d", strings.TrimSuffix(s.GetCode().String(), "_LIMIT"),
				s.GetCurrentLimit().GetRequestsPerUnit(), s.GetLimitRemaining(), s.GetDurationUntilReset().GetSeconds())
		}
		if want := m.answer(all, now/1_000_000); got != want {
			t.Fatalf("seed %d, request %d: %v at %d\n got %s\nwant %s", seed, i, all, now, got, want)
		}
	}
}

func randomRequest(r *rand.Rand) ([]charge, *pb.RateLimitRequest) {
	req := &pb.RateLimitRequest{Domain: "m"}
	keys := []string{"a", "b", "c", "d", "e"}
	r.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	var all []charge
	for _, key := range keys[:1+r.IntN(len(keys))] {
		c := charge{key, strconv.Itoa(r.IntN(2)), r.Int64N(4), r.IntN(8) == 0}
		all = append(all, c)
		req.Descriptors = append(req.Descriptors, &ratelimit.RateLimitDescriptor{
			Entries:    []*ratelimit.RateLimitDescriptor_Entry{{Key: c.key, Value: c.value}},
			HitsAddend: wrapperspb.UInt64(uint64(c.hits)), IsNegativeHits: c.negative,
		})
	}
	return all, req
}

// TestNeverAboveTheLimit is T1: with any number of concurrent requests, a window allows
// its limit, and descriptors are charged all or none.
func TestNeverAboveTheLimit(t *testing.T) {
	t.Parallel()
	c := client(t, open(t, nil, `
domain: d
descriptors:
  - key: small
    rate_limit: {unit: year, requests_per_unit: 500}
  - key: large
    rate_limit: {unit: year, requests_per_unit: 100000}
`, nil), nil)
	var admitted atomic.Int64
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 100 {
				req := request("d", "small", "x")
				req.Descriptors = append(req.Descriptors, request("d", "large", "x").Descriptors...)
				resp, err := c.ShouldRateLimit(t.Context(), req)
				if err != nil {
					t.Error(err)
					return
				}
				if resp.GetOverallCode() == pb.RateLimitResponse_OK {
					admitted.Add(1)
				}
			}
		})
	}
	wg.Wait()
	resp, err := c.ShouldRateLimit(t.Context(), request("d", "large", "x"))
	if err != nil {
		t.Fatal(err)
	}
	if left := resp.GetStatuses()[0].GetLimitRemaining(); admitted.Load() != 500 || left != 100000-501 {
		t.Errorf("of 1600 requests %d were admitted, and the large limit has %d left; want 500 and %d", admitted.Load(), left, 100000-501)
	}
}

// TestFlood: invented domains, limits and values with their own counters use bounded
// memory.
func TestFlood(t *testing.T) {
	t.Parallel()
	h := open(t, nil, "domain: d\ndescriptors: [{key: k, detailed_metric: true, rate_limit: {unit: hour, requests_per_unit: 1}}]", nil)
	n := 30_000
	if testing.Short() {
		n = 12_000
	}
	for i := range n {
		name := strconv.Itoa(i)
		own := request("d", "x", name)
		own.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: uint32(i), Unit: 3}
		for _, req := range []*pb.RateLimitRequest{request("domain"+name, "k", "v"), request("d", "k", name), own} {
			if _, err := h.ShouldRateLimit(t.Context(), req); err != nil {
				t.Fatal(err)
			}
		}
	}
	s := h.Stats()
	if len(s.Rules) > 10_100 || len(s.DomainNotFound) > 101 || s.DomainNotFound[rlsapi.Others] == 0 || s.Rules[rlsapi.Others].TotalHits == 0 {
		t.Errorf("%d rules and %d domains are counted apart, the others of each %v and %d", len(s.Rules), len(s.DomainNotFound), s.Rules[rlsapi.Others], s.DomainNotFound[rlsapi.Others])
	}
}

// TestCounters: hits are split into near and over the limit like in envoyproxy/ratelimit.
func TestCounters(t *testing.T) {
	t.Parallel()
	h := open(t, nil, `
domain: d
descriptors:
  - key: k
    rate_limit: {unit: year, requests_per_unit: 10}
  - key: shadow
    rate_limit: {unit: year, requests_per_unit: 2}
    shadow_mode: true
  - key: "1.2.3.4:80"
    rate_limit: {unit: year, requests_per_unit: 2}
`, nil)
	ask := func(key string, hits uint64, negative bool) {
		req := request("d", key, "v")
		req.Descriptors[0].HitsAddend, req.Descriptors[0].IsNegativeHits = wrapperspb.UInt64(hits), negative
		if _, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		key      string
		hits     uint64
		negative bool
		want     rlsapi.Counts
	}{
		{"k", 7, false, rlsapi.Counts{TotalHits: 7, WithinLimit: 7}},
		{"k", 2, false, rlsapi.Counts{TotalHits: 9, WithinLimit: 9, NearLimit: 1}},
		{"k", 3, false, rlsapi.Counts{TotalHits: 12, WithinLimit: 9, NearLimit: 2, OverLimit: 2}},
		{"k", 1, false, rlsapi.Counts{TotalHits: 13, WithinLimit: 10, NearLimit: 3, OverLimit: 2}},
		{"k", 4, false, rlsapi.Counts{TotalHits: 17, WithinLimit: 10, NearLimit: 3, OverLimit: 6}},
		{"k", 5, true, rlsapi.Counts{TotalHits: 17, WithinLimit: 10, NearLimit: 3, OverLimit: 6, TotalNegativeHits: 5}},
	} {
		ask(step.key, step.hits, step.negative)
		if got := h.Stats().Rules["d.k"]; got != step.want {
			t.Errorf("after %d hits (negative: %v): got %+v want %+v", step.hits, step.negative, got, step.want)
		}
	}
	ask("shadow", 1, false)
	ask("shadow", 2, false)
	if got, want := h.Stats().Rules["d.shadow"], (rlsapi.Counts{TotalHits: 3, WithinLimit: 1, NearLimit: 1, OverLimit: 1, ShadowMode: 1}); got != want {
		t.Errorf("shadow: got %+v want %+v", got, want)
	}
	ask("1.2.3.4:80", 1, false)
	if got := h.Stats().Rules["d.1_2_3_4_80"].TotalHits; got != 1 {
		t.Errorf("an address in a name: %v", h.Stats().Rules)
	}
	if _, err := h.ShouldRateLimit(t.Context(), request("", "k", "v")); err == nil {
		t.Error("no domain: got no error")
	}
	if s := h.Stats(); s.ConfigLoads != 1 || s.ServiceErrors != 1 || s.StoreErrors != 0 {
		t.Errorf("got %+v", s)
	}
}

// FuzzRequest searches for requests that cause a panic or a response that Envoy must
// not get.
func FuzzRequest(f *testing.F) {
	for _, req := range []*pb.RateLimitRequest{
		request("d", "k", "v"), request("m", "a", "1"), {Domain: "m", Descriptors: []*ratelimit.RateLimitDescriptor{nil, {}}},
	} {
		body, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	h := open(f, nil, modelConfig, &rlsapi.Options{DynamicMetadata: true, Headers: &rlsapi.Headers{}})
	each := open(f, nil, modelConfig, &rlsapi.Options{Charge: rlsapi.Each, Quota: true})
	f.Fuzz(func(t *testing.T, body []byte) {
		req := new(pb.RateLimitRequest)
		if proto.Unmarshal(body, req) != nil {
			return
		}
		for _, h := range []*rlsapi.Handler{h, each} {
			resp, err := h.ShouldRateLimit(t.Context(), req)
			if err != nil {
				continue
			}
			if resp.GetOverallCode() == pb.RateLimitResponse_UNKNOWN || len(resp.GetStatuses()) != len(req.GetDescriptors()) {
				t.Errorf("%v: got %v", req, resp)
			}
			for _, s := range resp.GetStatuses() {
				if s.GetCode() == pb.RateLimitResponse_UNKNOWN || s.GetCurrentLimit() != nil && s.GetDurationUntilReset().GetSeconds() < 1 {
					t.Errorf("%v: got %v", req, resp)
				}
			}
			if _, err := proto.Marshal(resp); err != nil {
				t.Error(err)
			}
		}
	})
}

func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}
