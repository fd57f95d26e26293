package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
)

// Ban are the settings of a policy for bans: a key that is denied After times within the
// time Within is denied for the time For, whatever its limits are. Each further ban takes
// twice as long, up to Max.
type Ban struct {
	After  int64         // number of denials: 1 to 10,000; 0 means no bans
	Within time.Duration // 1 s to 24 h
	For    time.Duration // 1 s to Max
	Max    time.Duration // at most 90 days; 0 means For
	// Forget is the time after which one ban is forgotten: the next ban of a key that had
	// n bans within n times this time takes 2^n times For. At least Max, and at most 366
	// days; 0 means 24 h, or Max if it is longer.
	Forget time.Duration
}

// The bounds of [Ban].
const (
	MaxBanAfter = 10_000
	MaxBan      = 90 * 24 * time.Hour
)

const (
	defaultForget = 24 * time.Hour
	maxBanWithin  = 24 * time.Hour
)

// withDefaults returns the settings with the defaults in place of zero values.
func (b Ban) withDefaults() Ban {
	if b.Max == 0 {
		b.Max = b.For
	}
	if b.Forget == 0 {
		b.Forget = max(defaultForget, b.Max)
	}
	return b
}

// Validate returns an error if a setting is outside the accepted range.
func (b Ban) Validate() error {
	if b == (Ban{}) {
		return nil
	}
	full := b.withDefaults()
	if full.After < 1 || full.After > MaxBanAfter {
		return errBan("after", full.After, fmt.Sprintf("1 to %d", MaxBanAfter))
	}
	for _, d := range []struct {
		name         string
		value        time.Duration
		least, most time.Duration
	}{
		{"within", full.Within, time.Second, maxBanWithin},
		{"for", full.For, time.Second, MaxBan},
		{"max", full.Max, full.For, MaxBan},
		{"forget", full.Forget, full.Max, headgate.MaxPeriod},
	} {
		if d.value < d.least || d.value > d.most || d.value%time.Millisecond != 0 {
			return errBan(d.name, d.value, fmt.Sprintf("%v to %v, in whole milliseconds", d.least, d.most))
		}
	}
	return nil
}

func errBan(field string, value any, accepted string) error {
	return fmt.Errorf("%w: %s of the ban is %v; must be %s", headgate.ErrInvalidPolicy, field, value, accepted)
}

// levels returns the number of bans after which a ban takes Max.
func (b Ban) levels() int64 {
	n := int64(1)
	for d := b.For; d < b.Max; d *= 2 {
		n++
	}
	return n
}

// duration returns the duration of a ban at a level, from 1.
func (b Ban) duration(level int64) time.Duration {
	d := b.For
	for ; level > 1 && d < b.Max; level-- {
		d *= 2
	}
	return min(d, b.Max)
}

// BanRules are the rules of a policy's bans. They need nothing of a store that its limits
// do not need:
//
//   - The ban of a key is one more limit of the policy: a token bucket so large that
//     requests do not empty it. A debit puts it into debt for the duration of the ban, so
//     that each request is denied until the debt is refilled.
//   - The denials of a key are counted in a sliding log.
//   - The level of a key is a token bucket from which each ban takes one unit.
type BanRules struct {
	Ban
	Policy  string
	store   headgate.Store
	like    headgate.Rule // rule of the ban
	rule    *Rule
	denials headgate.Bound
	level   headgate.Bound
}

// banLimit is the limit of the bucket of a ban. One unit is 1 ns of a ban, and the bucket
// is full 10 ms after it: a ban that begins earlier is longer by at most that.
var banLimit = headgate.Limit{Rate: headgate.MaxUnits, Period: time.Second, Burst: int64(10 * time.Millisecond)}

// bindBan binds the rules of a policy's bans. It reuses those of the last configuration
// if they are equal.
func (b *binding) bindBan(from headgate.Policy, ban Ban) error {
	if ban == (Ban{}) {
		return nil
	}
	if err := ban.Validate(); err != nil {
		return err
	}
	ban = ban.withDefaults()
	like := headgate.Rule{
		Scope: "ban:" + from.Name, Name: from.Name + ":ban", Limit: banLimit, Algorithm: headgate.TokenBucket,
		OnStoreError: from.OnStoreError, Lease: from.Lease,
	}
	if b.last != nil {
		if p := b.last.policies[from.Name]; p != nil && p.ban != nil && p.ban.Ban == ban && p.ban.like == like {
			b.policy.ban = p.ban
			return nil
		}
	}
	rules := &BanRules{Ban: ban, Policy: from.Name, store: b.store, like: like}
	var err error
	if rules.rule, err = bind(b.store, like); err != nil {
		return err
	}
	rules.rule.Policy, rules.rule.ban = from.Name, rules
	denials := headgate.Rule{
		Scope: "denials:" + from.Name, Name: like.Name, Limit: headgate.Limit{Rate: ban.After, Period: ban.Within}, Algorithm: headgate.SlidingLog,
	}
	if rules.denials, err = root.Bind(b.store, denials); err != nil {
		return err
	}
	level := headgate.Rule{
		Scope: "bans:" + from.Name, Name: like.Name, Algorithm: headgate.TokenBucket,
		Limit: headgate.Limit{Rate: 1, Period: ban.Forget, Burst: ban.levels()},
	}
	if rules.level, err = root.Bind(b.store, level); err != nil {
		return err
	}
	b.policy.ban = rules
	return nil
}

// banOf returns the bans that apply under a limit, or nil. Under a limit without counts
// there are none.
func (b *binding) banOf(l headgate.Limit) *BanRules {
	if l.IsUnlimited() || l.IsBlocked() {
		return nil
	}
	return b.policy.ban
}

// isBan reports whether the rule is the ban of its policy.
func (r *Rule) isBan() bool { return r.ban != nil && r.ban.rule == r }

// Banned is a ban that [BanRules.Count] has begun.
type Banned struct {
	Level int64         // number of this ban, from 1
	For   time.Duration // 0 if no ban has begun
}

// Count counts denials of a key. If the key has been denied often enough, it begins a
// ban. It takes one call of the store, and up to four more if it begins a ban. If it
// returns an error, denials may not have been counted.
func (b *BanRules) Count(ctx context.Context, now headgate.Instant, key string, denials int64) (Banned, error) {
	counted, err := b.apply(ctx, now, headgate.TakeUpTo, b.denials, key, denials)
	if err != nil || counted.Granted == 0 || counted.Remaining > 0 {
		return Banned{}, err
	}
	// Between the call above and the reset below, a denial can leave the log, so that
	// another instance comes here too.
	if d, err := b.rule.bound.Apply(ctx, now, key, headgate.Peek, 1); err != nil || !d.Allowed {
		return Banned{}, errors.Join(err, b.forgetDenials(ctx, now, key))
	}
	taken, err := b.apply(ctx, now, headgate.TakeUpTo, b.level, key, 1)
	if err != nil {
		return Banned{}, err
	}
	banned := Banned{Level: b.levels() - taken.Remaining}
	banned.For = b.duration(banned.Level)
	if _, err := b.apply(ctx, now, headgate.Debit, b.rule.bound, key, banUnits(banned.For)); err != nil {
		return Banned{}, err
	}
	return banned, b.forgetDenials(ctx, now, key)
}

// forgetDenials makes the next ban require as many denials as the first.
func (b *BanRules) forgetDenials(ctx context.Context, now headgate.Instant, key string) error {
	_, err := b.denials.Apply(ctx, now, key, headgate.Reset, 0)
	return err
}

// banUnits returns the number of units that a ban takes from an unused bucket, so that it
// has its first unit again after d.
func banUnits(d time.Duration) int64 { return int64(d) + banLimit.Burst - 1 }

func (b *BanRules) apply(
	ctx context.Context, now headgate.Instant, verb headgate.HoldVerb, bound headgate.Bound, key string, n int64,
) (headgate.HoldResult, error) {
	ops, results := []headgate.HoldOp{{Op: headgate.Op{Bound: bound, Key: key, Cost: n}}}, make([]headgate.HoldResult, 1)
	_, err := root.ApplyHolds(ctx, b.store, now, verb, 0, ops, results)
	return results[0], err
}

// reset forgets the denials and the bans of a key. The bucket of the ban is reset with
// the policy's limits.
func (b *BanRules) reset(ctx context.Context, now headgate.Instant, key string) error {
	for _, bound := range []headgate.Bound{b.denials, b.level} {
		if _, err := bound.Apply(ctx, now, key, headgate.Reset, 0); err != nil {
			return err
		}
	}
	return nil
}

// BanState is the state of a key under the bans of a policy.
type BanState struct {
	Banned  bool
	Ends    time.Duration // time until the ban ends; 0 if the key is not banned
	Denials int64         // denials that count towards the next ban
	Bans    int64         // bans that are not forgotten
}

// BanState returns the state of a key under the bans of a policy. ok is false if the
// policy has none. It takes three calls of the store. A reset of the key ends the ban.
func (s *ActiveConfig) BanState(ctx context.Context, now headgate.Instant, policy, key string) (state BanState, ok bool, err error) {
	p := s.policies[policy]
	if p == nil {
		return state, false, s.unknownPolicy(policy)
	}
	if p.ban == nil {
		return state, false, nil
	}
	ban, err := p.ban.rule.bound.Apply(ctx, now, key, headgate.Peek, 1)
	if err != nil {
		return state, true, err
	}
	denials, err := p.ban.denials.Apply(ctx, now, key, headgate.Peek, 0)
	if err != nil {
		return state, true, err
	}
	level, err := p.ban.level.Apply(ctx, now, key, headgate.Peek, 0)
	state = BanState{!ban.Allowed, ban.RetryAfter, denials.Limit - denials.Remaining, level.Limit - level.Remaining}
	return state, true, err
}

// foldBans adds the decision of each ban with an index in from, …, to-1 to that of the
// limit before it, and removes the ban. It returns the index after the last charge.
func (c *charges) foldBans(from, to int) int {
	if c.bans == 0 {
		return to
	}
	for i := to - 1; i > from; i-- {
		if !c.rules[i].isBan() {
			continue
		}
		foldBan(&c.Decisions[i-1], &c.Decisions[i])
		c.remove(i)
		c.bans--
		to--
	}
	return to
}

// remove removes the charge with index i.
func (c *charges) remove(i int) {
	c.Remove(i)
	c.rules = append(c.rules[:i], c.rules[i+1:]...)
	c.checks = append(c.checks[:i], c.checks[i+1:]...)
}

// foldBan changes the decision of a limit to a denial if the ban denies.
func foldBan(d, ban *headgate.Decision) {
	if d.Degraded == headgate.ReasonNone {
		d.Degraded = ban.Degraded
	}
	if ban.Allowed {
		return
	}
	d.DeniedBy = append(ban.DeniedBy[:len(ban.DeniedBy):len(ban.DeniedBy)], d.DeniedBy...)
	d.Allowed, d.Remaining, d.Delay = false, 0, 0
	d.RetryAfter = max(d.RetryAfter, ban.RetryAfter)
	d.ResetAfter = max(d.ResetAfter, ban.RetryAfter)
	if d.Never {
		d.RetryAfter = 0
	}
}

// Ban returns the bans of the policy of the limit with index i in Rules, or nil. banned is
// true if the key is banned already. The denials of a banned key do not count.
func (e *Event) Ban(i int) (rules *BanRules, banned bool) {
	return banOf(e.answer.enforced.rules[i], &e.answer.enforced.Decisions[i])
}

// ShadowBan is like Ban for the check with index i in Shadows.
func (e *Event) ShadowBan(i int) (rules *BanRules, banned bool) {
	w := &e.answer.Shadows[i]
	return banOf(e.answer.shadowed.rules[w.first], &w.Decision)
}

func banOf(r *Rule, d *headgate.Decision) (rules *BanRules, banned bool) {
	if r.ban == nil {
		return nil, false
	}
	return r.ban, slices.Contains(d.DeniedBy, r.ban.rule.Name)
}

// checkBans reports whether the key of a check is banned. If one is, the decisions of the
// request are set, and it must not open a hold. It takes one call of the store for each
// check with bans, and one more if a key is banned: an operation on a hold cannot include
// the ban, because it would open a hold there.
func (s *ActiveConfig) checkBans(ctx context.Context, now headgate.Instant, a *Answer) (denied bool, err error) {
	c := &a.enforced
	for i, r := range c.rules {
		if r.ban == nil || i > 0 && c.checks[i-1] == c.checks[i] {
			continue
		}
		ban, err := r.ban.rule.bound.Apply(ctx, now, c.Ops[i].Key, headgate.Peek, min(1, c.Ops[i].Cost))
		if err != nil {
			return false, err
		}
		if ban.Allowed {
			continue
		}
		if !denied {
			if err := s.apply(ctx, now, headgate.Peek, c, 0, len(c.Ops)); err != nil {
				return false, err
			}
		}
		denied = true
		foldBan(&c.Decisions[i], &ban)
	}
	if denied {
		a.combine(c)
	}
	return denied, nil
}
