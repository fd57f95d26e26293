package redisstore

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// guideRule is a token_bucket_interval rule in the layout of the Redis guides. It
// computes with floating-point numbers as the scripts in the guides do, because
// programs that share a bucket must get the same results.
type guideRule struct {
	*rule
	capacity, rate int64
	interval       float64 // seconds
}

// guideOwner is the rule whose buckets a store has in LayoutGuide. Their Redis keys are
// exactly the callers' keys, so the rules of another policy, and of another limit of the
// same policy, would spend from the same buckets.
type guideOwner struct {
	mu          sync.Mutex
	scope, name string
}

// claim makes r the owner, or returns an error if the owner has another scope. Rules
// with the same scope are one policy whose limit changes.
func (o *guideOwner) claim(r headgate.Rule) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.name == "" {
		o.scope, o.name = r.Scope, r.Name
	}
	if o.scope == r.Scope {
		return nil
	}
	return errUnsupported("bind", fmt.Sprintf("layout guide stores a bucket at exactly the caller's key, so only one limit of one policy can be a %s; %.100q already is; use layout headgate, another algorithm, or a store for each policy with keys of its own", headgate.TokenBucketInterval, o.name))
}

func newGuideRule(r *rule, l headgate.Limit) *guideRule {
	r.guide = &guideRule{rule: r, capacity: l.Capacity(), rate: l.Rate, interval: float64(l.Period.Microseconds()) / 1e6}
	return r.guide
}

// ApplyHold is not supported: the layout has no room for holds.
func (g *guideRule) ApplyHold(
	context.Context, headgate.Instant, headgate.HoldVerb, time.Duration, headgate.HoldOp,
) (headgate.HoldResult, headgate.Instant, error) {
	return headgate.HoldResult{}, 0, errGuideHolds()
}

func errGuideHolds() error {
	return errUnsupported("hold", "the layout of the Redis guides has no holds")
}

// CanReserve returns false, because the layout cannot store reservations.
func (g *guideRule) CanReserve() bool { return false }

// Reserve is not supported, because a reservation needs a negative balance. The scripts
// of the Redis guides, which share the bucket, do not allow one.
func (g *guideRule) Reserve(context.Context, headgate.Instant, string, int64, time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	return headgate.Decision{}, headgate.ReservationToken{}, errGuideCannotReserve("reserve")
}

// Cancel is not supported.
func (g *guideRule) Cancel(context.Context, headgate.Instant, string, int64, headgate.ReservationToken) (headgate.Decision, error) {
	return headgate.Decision{}, errGuideCannotReserve("cancel")
}

func errGuideCannotReserve(verb string) error {
	return errUnsupported(verb, "layout guide does not support reservations; use layout headgate")
}

// Apply executes the verb v with cost in one round trip. The state is a hash whose
// Redis key is the parameter key. See [headgate.Bound].
func (g *guideRule) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := g.store.checkReady(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb(v)
	}
	ctx, cancel := g.store.withTimeout(ctx)
	defer cancel()
	call := Call{Script: guideScript.text, SHA: guideScript.sha, Keys: []string{key}, Args: g.args(now, v, min(cost, maxUnits))}
	reply := make([]Reply, 1)
	g.store.run(ctx, []Call{call}, reply)
	if reply[0].Err != nil {
		err := classify(reply[0].Err)
		g.store.noteFailure(err)
		return headgate.Decision{}, err
	}
	return g.answer(reply[0].Text, v, cost)
}

func (g *guideRule) args(now headgate.Instant, v headgate.Verb, cost int64) []string {
	integer := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{
		integer(g.capacity), integer(g.rate), strconv.FormatFloat(g.interval, 'g', -1, 64), integer(int64(v)), integer(cost),
	}
	if now != headgate.StoreClock {
		args = append(args, integer(int64(now)/1e6), integer(int64(now)%1e6))
	}
	return args
}

// answer returns the decision for the bucket as the script left it; text is the
// script's reply.
func (g *guideRule) answer(text string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if len(text) != 1+4*8 {
		return headgate.Decision{}, errReply(len(text))
	}
	double := func(i int) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[1+8*i:][:8])))
	}
	if !(double(2) >= 0 && double(2) < 1e10 && double(3) >= 0 && double(3) < 1e6) || math.IsNaN(double(0)) || math.IsNaN(double(1)) {
		return headgate.Decision{}, errReply(len(text))
	}
	tokens, last, t := double(0), double(1), int64(double(2))*1e6+int64(double(3))
	d := headgate.Decision{
		Allowed: text[0] == 1, Limit: g.capacity,
		Remaining:  int64(max(0, min(float64(g.capacity), math.Floor(tokens)))),
		ResetAfter: micros.Duration(g.availableAt(float64(g.capacity), tokens, last, t) - t),
	}
	switch {
	case d.Allowed || v > headgate.Peek:
	case cost > g.capacity:
		d.Never = true
	default:
		d.RetryAfter = micros.Duration(g.availableAt(float64(cost), tokens, last, t) - t)
	}
	return g.withDeniedBy(d), nil
}

// availableAt returns the first instant in µs at which the script would find the tokens
// that the parameter want requires. It returns [headgate.MaxInstant] if that instant
// would be later, because another program has stored extreme numbers.
func (g *guideRule) availableAt(want, tokens, last float64, t int64) int64 {
	if tokens >= want {
		return t
	}
	refills := math.Ceil((want - tokens) / float64(g.rate))
	estimate := math.Ceil((last + refills*g.interval) * 1e6)
	if estimate > float64(headgate.MaxInstant) {
		return int64(headgate.MaxInstant)
	}
	at := max(t+1, int64(max(0, estimate)))
	for at > t+1 && g.refills(at-1, last) >= refills {
		at--
	}
	for g.refills(at, last) < refills {
		at++
	}
	return at
}

// refills returns the number of refills that the script would compute at the instant t.
// The conversions to float64 prevent the compiler from fusing the operations, which
// would round differently.
func (g *guideRule) refills(t int64, last float64) float64 {
	now := float64(float64(t/1e6) + float64(float64(t%1e6)/1e6))
	return math.Floor(float64(float64(now-last) / g.interval))
}

// runWithGuides is like run, for a transaction with keys in LayoutGuide. Each of these
// keys needs its own call. These calls follow the calls for all other keys.
func (x *transaction) runWithGuides(ctx context.Context) error {
	if len(x.groups) > 0 {
		x.store.send(ctx, x.groups)
		if err := x.firstError(); err != nil {
			x.undo(ctx)
			return err
		}
	}
	allowed := x.mode == takeAll && x.allTaken()
	taken := 0
	for _, o := range x.guideOps {
		if !allowed {
			break
		}
		if err := x.applyGuide(ctx, o, headgate.Take, o.request.N); err != nil {
			x.undoAll(ctx, taken)
			return err
		}
		if allowed = o.decision.Allowed; allowed {
			taken++
		}
	}
	if allowed {
		return nil
	}
	x.undoAll(ctx, taken)
	return x.peekGuides(ctx)
}

func (x *transaction) applyGuide(ctx context.Context, o *op, v headgate.Verb, cost int64) (err error) {
	now := headgate.Instant(o.request.T)
	if now == serverClock {
		now = headgate.StoreClock
	}
	o.decision, err = o.rule.guide.Apply(ctx, now, o.key, v, cost)
	return err
}

// undoAll refunds the first taken ops of guideOps and the other keys, as far as
// possible.
func (x *transaction) undoAll(ctx context.Context, taken int) {
	refundCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer cancel()
	for _, o := range x.guideOps[:taken] {
		_ = x.applyGuide(refundCtx, o, headgate.Refund, o.request.N) // after an error the units stay spent
	}
	x.undo(ctx)
}

// peekGuides peeks every op on a key in LayoutGuide, as if the earlier ops on the same
// key had been taken.
func (x *transaction) peekGuides(ctx context.Context) error {
	total := map[string]int64{}
	for _, o := range x.guideOps {
		total[o.key] += o.request.N
		cost := total[o.key]
		if o.request.N == 0 {
			cost = 0
		}
		if err := x.applyGuide(ctx, o, headgate.Peek, cost); err != nil {
			return err
		}
	}
	return nil
}
