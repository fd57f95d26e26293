package rlsapi

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

const (
	// quotaIdle is the time after which a bucket without requests is abandoned.
	quotaIdle = time.Minute
	// storeRetry is the time after which a failed operation of the store is repeated.
	storeRetry = time.Second
	// validitySlack is the time after which a lease whose validity has ended has ended in
	// the store, too.
	validitySlack = quotaTTL / 100
)

func jitter(maxWait time.Duration) time.Duration { return rand.N(maxWait) }

// renew chooses the action for a bucket in the next response.
func (s *quotaStream) renew(ctx context.Context, b *quotaBucket) {
	now := s.now()
	if now-b.usedAt >= quotaIdle {
		b.next.kind = actionAbandon
		return
	}
	b.plan = s.handler.planQuota(s.domain, b.entries)
	active := s.handler.engine.ActiveConfig()
	err := b.endLeases(ctx, active, now)
	b.renewAt = now + quotaTTL/2
	switch b.plan.kind {
	case allowAll:
		b.next.kind = actionAllow
		return
	case denyAll:
		b.next.kind = actionDeny
		return
	}
	if err == nil {
		err = s.assign(ctx, active, b)
	}
	if err != nil {
		s.fail(b, err)
	}
}

// fail handles an error of the store. The client goes on with its assignment until that
// expires.
func (s *quotaStream) fail(b *quotaBucket, err error) {
	if errors.Is(err, headgate.ErrUnsupported) {
		s.handler.warnQuota(b.plan.path, err)
		b.next.kind = actionDeny
		return
	}
	s.handler.stats.storeErrors.Add(1)
	b.renewAt = s.now() + storeRetry
}

// assign grants further tokens, extends the current grant, or denies.
func (s *quotaStream) assign(ctx context.Context, active *engine.ActiveConfig, b *quotaBucket) error {
	cur := b.current(s.now())
	if want := b.want(s.now(), cur); want > 0 {
		g, err := s.take(ctx, active, b, want)
		if err != nil {
			return err
		}
		if g != nil {
			b.grants = append(b.grants, g)
			b.assignNext(s.now(), g)
			if cur != nil {
				return cur.commit(ctx, active, s.now())
			}
			return nil
		}
	}
	// If the tokens are probably spent, a denial returns tokens that were not reported.
	if cur != nil && (!b.scarce || cur.expected(s.now(), b.demand.rate(s.now())) >= 1) {
		if ok, err := s.extend(ctx, active, cur); ok || err != nil {
			b.assignNext(s.now(), cur)
			return err
		}
	}
	now := s.now()
	b.next.kind = actionDeny
	b.renewAt = min(max(b.retryAt, now+quotaSpacing), now+quotaTTL/2) + jitter(quotaSpacing/4)
	return nil
}

// assignNext makes the next response have g, and sets the time of the next renewal:
// before the assignment expires, and before its tokens are probably spent.
func (b *quotaBucket) assignNext(now time.Duration, g *grant) {
	ttl := g.ttl(now)
	if ttl == 0 && g.sent { // the window ends before a longer assignment would
		b.renewAt = g.deadline + validitySlack + jitter(quotaSpacing/4)
		return
	}
	b.next = nextAction{kind: actionTokens, grant: g}
	wait := min(quotaTTL/2, max(ttl-3*quotaSpacing/2, quotaSpacing))
	if perSecond := b.demand.rate(now); perSecond > 0 {
		seconds := (g.expected(now, perSecond) - renewBelow(g, perSecond)) / perSecond
		wait = min(wait, max(time.Duration(min(seconds, 1e6)*1e9), quotaSpacing))
	}
	b.renewAt = now + wait + jitter(quotaSpacing/8)
}

// take takes tokens from all limits of the rule. It returns nil if there are none.
func (s *quotaStream) take(ctx context.Context, active *engine.ActiveConfig, b *quotaBucket, want int64) (*grant, error) {
	sent := s.now()
	g := &grant{max: want, serial: b.nextSerial(), deadline: math.MaxInt64}
	for i := range b.plan.limits {
		l := newLease(b.plan.limits[i].Inline, b.plan.key)
		r, err := l.begin(ctx, active, g.max)
		if err != nil {
			return nil, errors.Join(err, g.end(ctx, active, sent, 0))
		}
		if r.Units == 0 {
			b.resize(want, 0)
			b.retryAt = s.now() + r.RetryAfter
			return nil, g.end(ctx, active, sent, 0)
		}
		g.leases = append(g.leases, l)
		g.max, g.deadline = min(g.max, r.Units), min(g.deadline, sent+r.Validity())
	}
	b.resize(want, g.max)
	now := s.now()
	g.maxUnspent, g.estimatedUnspent, g.estimatedAt, g.usedUntil, g.expires = g.max, float64(g.max), now, g.deadline, g.deadline
	if g.ttl(now) == 0 { // the window ends too early
		b.retryAt = g.deadline + validitySlack
		return nil, g.end(ctx, active, now, 0)
	}
	return g, nil
}

// extend extends the leases of g. ok is false if one of them had ended.
func (s *quotaStream) extend(ctx context.Context, active *engine.ActiveConfig, g *grant) (ok bool, err error) {
	deadline := time.Duration(math.MaxInt64)
	for i := range g.leases {
		sent := s.now()
		r, ok, err := g.leases[i].extend(ctx, active)
		if !ok || err != nil {
			return ok, err
		}
		deadline = min(deadline, sent+r.Validity())
	}
	g.deadline = deadline
	return true, nil
}
