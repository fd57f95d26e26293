package rlsapi

import (
	"sync"
	"sync/atomic"

	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
)

// quotas counts what all streams use.
type quotas struct {
	streams, buckets, bytes atomic.Int64
	tokens, denied, allowed atomic.Uint64 // assignments
	abandoned               atomic.Uint64
	warnedRules             sync.Map    // paths of rules that were logged since the last reload
	warnedBinary            atomic.Bool // whether a bucket that is not UTF-8 was logged
}

// QuotaStats are counts of the rate limit quota service.
type QuotaStats struct {
	Streams, Buckets int64 // open streams, and their buckets
	// Assignments is the number of assignments that were sent: tokens, deny_all,
	// allow_all and abandon.
	Assignments map[string]uint64
}

func (q *quotas) load() QuotaStats {
	return QuotaStats{q.streams.Load(), q.buckets.Load(), map[string]uint64{
		"tokens": q.tokens.Load(), "deny_all": q.denied.Load(), "allow_all": q.allowed.Load(), "abandon": q.abandoned.Load(),
	}}
}

// addBucket adds a bucket with the given memory. It returns false and adds nothing if a
// limit is reached.
func (q *quotas) addBucket(bytes int64) bool {
	buckets, all := q.buckets.Add(1), q.bytes.Add(bytes)
	if buckets <= maxQuotaBuckets && all <= maxQuotaBytes {
		return true
	}
	q.removeBucket(bytes)
	return false
}

func (q *quotas) removeBucket(bytes int64) {
	q.buckets.Add(-1)
	q.bytes.Add(-bytes)
}

// count counts the actions of a response.
func (q *quotas) count(actions []*bucketAction) {
	for _, a := range actions {
		strategy := a.GetQuotaAssignmentAction().GetRateLimitStrategy()
		switch {
		case a.GetAbandonAction() != nil:
			q.abandoned.Add(1)
		case strategy.GetTokenBucket() != nil:
			q.tokens.Add(1)
		case strategy.GetBlanketRule() == typev3.RateLimitStrategy_DENY_ALL:
			q.denied.Add(1)
		default:
			q.allowed.Add(1)
		}
	}
}
