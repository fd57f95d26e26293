package rlsapi

import (
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// slowestFill is the longest interval in which Envoy adds a token to a bucket.
const slowestFill = 365 * 24 * 60 * 60 // seconds

// nextAction is the action for a bucket in the next response. The zero value is no
// action.
type nextAction struct {
	kind    actionKind
	grant   *grant        // of actionTokens: a new grant, or the current one with another deadline
	ttl     time.Duration // of actionTokens
	expires time.Duration // of actionTokens: earliest time at which the assignment expires
}

type actionKind uint8

const (
	actionNone actionKind = iota
	actionTokens
	actionAllow
	actionDeny
	actionAbandon
)

// bucketID returns the id of a bucket for a response.
func bucketID(entries []envoyconfig.Entry) *pb.BucketId {
	id := &pb.BucketId{Bucket: make(map[string]string, len(entries))}
	for _, e := range entries {
		id.Bucket[e.Key] = e.Value
	}
	return id
}

// bucketAction is the action of a response for one bucket.
type bucketAction = pb.RateLimitQuotaResponse_BucketAction

func (b *quotaBucket) assignment(s *typev3.RateLimitStrategy, ttl time.Duration) *bucketAction {
	a := &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction{AssignmentTimeToLive: durationpb.New(ttl), RateLimitStrategy: s}
	return &bucketAction{
		BucketId:     bucketID(b.entries),
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction_{QuotaAssignmentAction: a},
	}
}

// tokens returns the assignment of g. Envoy adds one token in a year, so that within ttl
// it never spends more than max. If only the time to live has changed, Envoy keeps the
// rest of its tokens. Envoy resets a bucket only if the assignment differs. The serial,
// stored in the nanoseconds of the interval, makes it differ; Envoy rounds the interval
// to seconds.
func (b *quotaBucket) tokens(g *grant, ttl time.Duration) *bucketAction {
	bucket := &typev3.TokenBucket{
		MaxTokens: uint32(g.max), TokensPerFill: wrapperspb.UInt32(1),
		FillInterval: &durationpb.Duration{Seconds: slowestFill, Nanos: g.serial},
	}
	return b.assignment(&typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_TokenBucket{TokenBucket: bucket}}, ttl)
}

// blanket returns the assignment that allows or denies all requests.
func (b *quotaBucket) blanket(rule typev3.RateLimitStrategy_BlanketRule) *bucketAction {
	s := &typev3.RateLimitStrategy{Strategy: &typev3.RateLimitStrategy_BlanketRule_{BlanketRule: rule}}
	return b.assignment(s, quotaTTL)
}

// abandon returns the action after which the client forgets the bucket with the given
// entries. Units that it may still spend stay on lease until their deadline.
func abandon(entries []envoyconfig.Entry) *bucketAction {
	a := &pb.RateLimitQuotaResponse_BucketAction_AbandonAction{}
	return &bucketAction{
		BucketId:     bucketID(entries),
		BucketAction: &pb.RateLimitQuotaResponse_BucketAction_AbandonAction_{AbandonAction: a},
	}
}

// action returns the action for the bucket in a response that is sent now, or nil.
func (b *quotaBucket) action(now time.Duration) *bucketAction {
	switch b.next.kind {
	case actionTokens:
		return b.tokensAction(now)
	case actionAllow:
		return b.blanket(typev3.RateLimitStrategy_ALLOW_ALL)
	case actionDeny:
		return b.blanket(typev3.RateLimitStrategy_DENY_ALL)
	case actionAbandon:
		return abandon(b.entries)
	}
	return nil
}

// tokensAction returns the assignment of a grant. If too much time has passed since it
// was chosen, tokensAction returns nil, and the bucket is renewed again immediately.
func (b *quotaBucket) tokensAction(now time.Duration) *bucketAction {
	g := b.next.grant
	ttl := g.ttl(now)
	if ttl == 0 || g.sent && !g.isExtendable(now) {
		if !g.sent {
			g.discard(now)
		}
		b.next, b.renewAt = nextAction{}, now
		return nil
	}
	b.next.ttl, b.next.expires = ttl, now+ttl-clockMargin(ttl)
	return b.tokens(g, ttl)
}

// sent records that the response was sent: the client no longer uses other grants.
func (b *quotaBucket) sent(now time.Duration) {
	switch b.next.kind {
	case actionNone:
		return
	case actionTokens:
		b.tokensSent(now)
	case actionAllow:
		b.next.grant = b.unlimitedGrant()
	}
	for _, g := range b.grants {
		if g != b.next.grant {
			g.replace(now)
		}
	}
	b.next = nextAction{}
}

// tokensSent records that the assignment of a grant was sent. If sending took too long,
// the bucket is renewed again immediately.
func (b *quotaBucket) tokensSent(now time.Duration) {
	g := b.next.grant
	end := now + b.next.ttl + maxDelay
	switch {
	case g.sent && !g.isExtendable(now): // the client may have begun again with all tokens
		g.expires, b.renewAt = now, now
	case end > g.deadline:
		g.expires, b.renewAt = b.next.expires, now
	default:
		g.expires = b.next.expires
	}
	g.sent, g.usedUntil = true, min(g.deadline, end+clockMargin(b.next.ttl))
}

// unlimitedGrant returns the grant of an assignment that allows everything.
func (b *quotaBucket) unlimitedGrant() *grant {
	if g := b.lastGrant(); g != nil && len(g.leases) == 0 && !g.replaced {
		return g
	}
	g := newUnlimitedGrant()
	b.grants = append(b.grants, g)
	return g
}
