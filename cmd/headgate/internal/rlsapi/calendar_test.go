package rlsapi_test

import (
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

// With USE_CALENDAR_MONTH_RATE_LIMIT the unit month is the calendar month in UTC, for
// rules and for limits in descriptors. The reset time is the end of the month.
func TestCalendarMonths(t *testing.T) {
	t.Parallel()
	const config = `domain: d
descriptors:
  - {key: unit, rate_limit: {unit: month, requests_per_unit: 2}}
  - {key: zero, rate_limit: {unit: month, requests_per_unit: 0}}
  - {key: year, rate_limit: {unit: year, requests_per_unit: 2}}
  - {key: list, rate_limit: {limits: [2/month]}}
  - {key: named, rate_limit: {unit: month, requests_per_unit: 2, algorithm: fixed_window}}
`
	for _, months := range []bool{false, true} {
		for _, charge := range []rlsapi.ChargeMode{rlsapi.AllOrNone, rlsapi.Each} {
			c, err := envoyconfig.Parse([]envoyconfig.File{{Name: "test.yaml", Content: []byte(config)}}, &envoyconfig.ParseOptions{CalendarMonths: months})
			if err != nil {
				t.Fatal(err)
			}
			e, err := engine.New(memstore.New(nil), nil)
			if err != nil {
				t.Fatal(err)
			}
			h := mustHandler(t, e, &rlsapi.Options{Charge: charge, CalendarMonths: months})
			if err := h.Apply(c); err != nil {
				t.Fatal(err)
			}
			now := time.Date(2028, 2, 29, 23, 59, 30, 0, time.UTC)
			const thirty, year = 30 * 86400, 365 * 86400
			for key, period := range map[string]int64{"unit": thirty, "zero": thirty, "year": year, "list": 0, "named": thirty, "own": thirty} {
				want := int64(30) // until the month ends
				if calendar := key == "list" || months && key != "year" && key != "named"; !calendar {
					want = period - now.Unix()%period
				}
				for n := range 3 {
					req := request("d", key, "v")
					if key == "own" {
						req.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 2, Unit: typev3.RateLimitUnit_MONTH}
					}
					resp, err := h.ShouldRateLimitAt(t.Context(), headgate.InstantOf(now), req)
					if err != nil {
						t.Fatal(err)
					}
					s := resp.GetStatuses()[0]
					if code := s.GetCode().String(); (code == "OK") != (n < 2 && key != "zero") || s.GetDurationUntilReset().GetSeconds() != want {
						t.Errorf("calendar months %v, %s, %s, request %d: got %v want a reset after %d s", months, charge, key, n+1, s, want)
					}
				}
			}
		}
	}
}
