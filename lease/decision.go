package lease

import (
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// decisionState is what decisions from memory depend on: the last reply of the store. It
// is not modified.
type decisionState struct {
	validUntil  int64 // end of the lease; 0 if there is none
	deniedUntil int64 // requests that the lease does not cover are denied until then
	nextCallAt  int64 // earliest time of the next call
	renewBelow  int64 // a renewal starts when no more than this number of units is unspent
	remaining   int64 // units that the store can grant
	retryAt     int64 // when the store can grant one unit, if it denied the last request
	resetAt     int64 // when the key is unused
	callFailed  bool  // the last call had no reply
	deniedBy    []string
}

// newState returns the state after the reply to a call. The request was sent at the time
// sent.
func (k *leasedKey) newState(sent, now int64, result *headgate.LeaseResult) *decisionState {
	b := k.bound
	s := &decisionState{
		nextCallAt: sent + b.minCallInterval/callsPerInterval, remaining: result.Remaining,
		resetAt: micros.SaturatingAdd(now, int64(result.ResetAfter)), renewBelow: k.sizing.renewBelow(result.Units, b.ttl),
	}
	if result.Units > 0 {
		s.validUntil = sent + int64(result.Validity())
	}
	if !result.Allowed {
		s.setDenied(b, sent, now, &result.Decision)
	}
	return s
}

// setDenied sets the fields of a denial. The process asks the store again after
// deniedUntil. That time has a random part, so that the processes do not ask at the same
// time. A lease with units left is renewed before.
func (s *decisionState) setDenied(b *leasedBound, sent, now int64, d *headgate.Decision) {
	s.retryAt = micros.SaturatingAdd(now, int64(d.RetryAfter))
	s.deniedUntil = max(min(s.retryAt, now+b.ttl), sent+b.minCallInterval) + jitter(b.minCallInterval/4)
	s.resetAt = micros.SaturatingAdd(now, int64(d.ResetAfter))
	s.nextCallAt = sent + b.minCallInterval
	s.remaining, s.deniedBy = 0, b.deniedBy
}

func (k *leasedKey) allowed(s *decisionState, now, unspent int64) headgate.Decision {
	return headgate.Decision{
		Allowed: true, Leased: true, Limit: k.bound.capacity,
		Remaining: min(s.remaining+unspent, k.bound.capacity), ResetAfter: timeUntil(s.resetAt, now),
	}
}

func (k *leasedKey) denied(s *decisionState, now, cost int64) headgate.Decision {
	retryAt := s.retryAt
	if cost > 1 {
		retryAt += int64(k.bound.Spacing(cost - 1))
	}
	d := headgate.Decision{
		Leased: true, Limit: k.bound.capacity, DeniedBy: s.deniedBy,
		RetryAfter: max(timeUntil(max(retryAt, s.deniedUntil), now), time.Microsecond),
	}
	if now < s.validUntil {
		d.Remaining = k.unspent.Load()
	}
	d.ResetAfter = max(timeUntil(s.resetAt, now), d.RetryAfter)
	return d
}

// timeUntil returns the time from now to at, rounded up to a whole µs. It is at least 0.
func timeUntil(at, now int64) time.Duration {
	if at <= now {
		return 0
	}
	return (time.Duration(at-now) + time.Microsecond - 1).Truncate(time.Microsecond)
}
