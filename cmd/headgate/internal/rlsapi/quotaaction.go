package rlsapi

import (
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// slowestFill is the longest interval in which Envoy adds a token to a bucket.
const slowestFill = 365 * 24 * 60 * 60 // seconds

// bucketID returns the id of the bucket for a response.
func (b *quotaBucket) bucketID() *pb.BucketId {
	id := &pb.BucketId{Bucket: make(map[string]string, len(b.entries))}
	for _, e := range b.entries {
		id.Bucket[e.Key] = e.Value
	}
	return id
}

func (b *quotaBucket) assignment(s *typev3.RateLimitStrategy, ttl time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{BucketId: b.bucketID(), BucketAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{
		QuotaAssignmentAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{
			AssignmentTimeToLive: durationpb.New(ttl), RateLimitStrategy: s,
		},
	}}
}

// tokens returns the assignment of g. Envoy adds one token in a year, so that within ttl
// it never spends more than max. If only the time to live has changed, Envoy keeps the
// rest of its tokens. A new serial makes the assignment a different one, so that Envoy
// begins with max tokens; Envoy rounds the interval to seconds.
func (b *quotaBucket) tokens(g *grant, ttl time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	return b.assignment(&typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: &typev3.TokenBucket{
		MaxTokens: uint32(g.max), TokensPerFill: wrapperspb.UInt32(1),
		FillInterval: &durationpb.Duration{Seconds: slowestFill, Nanos: g.serial},
	}}}, ttl)
}

// blanket returns the assignment that allows or denies all requests.
func (b *quotaBucket) blanket(rule typev3.RateLimitStrategy_BlanketRule) *pb.RateLimitQuotaResponse_BucketAction {
	return b.assignment(&typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}, quotaTTL)
}

// abandon returns the action after which the client forgets the bucket. Units that it may
// still spend stay on lease until their deadline.
func (b *quotaBucket) abandon() *pb.RateLimitQuotaResponse_BucketAction {
	return &pb.RateLimitQuotaResponse_BucketAction{BucketId: b.bucketID(), BucketAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{
		AbandonAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{},
	}}
}

// action returns what the response that is sent now has for the bucket, or nil.
func (b *quotaBucket) action(now time.Duration) *pb.RateLimitQuotaResponse_BucketAction {
	switch b.out.kind {
	case outTokens:
		if g := b.out.grant; g.seconds(now) > 0 {
			b.out.ttl = g.seconds(now)
			g.expires = now + b.out.ttl
			return b.tokens(g, b.out.ttl)
		}
		b.withdraw()
	case outAllow:
		return b.blanket(typev3.RateLimitStrategy_ALLOW_ALL)
	case outDeny:
		return b.blanket(typev3.RateLimitStrategy_DENY_ALL)
	case outAbandon:
		return b.abandon()
	}
	return nil
}

// withdraw removes a new grant that is not sent. Its units are lost.
func (b *quotaBucket) withdraw() {
	if last := len(b.grants) - 1; !b.out.grant.sent {
		b.grants = b.grants[:last]
	}
	b.out = outgoing{}
}

// sent notes that the response was sent: the client no longer uses other grants.
func (b *quotaBucket) sent(now time.Duration) {
	switch b.out.kind {
	case outTokens:
		g := b.out.grant
		g.sent, g.ends = true, min(g.deadline, now+b.out.ttl+maxDelay)
	case outNone:
		return
	}
	for _, g := range b.grants {
		if g != b.out.grant {
			g.replace(now)
		}
	}
	b.out = outgoing{}
}
