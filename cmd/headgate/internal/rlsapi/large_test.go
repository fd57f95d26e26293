package rlsapi_test

import (
	"math"
	"testing"

	"google.golang.org/protobuf/types/known/wrapperspb"
)

// TestLargeLimits: the fields of a response have 32 bits. A limit that is larger is
// counted exactly, and reported as the largest number that fits.
func TestLargeLimits(t *testing.T) {
	t.Parallel()
	h := open(t, nil, `domain: d
descriptors:
  - {key: budget, rate_limit: {limits: [9007199254740991/30d], algorithm: fixed_window}}
  - {key: unit, rate_limit: {unit: day, requests_per_unit: 4294967295}}
  - {key: bucket, rate_limit: {unit: day, requests_per_unit: 4294967295, algorithm: token_bucket}}
`, nil)
	for _, step := range []struct {
		key       string
		hits      uint64
		code      string
		limit     uint32
		remaining uint32
	}{
		{"budget", 1 << 52, "OK", math.MaxUint32, math.MaxUint32},
		{"budget", 1<<52 - 3, "OK", math.MaxUint32, 2},
		{"budget", 3, "OVER_LIMIT", math.MaxUint32, 0},
		{"budget", 2, "OK", math.MaxUint32, 0},
		{"unit", 4_000_000_000, "OK", math.MaxUint32, 294_967_295},
		{"unit", 294_967_296, "OVER_LIMIT", math.MaxUint32, 0},
		{"unit", 294_967_295, "OK", math.MaxUint32, 0},
		{"bucket", 1_000_000_000, "OK", math.MaxUint32, math.MaxUint32 - 1_000_000_000},
		{"bucket", 1_000_000_000, "OVER_LIMIT", math.MaxUint32, 0},
	} {
		req := request("d", step.key, "v")
		req.Descriptors[0].HitsAddend = wrapperspb.UInt64(step.hits)
		resp, err := h.ShouldRateLimitAt(t.Context(), 1_767_225_600_000_000, req)
		if err != nil {
			t.Fatal(err)
		}
		s := resp.GetStatuses()[0]
		if s.GetCode().String() != step.code || s.GetCurrentLimit().GetRequestsPerUnit() != step.limit || s.GetLimitRemaining() != step.remaining {
			t.Errorf("%d hits of %s: got %v want %s, limit %d, remaining %d", step.hits, step.key, s, step.code, step.limit, step.remaining)
		}
	}
}
