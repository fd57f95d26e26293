package lease_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/lease"
)

func TestEffectOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit     string
		algorithm headgate.Algorithm
		lease     headgate.LeaseSettings
		want      lease.Effect
	}{
		{"100000/1s", headgate.TokenBucket, headgate.LeaseSettings{Share: 10}, lease.Effect{Units: 10000, TTL: 250 * time.Millisecond, MinCalls: 8, MaxCalls: 512}},
		{"100/1m", "gcra", headgate.LeaseSettings{Share: 1, TTL: time.Minute}, lease.Effect{Units: 1, TTL: time.Minute, MinCalls: 1, MaxCalls: 26}},
		{"1000000/month", headgate.CalendarWindow, headgate.LeaseSettings{Share: 50}, lease.Effect{Units: 500000, TTL: 250 * time.Millisecond, MinCalls: 8, MaxCalls: 512}},
		{"9/1s", headgate.TokenBucket, headgate.LeaseSettings{Share: 10}, lease.Effect{Reason: "10% of the capacity 9 is less than one unit"}},
		{"9/1s", headgate.TokenBucket, headgate.LeaseSettings{}, lease.Effect{Reason: "the policy has no lease"}},
		{"9/1s queue 90", headgate.LeakyBucket, headgate.LeaseSettings{Share: 10}, lease.Effect{Reason: "leaky_bucket has no leases"}},
		{"900/200ms", headgate.SlidingLog, headgate.LeaseSettings{Share: 10}, lease.Effect{Reason: "the period 200ms of a sliding_log is shorter than the ttl 250ms"}},
	} {
		rule := headgate.Rule{Limit: headgate.MustParseLimit(tt.limit), Algorithm: tt.algorithm, Lease: tt.lease}
		if got := lease.EffectOf(rule); got != tt.want {
			t.Errorf("%s of %s: got %+v want %+v", tt.limit, tt.algorithm, got, tt.want)
		}
	}
}
