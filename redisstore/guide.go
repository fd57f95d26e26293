package redisstore

import (
	"context"
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
)

// guideRule is a token_bucket_interval in the layout of the Redis guides. Its arithmetic is theirs, in doubles: what two programs
// share they must compute alike.
type guideRule struct {
	*rule
	capacity, rate int64
	interval       float64 // seconds
}

func newGuideRule(r *rule, l headgate.Limit) *guideRule {
	r.guide = &guideRule{rule: r, capacity: l.Capacity(), rate: l.Rate, interval: float64(l.Period.Microseconds()) / 1e6}
	return r.guide
}

// Books reports that the layout has no room for bookings.
func (g *guideRule) CanReserve() bool { return false }

// Reserve is not supported: the scripts that share the bucket know no debt.
func (g *guideRule) Reserve(context.Context, headgate.Instant, string, int64, time.Duration) (headgate.Decision, headgate.ReservationToken, error) {
	return headgate.Decision{}, headgate.ReservationToken{}, errNoGuideBooking("reserve")
}

// Cancel is not supported.
func (g *guideRule) Cancel(context.Context, headgate.Instant, string, int64, headgate.ReservationToken) (headgate.Decision, error) {
	return headgate.Decision{}, errNoGuideBooking("cancel")
}

func errNoGuideBooking(verb string) error {
	return errUnsupported(verb, "the layout of the Redis guides cannot hold reservations; layout headgate can")
}

// Apply does verb with cost on the hash at key: one round trip. See [headgate.Bound].
func (g *guideRule) Apply(ctx context.Context, now headgate.Instant, key string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if err := g.store.ready(ctx); err != nil {
		return headgate.Decision{}, err
	}
	if v > headgate.Reset {
		return headgate.Decision{}, errVerb()
	}
	ctx, cancel := g.store.bounded(ctx)
	defer cancel()
	call := Call{Script: guideScript.text, SHA: guideScript.sha, Keys: []string{key}, Args: g.args(now, v, min(cost, maxUnits))}
	reply := make([]Reply, 1)
	g.store.run(ctx, []Call{call}, reply)
	if reply[0].Err != nil {
		return headgate.Decision{}, storeError(reply[0].Err)
	}
	return g.answer(reply[0].Text, v, cost)
}

func (g *guideRule) args(now headgate.Instant, v headgate.Verb, cost int64) []string {
	whole := func(n int64) string { return strconv.FormatInt(n, 10) }
	args := []string{
		whole(g.capacity), whole(g.rate), strconv.FormatFloat(g.interval, 'g', -1, 64), whole(int64(v)), whole(cost),
	}
	if now != headgate.StoreClock {
		args = append(args, whole(int64(now)/1e6), whole(int64(now)%1e6))
	}
	return args
}

// answer describes the bucket that the script left.
func (g *guideRule) answer(text string, v headgate.Verb, cost int64) (headgate.Decision, error) {
	if len(text) != 1+4*8 {
		return headgate.Decision{}, errReply(len(text))
	}
	double := func(i int) float64 {
		return math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[1+8*i:][:8])))
	}
	tokens, last, t := double(0), double(1), int64(double(2))*1e6+int64(double(3))
	d := headgate.Decision{
		Allowed: text[0] == 1, Limit: g.capacity,
		Remaining:  int64(max(0, min(float64(g.capacity), math.Floor(tokens)))),
		ResetAfter: micros.Duration(g.instantOf(float64(g.capacity), tokens, last, t) - t),
	}
	switch {
	case d.Allowed || v > headgate.Peek:
	case cost > g.capacity:
		d.Never = true
	default:
		d.RetryAfter = micros.Duration(g.instantOf(float64(cost), tokens, last, t) - t)
	}
	return g.named(d), nil
}

// instantOf is the first µs at which the script finds so many tokens; the last instant there is, if another program's numbers put it
// farther away.
func (g *guideRule) instantOf(want, tokens, last float64, t int64) int64 {
	if tokens >= want {
		return t
	}
	refills := math.Ceil((want - tokens) / float64(g.rate))
	about := math.Ceil((last + refills*g.interval) * 1e6)
	if about > float64(headgate.MaxInstant) {
		return int64(headgate.MaxInstant)
	}
	at := max(t+1, int64(max(0, about)))
	for at > t+1 && g.refills(at-1, last) >= refills {
		at--
	}
	for g.refills(at, last) < refills {
		at++
	}
	return at
}

// refills is what the script computes at an instant. The conversions keep a compiler from joining the operations into one.
func (g *guideRule) refills(t int64, last float64) float64 {
	now := float64(float64(t/1e6) + float64(float64(t%1e6)/1e6))
	return math.Floor(float64(float64(now-last) / g.interval))
}

// runGuides is run with keys in the guides' layout among others: each is a call of its own, after all that can be decided together.
func (x *transaction) runGuides(ctx context.Context) error {
	if len(x.groups) > 0 {
		x.store.send(ctx, x.groups)
		if err := x.firstError(); err != nil {
			x.undo(ctx)
			return err
		}
	}
	admitted := x.mode == takeAll && x.allSpent()
	taken := 0
	for _, o := range x.guides {
		if !admitted {
			break
		}
		if err := x.guide(ctx, o, headgate.Take, o.request.N); err != nil {
			x.giveBack(ctx, taken)
			return err
		}
		if admitted = o.decision.Allowed; admitted {
			taken++
		}
	}
	if admitted {
		return nil
	}
	x.giveBack(ctx, taken)
	return x.peekGuides(ctx)
}

func (x *transaction) guide(ctx context.Context, o *op, v headgate.Verb, cost int64) (err error) {
	now := headgate.Instant(o.request.T)
	if now == live {
		now = headgate.StoreClock
	}
	o.decision, err = o.rule.guide.Apply(ctx, now, o.key, v, cost)
	return err
}

// giveBack undoes what was taken, as far as it can be.
func (x *transaction) giveBack(ctx context.Context, taken int) {
	back, cancel := context.WithTimeout(context.WithoutCancel(ctx), x.store.options.Timeout)
	defer cancel()
	for _, o := range x.guides[:taken] {
		_ = x.guide(back, o, headgate.Refund, o.request.N) // what cannot be given back stays spent
	}
	x.undo(ctx)
}

// peekGuides answers for each as if it came after those before it.
func (x *transaction) peekGuides(ctx context.Context) error {
	asked := map[string]int64{}
	for _, o := range x.guides {
		asked[o.key] += o.request.N
		cost := asked[o.key]
		if o.request.N == 0 {
			cost = 0
		}
		if err := x.guide(ctx, o, headgate.Peek, cost); err != nil {
			return err
		}
	}
	return nil
}
