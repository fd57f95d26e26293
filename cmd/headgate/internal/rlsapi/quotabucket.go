package rlsapi

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// quotaIdle is the time after which a bucket without requests is abandoned.
const quotaIdle = time.Minute

// storeRetry is the time after which a failed operation of the store is repeated.
const storeRetry = time.Second

// quotaBucket is a bucket of one stream. Times are those of [quotaStream.now].
type quotaBucket struct {
	entries []envoyconfig.Entry
	name    string
	plan    quotaPlan
	// grants are the assignments of tokens that may still be in use, or whose use may not
	// have been reported yet. A client spends them in this order.
	grants []*grant

	rate       float64       // requests per second
	gap        time.Duration // time between reports
	reportedAt time.Duration
	usedAt     time.Duration // time of the last report with a request
	size       int64         // maximum number of tokens of the next grant; 0 if it is not known
	short      bool          // the store had fewer units than this bucket needed
	retryAt    time.Duration // the store has no units before
	next       time.Duration // time of the next renewal
	asked      float64       // requests since reportedAt
	due        bool          // the bucket is renewed now
	out        outgoing      // what the next response has for the bucket
}

// bucketBytes is the memory of a bucket and its grants without its texts.
const bucketBytes = 1 << 10

// memory returns the memory of the bucket in bytes. Its name and its entries have the
// same texts; a key of the store is short.
func (b *quotaBucket) memory() int64 { return bucketBytes + 2*int64(len(b.name)) }

// outgoing is what a response has for a bucket. The zero value is nothing.
type outgoing struct {
	kind  outKind
	grant *grant // of outTokens: a new grant, or the current one with another deadline
	ttl   time.Duration
}

type outKind uint8

const (
	outNone outKind = iota
	outTokens
	outAllow
	outDeny
	outAbandon
)

// quotaPlan is what applies to a bucket.
type quotaPlan struct {
	kind    quotaKind
	limits  []envoyconfig.Limit
	key     string
	path    string // name of the rule
	counter *Counter
}

type quotaKind uint8

const (
	allowAll quotaKind = iota // no rule, or a rule that never denies
	denyAll
	leased
)

// planQuota finds the rule for a bucket. It is the rule of a descriptor with the same
// entries in any order, and its state is that of the descriptor.
func (h *Handler) planQuota(domain string, entries []envoyconfig.Entry) (p quotaPlan) {
	r := requestStates.Get().(*requestState)
	defer r.release()
	r.handler, r.rules, r.snapshot = h, h.rules.Load(), h.engine.ActiveConfig()
	d := r.rules.config.Domain(domain)
	if d == nil {
		return p
	}
	r.keys, r.entries = r.keys[:0], append(r.entries[:0], entries...)
	if r.matcher.MatchSet(d, r.entries) == nil {
		return p
	}
	rule, counter := r.matchRule(d)
	p.counter, p.path = counter, rule.Path
	switch {
	case rule.Unlimited || rule.Shadow || h.opts.Shadow || !r.isEnforced():
	case isBlocked(rule.Limits):
		p.kind = denyAll
	default:
		p.kind, p.limits, p.key = leased, rule.Limits, string(r.keys)
	}
	return p
}

// isSame reports whether a grant belongs to the plan.
func (p *quotaPlan) isSame(g *grant) bool {
	return slices.EqualFunc(p.limits, g.leases, func(l envoyconfig.Limit, of quotaLease) bool {
		return *l.Inline == of.limit && p.key == of.key
	})
}

// report applies the usage of a report that arrived now.
func (b *quotaBucket) report(now time.Duration, u *quotaUsage) {
	rest := int64(u.allowed)
	for _, g := range b.grants {
		rest = g.spend(rest)
		// The report was sent after g had ended, so later reports have nothing of g.
		g.reported = g.reported || now >= g.ends+maxDelay
	}
	if n := len(b.grants); n > 0 {
		b.grants[n-1].estimate(int64(u.allowed), b.reportedAt, now)
	}
	if u.allowed+u.denied > 0 {
		b.usedAt = now
	}
	b.measure(now, float64(u.allowed)+float64(u.denied))
	if b.plan.counter != nil {
		within, over := min(u.allowed, maxCounted), min(u.denied, maxCounted)
		b.plan.counter.add(Counts{TotalHits: within + over, WithinLimit: within, OverLimit: over})
	}
}

// measure updates the demand of the client. An increase counts immediately.
func (b *quotaBucket) measure(now time.Duration, requests float64) {
	if b.reportedAt == 0 {
		b.reportedAt = now
		return
	}
	b.asked += requests
	elapsed := now - b.reportedAt
	if elapsed < minGap {
		return
	}
	rate := b.asked / elapsed.Seconds()
	b.rate = max(rate, (b.rate+rate)/2)
	b.gap, b.asked, b.reportedAt = elapsed, 0, now
}

// minGap is the minimum time in which the demand of a client is measured.
const minGap = 50 * time.Millisecond

// current returns the grant that the client spends and whose time to live can be
// extended, or nil.
func (b *quotaBucket) current(now time.Duration) *grant {
	if n := len(b.grants); n > 0 {
		if g := b.grants[n-1]; !g.replaced && now < g.deadline && now+maxDelay < g.expires && b.plan.isSame(g) {
			return g
		}
	}
	return nil
}

// want returns the number of further tokens that the client needs. It is 0 if cur is
// enough.
func (b *quotaBucket) want(now time.Duration, cur *grant) int64 {
	if now < b.retryAt {
		return 0
	}
	if cur != nil && cur.rest > 0 && cur.expected(now, b.rate) > b.low(cur) {
		return 0
	}
	most := int64(maxTokens)
	for i := range b.plan.limits {
		most = min(most, b.plan.limits[i].Inline.Limit.Capacity())
	}
	if b.size == 0 {
		b.size = max(1, most/8)
	}
	b.size = min(b.size, most)
	need := math.Ceil(2 * b.rate * max(b.gap, 2*quotaSpacing).Seconds())
	if b.rate == 0 {
		return b.size
	}
	return int64(max(1, min(need, float64(b.size))))
}

// low returns the number of tokens at which the next grant begins.
func (b *quotaBucket) low(cur *grant) float64 {
	return min(max(b.rate*2*quotaSpacing.Seconds(), float64(cur.max)/4), float64(cur.max)/2)
}

// resize changes the maximum of the next grant after the store had units or had fewer
// than wanted. So streams that compete for a limit reduce their grants.
func (b *quotaBucket) resize(want, units int64) {
	b.short = units < want
	switch {
	case b.short:
		b.size = max(1, b.size/2)
	case want == b.size:
		b.size = min(2*b.size, maxTokens)
	}
}

// settle ends the leases that the client no longer spends.
func (b *quotaBucket) settle(ctx context.Context, s *engine.ActiveConfig, now time.Duration) (err error) {
	b.grants = slices.DeleteFunc(b.grants, func(g *grant) bool {
		over := now >= g.ends
		switch {
		case over && g.reported, g.rest == 0:
			err = errors.Join(err, g.settle(ctx, s, now, 0))
			return true
		case over && b.short && g.refillsWithin(8*b.gap):
			// Units that count as spent refill before a report would return them.
			err = errors.Join(err, g.settle(ctx, s, now, g.rest))
		case g.replaced:
			err = errors.Join(err, g.commit(ctx, s, now))
		}
		return false
	})
	b.merge()
	return err
}

// maxGrants is the maximum number of grants of a bucket whose use is not known.
const maxGrants = 64

// merge reduces the number of grants whose leases have ended.
func (b *quotaBucket) merge() {
	for len(b.grants) > maxGrants && b.grants[0].settled && b.grants[1].settled {
		b.grants[1].rest += b.grants[0].rest
		b.grants = slices.Delete(b.grants, 0, 1)
	}
}

// renew chooses what the next response has for a bucket.
func (s *quotaStream) renew(ctx context.Context, b *quotaBucket) {
	now := s.now()
	if now-b.usedAt >= quotaIdle {
		b.out.kind = outAbandon
		return
	}
	b.plan = s.handler.planQuota(s.domain, b.entries)
	active := s.handler.engine.ActiveConfig()
	err := b.settle(ctx, active, now)
	b.next = now + quotaTTL/2
	switch b.plan.kind {
	case allowAll:
		b.out.kind = outAllow
		return
	case denyAll:
		b.out.kind = outDeny
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
		b.out.kind = outDeny
		return
	}
	s.handler.stats.storeErrors.Add(1)
	b.next = s.now() + storeRetry
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
			b.send(s.now(), g)
			if cur != nil {
				return cur.commit(ctx, active, s.now())
			}
			return nil
		}
	}
	// If the tokens are probably spent, a denial returns tokens that were not reported.
	if cur != nil && (!b.short || cur.expected(s.now(), b.rate) >= 1) {
		if ok, err := s.extend(ctx, active, cur); ok || err != nil {
			b.send(s.now(), cur)
			return err
		}
	}
	now := s.now()
	b.out.kind = outDeny
	b.next = min(max(b.retryAt, now+quotaSpacing), now+quotaTTL/2) + jitter(quotaSpacing/4)
	return nil
}

// send makes the next response have g, and sets the time of the next renewal: before the
// assignment expires, and before its tokens are probably spent.
func (b *quotaBucket) send(now time.Duration, g *grant) {
	b.out = outgoing{kind: outTokens, grant: g}
	ttl := g.seconds(now)
	if ttl == 0 { // the window ends
		b.next = g.deadline + validitySlack + jitter(quotaSpacing/4)
		return
	}
	wait := min(quotaTTL/2, max(ttl-3*quotaSpacing/2, quotaSpacing))
	if b.rate > 0 {
		seconds := (g.expected(now, b.rate) - b.low(g)) / b.rate
		wait = min(wait, max(time.Duration(min(seconds, 1e6)*1e9), quotaSpacing))
	}
	b.next = now + wait + jitter(quotaSpacing/8)
}

// validitySlack is the time after which a lease whose validity has ended has ended in the
// store, too.
const validitySlack = quotaTTL / 100

// take takes tokens from all limits of the rule. It returns nil if there are none.
func (s *quotaStream) take(ctx context.Context, active *engine.ActiveConfig, b *quotaBucket, want int64) (*grant, error) {
	sent := s.now()
	g := &grant{max: want, serial: b.nextSerial(), deadline: math.MaxInt64}
	for i := range b.plan.limits {
		l := newLease(b.plan.limits[i].Inline, b.plan.key)
		r, err := l.begin(ctx, active, g.max)
		if err != nil {
			return nil, errors.Join(err, g.settle(ctx, active, sent, 0))
		}
		if r.Units == 0 {
			b.resize(want, 0)
			b.retryAt = s.now() + r.RetryAfter
			return nil, g.settle(ctx, active, sent, 0)
		}
		g.leases = append(g.leases, l)
		g.max, g.deadline = min(g.max, r.Units), min(g.deadline, sent+r.Validity())
	}
	b.resize(want, g.max)
	now := s.now()
	g.rest, g.likely, g.likelyAt, g.ends, g.expires = g.max, float64(g.max), now, g.deadline, g.deadline
	if g.seconds(now) == 0 { // the window ends too early
		b.retryAt = g.deadline + validitySlack
		return nil, g.settle(ctx, active, now, 0)
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

// nextSerial returns a random number that differs from that of the last grant.
func (b *quotaBucket) nextSerial() int32 {
	for {
		n := 1 + rand.Int32N(999_999_999)
		if len(b.grants) == 0 || b.grants[len(b.grants)-1].serial != n {
			return n
		}
	}
}

func jitter(most time.Duration) time.Duration { return rand.N(most) }
