package rlsapi

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// maxGrants is the maximum number of grants of a bucket.
const maxGrants = 64

// quotaBucket is a bucket of one stream. One goroutine uses it at a time: that of the
// stream or, during a renewal, one of its workers. Times are those of [quotaStream.now].
type quotaBucket struct {
	entries []envoyconfig.Entry
	name    string
	plan    quotaPlan
	// grants are the assignments that may still be in use, or whose use may not have been
	// reported yet. A client spends them in this order.
	grants []*grant
	demand quotaDemand

	usedAt    time.Duration // time of the last report with a request
	grantSize int64         // maximum number of tokens of the next grant; 0 if it is not known
	scarce    bool          // the store had fewer units than this bucket needed
	retryAt   time.Duration // the store has no units before
	renewAt   time.Duration // time of the next renewal
	renewing  bool          // the bucket is listed for the next renewal
	next      nextAction    // action for the bucket in the next response
}

// newQuotaBucket returns a bucket that a client reported for the first time. The client
// may have an assignment of an earlier stream.
func newQuotaBucket(at time.Duration, name string, entries []envoyconfig.Entry) *quotaBucket {
	return &quotaBucket{entries: entries, name: name, usedAt: at, grants: []*grant{newUnlimitedGrant()}}
}

// bucketBytes is the memory of a bucket and its grants without its texts.
const bucketBytes = 1 << 10

// memory returns the memory of the bucket in bytes. Its name and its entries have the
// same texts; a key of the store is short.
func (b *quotaBucket) memory() int64 { return bucketBytes + 2*int64(len(b.name)) }

// report applies the usage in a report that was read at the time at.
func (b *quotaBucket) report(at time.Duration, u *quotaUsage) {
	b.attribute(at, int64(u.allowed))
	if g := b.lastGrant(); g != nil {
		g.estimate(int64(u.allowed), b.demand.reportedAt, at)
	}
	if u.allowed+u.denied > 0 {
		b.usedAt = at
	}
	b.demand.add(at, float64(u.allowed)+float64(u.denied))
	b.plan.count(u)
}

// attribute attributes requests in a report that was read at the time at to grants. The
// client discards the rest of a grant when it receives the next one. So it is unknown
// which grant a request belongs to:
//
//   - [grant].maxUnspent must not be too low. So requests are attributed to the earliest
//     grants that may have tokens.
//   - [grant].maxSpent must not be too low. A grant whose leases had ended covers no
//     request: its units may have refilled in the meantime. So requests are attributed to
//     the earliest grants whose leases were open.
func (b *quotaBucket) attribute(at time.Duration, requests int64) {
	unattributed, uncovered := requests, requests
	for _, g := range b.grants {
		unattributed = g.spendAtLeast(unattributed)
		if !g.ended && at < g.deadline {
			uncovered = g.spendAtMost(uncovered)
		}
		// The report was sent after g was last used, so later reports have nothing of g.
		g.reported = g.reported || at >= g.usedUntil+maxDelay
	}
}

// lastGrant returns the grant that the client uses last, or nil.
func (b *quotaBucket) lastGrant() *grant {
	if n := len(b.grants); n > 0 {
		return b.grants[n-1]
	}
	return nil
}

// current returns the grant that the client spends and whose time to live can be
// extended, or nil.
func (b *quotaBucket) current(now time.Duration) *grant {
	if g := b.lastGrant(); g != nil && !g.replaced && now < g.deadline && g.isExtendable(now) && b.plan.isPlanOf(g) {
		return g
	}
	return nil
}

// want returns the number of further tokens that the client needs. It is 0 if cur is
// enough, or if no further grant is possible now.
func (b *quotaBucket) want(now time.Duration, cur *grant) int64 {
	if now < b.retryAt || len(b.grants) >= maxGrants {
		return 0
	}
	perSecond := b.demand.rate(now)
	if cur != nil && cur.maxUnspent > 0 && cur.expected(now, perSecond) > renewBelow(cur, perSecond) {
		return 0
	}
	b.limitSize()
	if !b.demand.isKnown() {
		return b.grantSize
	}
	need := math.Ceil(2 * perSecond * max(b.demand.interval, 2*quotaSpacing).Seconds())
	return int64(max(1, min(need, float64(b.grantSize))))
}

// limitSize keeps the size of the next grant within the capacity of each limit. The first
// grant has an eighth of it.
func (b *quotaBucket) limitSize() {
	capacity := int64(maxTokens)
	for i := range b.plan.limits {
		capacity = min(capacity, b.plan.limits[i].Inline.Limit.Capacity())
	}
	if b.grantSize == 0 {
		b.grantSize = max(1, capacity/8)
	}
	b.grantSize = min(b.grantSize, capacity)
}

// renewBelow returns the number of tokens at which the grant after g begins.
func renewBelow(g *grant, perSecond float64) float64 {
	return min(max(perSecond*2*quotaSpacing.Seconds(), float64(g.max)/4), float64(g.max)/2)
}

// resize changes the maximum of the next grant after the store granted units: it halves
// if the store granted fewer than wanted, and otherwise doubles if the maximum was
// wanted. So streams that compete for a limit reduce their grants.
func (b *quotaBucket) resize(want, units int64) {
	b.scarce = units < want
	switch {
	case b.scarce:
		b.grantSize = max(1, b.grantSize/2)
	case want == b.grantSize:
		b.grantSize = min(2*b.grantSize, maxTokens)
	}
}

// endLeases ends the leases that the client no longer spends, and drops grants whose use
// is known.
func (b *quotaBucket) endLeases(ctx context.Context, active *engine.ActiveConfig, now time.Duration) (err error) {
	b.grants = slices.DeleteFunc(b.grants, func(g *grant) bool {
		g.ended = g.ended || now >= g.deadline
		unused := now >= g.usedUntil
		switch {
		case unused && g.reported, g.maxUnspent == 0:
			err = errors.Join(err, g.end(ctx, active, now, g.uncertain()))
			return true
		case unused && b.scarce && g.refillsWithin(8*b.demand.interval):
			// Units that count as spent refill before a report would return them.
			err = errors.Join(err, g.end(ctx, active, now, g.maxUnspent))
		case g.replaced:
			err = errors.Join(err, g.commit(ctx, active, now))
		}
		return false
	})
	b.mergeEnded()
	return err
}

// mergeEnded merges the earliest grants with ended leases, if there are too many grants.
// The last grant remains.
func (b *quotaBucket) mergeEnded() {
	for len(b.grants) >= maxGrants && b.grants[0].ended && b.grants[1].ended {
		b.grants[1].maxUnspent = min(b.grants[0].maxUnspent+b.grants[1].maxUnspent, anyTokens)
		b.grants = slices.Delete(b.grants, 0, 1)
	}
}

// nextSerial returns a random number that differs from that of the last grant.
func (b *quotaBucket) nextSerial() int32 {
	for {
		n := 1 + rand.Int32N(999_999_999)
		if g := b.lastGrant(); g == nil || g.serial != n {
			return n
		}
	}
}
