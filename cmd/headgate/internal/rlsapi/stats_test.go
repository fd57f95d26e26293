package rlsapi_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

func mustUse(t *testing.T, h *rlsapi.Handler, config string) {
	t.Helper()
	if err := h.Apply(mustConfig(t, config)); err != nil {
		t.Fatal(err)
	}
}

func mustAsk(t *testing.T, h *rlsapi.Handler, path ...string) {
	t.Helper()
	req := request("d", path[0], path[1])
	for i := 2; i+1 < len(path); i += 2 {
		d := req.Descriptors[0]
		d.Entries = append(d.Entries, &ratelimit.RateLimitDescriptor_Entry{Key: path[i], Value: path[i+1]})
	}
	if _, err := h.ShouldRateLimit(t.Context(), req); err != nil {
		t.Fatal(err)
	}
}

// TestCountersOfRemovedRules: after any number of reloads, only the active rules have
// counters, and rules that stay keep their counts.
func TestCountersOfRemovedRules(t *testing.T) {
	t.Parallel()
	h := open(t, nil, "", nil)
	const stays = "domain: d\ndescriptors:\n  - {key: stays, rate_limit: {unit: year, requests_per_unit: 1000}}\n"
	for i := range 200 {
		mustUse(t, h, stays+fmt.Sprintf("  - {key: k%d, rate_limit: {unit: year, requests_per_unit: 5}}\n", i))
		mustAsk(t, h, "stays", "x")
		mustAsk(t, h, fmt.Sprint("k", i), "x")
	}
	s := h.Stats()
	if len(s.Rules) != 2 || s.Rules["d.stays"].TotalHits != 200 || s.Rules["d.k199"].TotalHits != 1 {
		t.Errorf("after 200 reloads: got %v want 200 hits of d.stays, 1 of d.k199 and no others", s.Rules)
	}
}

// TestCountersNamedByRequests: counters that requests name are removed with their rule,
// or with their domain if they have no rule, so that there is room for others.
func TestCountersNamedByRequests(t *testing.T) {
	t.Parallel()
	const detailed = "  - {key: %s, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 1000}}\n"
	h := open(t, nil, "", nil)
	override := func() {
		req := request("d", "own", "x")
		req.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 9, Unit: typev3.RateLimitUnit_DAY}
		if _, err := h.ShouldRateLimit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct{ config, want string }{
		{"domain: d\ndescriptors:\n" + fmt.Sprintf(detailed, "a") + fmt.Sprintf(detailed, "own"), "d.a_1 1, d.own_x 2"},
		{"domain: d\ndescriptors:\n" + fmt.Sprintf(detailed, "a"), "d.a_1 2, d.own_x 3"},
		{"domain: d\ndescriptors:\n" + fmt.Sprintf(detailed, "own"), "d.own_x 5"},
		{"domain: d", "d.own_x 6"},
		{"domain: e", ""},
	} {
		mustUse(t, h, step.config)
		mustAsk(t, h, "a", "1")
		mustAsk(t, h, "own", "x")
		override()
		var got []string
		for _, name := range []string{"d.a_1", "d.own_x"} {
			if c, there := h.Stats().Rules[name]; there {
				got = append(got, fmt.Sprint(name, " ", c.TotalHits))
			}
		}
		if text := strings.Join(got, ", "); text != step.want {
			t.Errorf("under %s: got %s want %s", step.config, text, step.want)
		}
	}
}

// TestSummedCountersNeverFall: rules below the second level are one Prometheus series.
// It does not fall when one of them is removed, which would look like a restart.
func TestSummedCountersNeverFall(t *testing.T) {
	t.Parallel()
	config := func(leaves ...string) string {
		text := "domain: d\ndescriptors:\n  - key: a\n    descriptors:\n      - key: b\n        descriptors:\n"
		for _, leaf := range leaves {
			text += fmt.Sprintf("          - {key: %s, rate_limit: {unit: year, requests_per_unit: 100}}\n", leaf)
		}
		return text
	}
	h := open(t, nil, config("x", "y"), nil)
	for _, leaf := range []string{"x", "x", "y"} {
		mustAsk(t, h, "a", "", "b", "", leaf, "")
	}
	sum := func() (n uint64) {
		for name, c := range h.Stats().Rules {
			if strings.HasPrefix(name, "d.a.b") {
				n += c.TotalHits
			}
		}
		return n
	}
	for _, leaves := range [][]string{{"y"}, {"z"}, {"y", "z"}} {
		mustUse(t, h, config(leaves...))
		if got := sum(); got != 3 {
			t.Errorf("with %v left: got %d hits want 3", leaves, got)
		}
	}
	if got := h.Stats().Rules; len(got) > 3 {
		t.Errorf("got %v, want both rules and what is left of the others", got)
	}
	if mustUse(t, h, "domain: d"); len(h.Stats().Rules) != 0 {
		t.Errorf("all are gone: got %v", h.Stats().Rules)
	}
}

// TestCountersWhileRulesChange: concurrent counting, reading and reloading loses no
// hits of a rule that stays.
func TestCountersWhileRulesChange(t *testing.T) {
	t.Parallel()
	const each = 500
	h := open(t, nil, "domain: d\ndescriptors: [{key: stays, rate_limit: {unit: year, requests_per_unit: 1000000}}]", nil)
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range each {
				mustAsk(t, h, "stays", "x")
				mustAsk(t, h, fmt.Sprint("detailed", j%7), fmt.Sprint(i))
				if j%50 == 0 {
					h.Stats()
				}
			}
		})
		wg.Go(func() {
			for j := range each / 5 {
				mustUse(t, h, "domain: d\ndescriptors: [{key: stays, rate_limit: {unit: year, requests_per_unit: 1000000}},"+
					fmt.Sprintf("{key: detailed%d, detailed_metric: true, rate_limit: {unit: year, requests_per_unit: 5}}]", j%7))
			}
		})
	}
	wg.Wait()
	if got := h.Stats().Rules["d.stays"].TotalHits; got != 4*each {
		t.Errorf("got %d hits want %d", got, 4*each)
	}
}

// TestTimes: invalid requests are timed, too.
func TestTimes(t *testing.T) {
	t.Parallel()
	h := open(t, nil, smallConfig, nil)
	for range 20 {
		mustAsk(t, h, "k", "v")
	}
	if _, err := h.ShouldRateLimit(t.Context(), request("", "k", "v")); err == nil {
		t.Fatal("no domain: got no error")
	}
	times := h.Stats().Times
	if times.Count != 21 || times.Sum < 21 || times.UpTo[10*time.Second] != 21 {
		t.Errorf("got %+v want 21 requests", times)
	}
}

// TestAllHitsAreNear: with a near limit ratio below 0, all hits are near the limit.
func TestAllHitsAreNear(t *testing.T) {
	t.Parallel()
	for ratio, want := range map[float64]uint64{0: 0, -1: 2, 0.2: 1, 0.4: 0} {
		h := open(t, nil, smallConfig, &rlsapi.Options{NearLimitRatio: ratio})
		mustAsk(t, h, "k", "v")
		mustAsk(t, h, "k", "v")
		if got := h.Stats().Rules["d.k"].NearLimit; got != want {
			t.Errorf("ratio %v: got %d hits of 2 near a limit of 5, want %d", ratio, got, want)
		}
	}
}

// TestCountersOfEach: in mode Each, denied hits are split like in envoyproxy/ratelimit.
func TestCountersOfEach(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		hits []uint64
		want rlsapi.Counts
	}{
		{[]uint64{7, 2, 3, 1}, rlsapi.Counts{TotalHits: 13, WithinLimit: 9, NearLimit: 2, OverLimit: 3}},
		{[]uint64{9, 2, 0, 4}, rlsapi.Counts{TotalHits: 15, WithinLimit: 9, NearLimit: 2, OverLimit: 5}},
		{[]uint64{11}, rlsapi.Counts{TotalHits: 11, NearLimit: 2, OverLimit: 1}},
		{[]uint64{500}, rlsapi.Counts{TotalHits: 500, NearLimit: 2, OverLimit: 490}},
	} {
		h := open(t, nil, "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 10}}]", &rlsapi.Options{Charge: rlsapi.Each})
		for _, n := range c.hits {
			req := request("d", "k", "v")
			req.Descriptors[0].HitsAddend = wrapperspb.UInt64(n)
			if _, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req); err != nil {
				t.Fatal(err)
			}
		}
		if got := h.Stats().Rules["d.k"]; got != c.want {
			t.Errorf("%v: got %+v want %+v", c.hits, got, c.want)
		}
	}
}

// TestCountersSplit: the hits of a denied request are split as if they were spent, and
// hits above the maximum count are counted.
func TestCountersSplit(t *testing.T) {
	t.Parallel()
	h := open(t, nil, `
domain: d
descriptors:
  - {key: none, rate_limit: {unit: year, requests_per_unit: 0}}
  - {key: ten, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: watch, shadow_mode: true, rate_limit: {unit: year, requests_per_unit: 10}}
  - {key: huge, rate_limit: {unit: year, requests_per_unit: 4294967295}}
  - {key: bucket, rate_limit: {limits: [10/1h burst 100], algorithm: token_bucket}}
`, nil)
	for _, step := range []struct {
		key    string
		hits   uint64
		denied bool
		want   rlsapi.Counts // of key, from the first step on
	}{
		{"ten", 9, true, rlsapi.Counts{TotalHits: 9, WithinLimit: 9, NearLimit: 1}},
		{"ten", 7, false, rlsapi.Counts{TotalHits: 16, WithinLimit: 16, NearLimit: 1}},
		{"ten", 2, true, rlsapi.Counts{TotalHits: 18, WithinLimit: 18, NearLimit: 2}},
		{"watch", 10, true, rlsapi.Counts{TotalHits: 10, WithinLimit: 10, NearLimit: 2}},
		{"watch", 11, true, rlsapi.Counts{TotalHits: 21, WithinLimit: 10, NearLimit: 4, OverLimit: 1, ShadowMode: 1}},
		{"huge", 1_000_000_000, false, rlsapi.Counts{TotalHits: 1_000_000_000, WithinLimit: 1_000_000_000}},
		{"huge", 3_000_000_000, false, rlsapi.Counts{
			TotalHits: 4_000_000_000, WithinLimit: 4_000_000_000, NearLimit: 4_000_000_000 - 3_435_973_888,
		}},
		{"bucket", 70, false, rlsapi.Counts{TotalHits: 70, WithinLimit: 70}},
		{"bucket", 20, false, rlsapi.Counts{TotalHits: 90, WithinLimit: 90, NearLimit: 10}},
		{"bucket", 1 << 63, false, rlsapi.Counts{TotalHits: 90 + 1<<32 - 1, WithinLimit: 90, NearLimit: 20, OverLimit: 1<<32 - 1 - 10}},
	} {
		req := request("d", step.key, "v")
		req.Descriptors[0].HitsAddend = wrapperspb.UInt64(step.hits)
		if step.denied {
			req.Descriptors = append(req.Descriptors, request("d", "none", "v").Descriptors...)
		}
		if _, err := h.ShouldRateLimitAt(t.Context(), 1_700_000_000_000_000, req); err != nil {
			t.Fatal(err)
		}
		if got := h.Stats().Rules["d."+step.key]; got != step.want {
			t.Errorf("%d hits of %s: got %+v want %+v", step.hits, step.key, got, step.want)
		}
	}
}

// TestCountersTwice: if a request charges a counter twice, hits that exceed the limit
// after the first charge are over the limit.
func TestCountersTwice(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		rule string
		want rlsapi.Counts
	}{
		{"", rlsapi.Counts{TotalHits: 12, WithinLimit: 6, NearLimit: 2, OverLimit: 2}},
		{"quota_mode: true, ", rlsapi.Counts{TotalHits: 12, WithinLimit: 6, NearLimit: 2, OverLimit: 2}},
	} {
		h := open(t, nil, "domain: d\ndescriptors:\n  - {key: k, "+c.rule+"rate_limit: {unit: year, requests_per_unit: 10}}\n", nil)
		req := request("d", "k", "v")
		req.HitsAddend = 6
		req.Descriptors = append(req.Descriptors, req.Descriptors[0])
		if _, err := h.ShouldRateLimit(t.Context(), req); err != nil {
			t.Fatal(err)
		}
		if got := h.Stats().Rules["d.k"]; got != c.want {
			t.Errorf("%sgot %+v want %+v", c.rule, got, c.want)
		}
	}
}

// TestErrorsAreCountedByCause: errors have the counters of envoyproxy/ratelimit: a
// missing configuration is a service error, and a call that ends before the store
// decides is a store error.
func TestErrorsAreCountedByCause(t *testing.T) {
	t.Parallel()
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		config         string
		ctx            context.Context
		store, service uint64
	}{
		"no configuration": {"", t.Context(), 0, 1},
		"canceled call":    {smallConfig, canceled, 1, 0},
		"invalid request":  {smallConfig, nil, 0, 1},
	} {
		h, req := open(t, unavailable{memstore.New(nil)}, c.config, nil), request("d", "k", "v")
		if c.ctx == nil {
			c.ctx, req.Domain = t.Context(), ""
		}
		if _, err := h.ShouldRateLimit(c.ctx, req); err == nil {
			t.Errorf("%s: got no error", name)
		}
		if s := h.Stats(); s.StoreErrors != c.store || s.ServiceErrors != c.service {
			t.Errorf("%s: got %d store errors and %d service errors, want %d and %d", name, s.StoreErrors, s.ServiceErrors, c.store, c.service)
		}
	}
}

// TestRefundStaysIfChargeFails: a refund is an operation before the charge.
func TestRefundStaysIfChargeFails(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	works := open(t, store, smallConfig, nil)
	left := func(h *rlsapi.Handler, req *pb.RateLimitRequest) (n uint32, err error) {
		resp, err := h.ShouldRateLimit(t.Context(), req)
		if err == nil {
			n = resp.GetStatuses()[0].GetLimitRemaining()
		}
		return n, err
	}
	for range 2 {
		if _, err := left(works, request("d", "k", "refunded")); err != nil {
			t.Fatal(err)
		}
	}
	both := request("d", "k", "refunded")
	both.Descriptors[0].IsNegativeHits = true
	both.Descriptors = append(both.Descriptors, request("d", "k", "charged").Descriptors...)
	if _, err := left(open(t, unavailable{store}, smallConfig, nil), both); status.Code(err) != codes.Unavailable {
		t.Errorf("got error %v, want Unavailable", err)
	}
	if n, err := left(works, request("d", "k", "refunded")); n != 3 || err != nil {
		t.Errorf("after a refund of one of two hits and another hit: got %d left, error %v, want 3", n, err)
	}
}

// unavailable is a store whose refunds succeed and whose charges fail.
type unavailable struct{ headgate.Store }

func (u unavailable) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := u.Store.Bind(rule)
	return unavailableBound{b}, err
}

type unavailableBound struct{ headgate.Bound }

func (b unavailableBound) Apply(ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	if verb == headgate.Take {
		return headgate.Decision{}, cmp.Or(ctx.Err(), errors.New("unavailable"))
	}
	return b.Bound.Apply(ctx, now, key, verb, cost)
}
