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
	// maxDelay is the maximum time until a client has applied a response, and until a
	// report has arrived. See docs/guides/leases.md.
	maxDelay = 250 * time.Millisecond
	// quotaSpacing is the minimum time between two grants for one bucket.
	quotaSpacing = 250 * time.Millisecond
	// maxTokens is the maximum number of tokens of an assignment.
	maxTokens = math.MaxInt32
	// anyTokens is the number of tokens of a grant without a limit.
	anyTokens = int64(1) << 62
	// farFuture is a time after the end of every stream.
	farFuture = time.Duration(1) << 62
)

// clockMargin returns by how much d can differ on the clocks of this process and of a
// client. Each differs from the clock of the store by at most 1 %.
func clockMargin(d time.Duration) time.Duration { return d / 50 }

// grant is an assignment of tokens. Its units are on lease in the store, so the client
// may spend them without a request. Times are those of [quotaStream.now].
type grant struct {
	leases []quotaLease // one for each limit of the rule; none if there is no limit
	max    int64        // number of tokens
	serial int32        // distinguishes the assignment from the one before
	// Reports do not name the grant of a request; see [quotaBucket.attribute].
	maxUnspent int64 // maximum number of tokens that were not spent before the last report
	maxSpent   int64 // maximum number of tokens that were spent before the last report
	// estimatedUnspent is the probable number of tokens at estimatedAt. It decides when
	// the next grant begins, and never returns units.
	estimatedUnspent float64
	estimatedAt      time.Duration
	deadline         time.Duration // end of the leases
	// expires is the earliest time at which the assignment expires at the client. An
	// assignment that arrives later begins with all its tokens, even if it is the same.
	expires   time.Duration
	usedUntil time.Duration // the client spends nothing afterwards
	sent      bool          // a response had the assignment
	replaced  bool          // a later response has another assignment
	ended     bool          // the leases have ended
	reported  bool          // reports have all that was spent
}

// newUnlimitedGrant returns a grant for an assignment without leases of this stream: an
// assignment that allows everything, or one of an earlier stream.
func newUnlimitedGrant() *grant {
	return &grant{max: anyTokens, maxUnspent: anyTokens, expires: farFuture, usedUntil: farFuture, ended: true}
}

// spendAtLeast subtracts requests of a report, and returns how many the grant does not
// cover.
func (g *grant) spendAtLeast(requests int64) int64 {
	n := min(requests, g.maxUnspent)
	g.maxUnspent -= n
	for i := range g.leases {
		g.leases[i].spent += n
	}
	return requests - n
}

// spendAtMost adds requests of a report to the maximum number of spent tokens, and
// returns how many exceed the grant.
func (g *grant) spendAtMost(requests int64) int64 {
	n := min(requests, g.max-g.maxSpent)
	g.maxSpent += n
	return requests - n
}

// uncertain returns the number of tokens of which it is unknown whether they were spent.
func (g *grant) uncertain() int64 { return max(0, g.maxSpent-(g.max-g.maxUnspent)) }

// estimate updates the probable number of tokens. The client had the given number of
// requests between the last report and the time at; spendAtLeast attributes them to
// earlier grants first, because maxUnspent must never be below the true number.
func (g *grant) estimate(requests int64, last, at time.Duration) {
	if at > g.estimatedAt {
		share := (at - max(last, g.estimatedAt)).Seconds() / max(at-last, 1).Seconds()
		g.estimatedUnspent, g.estimatedAt = max(0, g.estimatedUnspent-float64(requests)*share), at
	}
	g.estimatedUnspent = min(g.estimatedUnspent, float64(g.maxUnspent))
}

// expected returns the number of tokens that are probably left.
func (g *grant) expected(now time.Duration, perSecond float64) float64 {
	return max(0, g.estimatedUnspent-perSecond*(now-g.estimatedAt).Seconds())
}

// ttl returns the time to live of a response that is sent now. If it is 0, the grant must
// not be sent.
func (g *grant) ttl(now time.Duration) time.Duration { return assignmentTTL(g.deadline - now) }

// assignmentTTL returns the time to live of an assignment whose leases are valid for the
// given time. Envoy ignores fractions of a second.
func assignmentTTL(valid time.Duration) time.Duration {
	return max(0, (valid - maxDelay).Truncate(time.Second))
}

// isExtendable reports whether a response that is sent now arrives before the assignment
// expires at the client.
func (g *grant) isExtendable(now time.Duration) bool { return now+maxDelay < g.expires }

// discard records that no response has had the grant, so its units can be returned.
func (g *grant) discard(now time.Duration) { g.usedUntil, g.reported = now, true }

// replace records that a response with another assignment was sent.
func (g *grant) replace(now time.Duration) {
	if !g.replaced {
		g.replaced, g.usedUntil = true, min(g.usedUntil, now+maxDelay)
	}
}

// commit reports what was spent to the store, so that it can refill.
func (g *grant) commit(ctx context.Context, s *engine.ActiveConfig, now time.Duration) error {
	for i := range g.leases {
		if left := g.deadline - now; !g.ended && left > time.Millisecond {
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

// end ends the leases in the store. more is the number of tokens that count as spent in
// addition to those of reports.
func (g *grant) end(ctx context.Context, s *engine.ActiveConfig, now time.Duration, more int64) error {
	if g.ended || now >= g.deadline {
		g.ended = true
		return nil
	}
	g.ended = true
	for i := range g.leases {
		if err := g.leases[i].end(ctx, s, more); err != nil {
			return err
		}
	}
	return nil
}
