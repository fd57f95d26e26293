package rlsapi

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

const (
	// quotaTTL is the time after which the units of a client are lost if they are not
	// renewed.
	quotaTTL = 10 * time.Second
	// maxDelay is the maximum time until a client has applied a response, and until a
	// report has arrived. See docs/guides/rlqs.md.
	maxDelay = 250 * time.Millisecond
	// quotaSpacing is the minimum time between two grants for one bucket.
	quotaSpacing = 250 * time.Millisecond
)

// grant is an assignment of tokens. Its units are on lease in the store, so the client
// may spend them without a request. Times are those of [quotaStream.now].
type grant struct {
	leases   []quotaLease // one for each limit of the rule
	max      int64        // number of tokens
	serial   int32        // distinguishes the assignment from the one before
	rest     int64        // maximum number of tokens that were not spent before the last report
	likely   float64      // probable number of tokens at likelyAt
	likelyAt time.Duration
	deadline time.Duration // end of the leases
	// expires is the earliest time at which the assignment expires at the client. An
	// assignment that arrives later begins with all its tokens, even if it is the same.
	expires  time.Duration
	ends     time.Duration // the client spends nothing afterwards
	sent     bool          // a response had the assignment
	replaced bool          // a later response has another assignment
	settled  bool          // the leases have ended in the store
	reported bool          // reports have all that was spent
}

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
	return &headgate.LeaseOp{Key: l.key, Previous: l.id, Spent: l.spent, ID: headgate.NewHoldID(), Max: l.capacity(), TTL: ttl}
}

// repeat executes the pending operation.
func (l *quotaLease) repeat(ctx context.Context, s *engine.ActiveConfig) (r headgate.LeaseResult, ok bool, err error) {
	op := *l.pending
	if r, err = s.Lease(ctx, headgate.StoreClock, &l.limit, op); err != nil {
		return r, true, err
	}
	l.id, l.pending = op.ID, nil
	l.spent -= op.Spent
	return r, r.Carried && r.Units > 0, nil
}

// commit reports what was spent. The rest stays on lease until the same deadline.
func (l *quotaLease) commit(ctx context.Context, s *engine.ActiveConfig, left time.Duration) error {
	if l.spent == 0 || l.pending != nil {
		return nil
	}
	l.pending = l.renewal(left)
	_, _, err := l.repeat(ctx, s)
	return err
}

// end ends the lease with the given number of units in addition to those of reports. If
// it fails, the units stay spent until the deadline.
func (l *quotaLease) end(ctx context.Context, s *engine.ActiveConfig, more int64) error {
	if l.pending != nil { // it is unknown which lease is open
		if _, ok, err := l.repeat(ctx, s); !ok || err != nil {
			return err
		}
	}
	_, err := s.Lease(ctx, headgate.StoreClock, &l.limit, headgate.LeaseOp{Key: l.key, Previous: l.id, Spent: l.spent + more})
	return err
}

// spend subtracts requests of a report, and returns how many the grant does not cover.
func (g *grant) spend(requests int64) int64 {
	n := min(requests, g.rest)
	g.rest -= n
	for i := range g.leases {
		g.leases[i].spent += n
	}
	return requests - n
}

// estimate updates the probable number of tokens. The client had the given number of
// requests between the last report and now; spend attributes them to earlier grants
// first, because it must not find too few tokens.
func (g *grant) estimate(requests int64, last, now time.Duration) {
	share := (now - max(last, g.likelyAt)).Seconds() / max(now-last, 1).Seconds()
	g.likely = max(0, min(g.likely-float64(requests)*share, float64(g.rest)))
	g.likelyAt = now
}

// expected returns the number of tokens that are probably left.
func (g *grant) expected(now time.Duration, perSecond float64) float64 {
	return max(0, g.likely-perSecond*(now-g.likelyAt).Seconds())
}

// seconds returns the time to live of a response that is sent now. Envoy ignores
// fractions of a second. If it is 0, the grant must not be sent.
func (g *grant) seconds(now time.Duration) time.Duration {
	return max(0, (g.deadline - now - maxDelay).Truncate(time.Second))
}

// replace notes that a response with another assignment was sent.
func (g *grant) replace(now time.Duration) {
	if !g.replaced {
		g.replaced, g.ends = true, min(g.ends, now+maxDelay)
	}
}

// commit reports what was spent to the store, so that it can refill.
func (g *grant) commit(ctx context.Context, s *engine.ActiveConfig, now time.Duration) error {
	for i := range g.leases {
		if left := g.deadline - now; !g.settled && left > time.Millisecond {
			if err := g.leases[i].commit(ctx, s, left); err != nil {
				return err
			}
		}
	}
	return nil
}

// refillsWithin reports whether all limits are buckets that refill completely within d.
func (g *grant) refillsWithin(d time.Duration) bool {
	return !slices.ContainsFunc(g.leases, func(l quotaLease) bool {
		isBucket := l.limit.Algorithm == headgate.TokenBucket || l.limit.Algorithm == headgate.TokenBucketInterval
		limit := l.limit.Limit
		return !isBucket || float64(limit.Period)*float64(limit.Capacity()) > float64(d)*float64(limit.Rate)
	})
}

// settle ends the leases in the store. more is the number of tokens that count as spent
// in addition to those of reports.
func (g *grant) settle(ctx context.Context, s *engine.ActiveConfig, now time.Duration, more int64) error {
	if g.settled || now >= g.deadline {
		g.settled = true
		return nil
	}
	g.settled = true
	for i := range g.leases {
		if err := g.leases[i].end(ctx, s, more); err != nil {
			return err
		}
	}
	return nil
}

// maxTokens is the maximum number of tokens of an assignment.
const maxTokens = math.MaxInt32
