package lease

import (
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Effect describes how leases change the store calls and the stranded units of a limit.
type Effect struct {
	// Reason is why the limit is not leased. It is empty if the limit is leased. If the
	// limit is not leased, all other fields are zero.
	Reason string
	// Units is the maximum number of units that all processes together have on lease for
	// one key. If a process is killed, up to that many units stay spent for one TTL.
	Units int64
	TTL   time.Duration
	// MinCalls and MaxCalls are the minimum and maximum number of calls to the store per
	// second that one process makes for leases of a key with many requests.
	MinCalls, MaxCalls int64
}

// maxSlotCalls is the maximum number of calls for slots between two ticks: an extension,
// the end of a chunk, and two attempts to take a further one.
const maxSlotCalls = 4

// EffectOf returns the effect of leases for a rule with a valid limit. It does not
// consider that a store may have no leases.
func EffectOf(rule headgate.Rule) Effect {
	reason := whyNotLeased(rule, rule.Limit.Capacity())
	if reason != "" {
		return Effect{Reason: reason}
	}
	maxUnits, ttl := rule.Lease.Max(rule.Limit.Capacity()), rule.Lease.TTLOrDefault()
	e := Effect{
		Units: maxUnits, TTL: ttl, MinCalls: (2*int64(time.Second) + int64(ttl) - 1) / int64(ttl),
		MaxCalls: callsPerInterval * int64(time.Second) / minCallInterval(rule, maxUnits, ttl),
	}
	if rule.Algorithm.OnlyHolds() {
		e.MaxCalls = maxSlotCalls * e.MinCalls
	}
	return e
}

// whyNotLeased returns the reason why a rule is not leased, or "" if it is leased.
func whyNotLeased(rule headgate.Rule, capacity int64) string {
	settings, ttl := rule.Lease, rule.Lease.TTLOrDefault()
	switch {
	case !settings.Enabled():
		return "the policy has no lease"
	case !rule.Algorithm.CanLease() && !rule.Algorithm.OnlyHolds():
		return string(rule.Algorithm) + " has no leases"
	case settings.Max(capacity) < 1:
		return fmt.Sprintf("%d%% of the capacity %d is less than one unit", settings.Share, capacity)
	case rule.Algorithm == headgate.SlidingLog && ttl > rule.Limit.Period:
		return fmt.Sprintf("the period %v of a sliding_log is shorter than the ttl %v", rule.Limit.Period, ttl)
	}
	return ""
}
