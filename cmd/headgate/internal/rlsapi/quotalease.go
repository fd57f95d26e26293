package rlsapi

import (
	"context"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// quotaTTL is the time after which the units of a client are lost if they are not
// renewed.
const quotaTTL = 10 * time.Second

// quotaLease is a lease under one limit of a rule.
type quotaLease struct {
	limit engine.InlineLimit
	key   string
	id    headgate.HoldID
	spent int64 // units that reports have, and the store has not
	// pending is a renewal without a reply. It is repeated with the same arguments.
	pending *headgate.LeaseOp
}

// newLease returns a lease that does not exist in the store yet.
func newLease(limit *engine.InlineLimit, key string) quotaLease {
	return quotaLease{limit: *limit, key: key}
}

// ttl returns the time for which the lease is taken. The units of a log count from the
// end of the lease, so a lease is at most one period long.
func (l *quotaLease) ttl() time.Duration {
	if l.limit.Algorithm == headgate.SlidingLog {
		return min(quotaTTL, l.limit.Limit.Period)
	}
	return quotaTTL
}

// capacity returns the maximum number of units on lease: all of them. Units on lease do
// not refill, so the bound of the limit does not depend on this number.
func (l *quotaLease) capacity() int64 { return l.limit.Limit.Capacity() }

// begin takes at most want units.
func (l *quotaLease) begin(ctx context.Context, s *engine.ActiveConfig, want int64) (headgate.LeaseResult, error) {
	l.id = headgate.NewHoldID()
	op := headgate.LeaseOp{Key: l.key, ID: l.id, Want: want, Max: l.capacity(), TTL: l.ttl()}
	return s.Lease(ctx, headgate.StoreClock, &l.limit, op)
}

// extend reports what was spent, and extends the lease by its TTL. ok is false if it had
// ended before.
func (l *quotaLease) extend(ctx context.Context, s *engine.ActiveConfig) (r headgate.LeaseResult, ok bool, err error) {
	if l.pending == nil {
		l.pending = l.renewal(l.ttl())
	}
	return l.repeat(ctx, s)
}

// renewal returns the operation that replaces the lease by one with what was not spent.
func (l *quotaLease) renewal(ttl time.Duration) *headgate.LeaseOp {
	return &headgate.LeaseOp{
		Key: l.key, Previous: l.id, Spent: l.spent, ID: headgate.NewHoldID(), Max: l.capacity(), TTL: ttl,
	}
}

// repeat executes the pending operation.
func (l *quotaLease) repeat(ctx context.Context, s *engine.ActiveConfig) (r headgate.LeaseResult, ok bool, err error) {
	op := *l.pending
	if r, err = s.Lease(ctx, headgate.StoreClock, &l.limit, op); err != nil {
		return r, true, err
	}
	l.id, l.pending = op.ID, nil
	l.spent -= op.Spent
	return r, r.PreviousOpen && r.Units > 0, nil
}

// commit reports what was spent. The rest stays on lease for at least the given time by
// the clock of this process.
func (l *quotaLease) commit(ctx context.Context, s *engine.ActiveConfig, valid time.Duration) error {
	if l.spent == 0 || l.pending != nil {
		return nil
	}
	l.pending = l.renewal(min(ttlOfValidity(valid), l.ttl()))
	_, _, err := l.repeat(ctx, s)
	return err
}

// ttlOfValidity returns the shortest TTL, in whole µs, with at least the given
// [headgate.LeaseResult.Validity].
func ttlOfValidity(valid time.Duration) time.Duration {
	ttl := (valid + time.Microsecond + 98) / 99 * 100
	return (ttl + time.Microsecond - 1).Truncate(time.Microsecond)
}

// end ends the lease with the given number of units in addition to those of reports. If
// it fails, the units stay spent until the deadline.
func (l *quotaLease) end(ctx context.Context, s *engine.ActiveConfig, more int64) error {
	if l.pending != nil { // it is unknown which lease is open
		if _, ok, err := l.repeat(ctx, s); !ok || err != nil {
			return err
		}
	}
	op := headgate.LeaseOp{Key: l.key, Previous: l.id, Spent: l.spent + more}
	_, err := s.Lease(ctx, headgate.StoreClock, &l.limit, op)
	return err
}
