package httplimit

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/headgate/headgate"
)

// visit is what one request is asked for and what was decided. Visits are used again, so that a request makes no garbage but for
// the text that outlives it.
type visit struct {
	gate      *gate
	asker     asker
	keys      []byte // the text of all keys, one behind the other
	taken     []take
	ops       []headgate.Op
	decisions []headgate.Decision
	all       headgate.Decision // of all together
	mask      uint32            // bit i: charge i holds
	settles   bool              // one of them wants to know the outcome
	asked     time.Time         // when, if something may be given back
	booking   booking
	text      strings.Builder // keys, then the values of header fields: one allocation
}

// take is one charge of a visit.
type take struct {
	charge *charge
	keyEnd int // in keys
	cost   int64
}

var visits = sync.Pool{New: func() any { return new(visit) }}

// roomForFields is how many bytes the values of header fields take, mostly.
const roomForFields = 128

// mostKept bounds the bytes for keys that a visit keeps for the next one.
const mostKept = 16 << 10

func newVisit(g *gate, r *http.Request) *visit {
	v := visits.Get().(*visit)
	v.gate, v.asker = g, asker{req: r, resolver: g.resolver}
	return v
}

// release gives the visit back. Nothing of it may be used afterwards but strings.
func (v *visit) release() {
	clear(v.taken)
	clear(v.ops)
	clear(v.decisions)
	keys := v.keys[:0]
	if cap(keys) > mostKept {
		keys = nil
	}
	*v = visit{keys: keys, taken: v.taken[:0], ops: v.ops[:0], decisions: v.decisions[:0]}
	visits.Put(v)
}

// collect finds the charges that hold, with key and cost, and reports whether there are any.
func (v *visit) collect() bool {
	for i := range v.gate.charges {
		c := &v.gate.charges[i]
		if c.when != nil && !c.when(v.asker.req) {
			continue
		}
		cost := int64(1)
		if c.cost != nil {
			cost = c.cost(v.asker.req)
		}
		v.keys = v.asker.appendKey(v.keys, c.key)
		v.taken = append(v.taken, take{c, len(v.keys), cost})
		v.mask |= 1 << i
		v.settles = v.settles || c.settle != nil
		if v.asked.IsZero() && (c.settle != nil || c.leaky) {
			v.asked = time.Now()
		}
	}
	return len(v.taken) > 0
}

// decide asks the store.
func (v *visit) decide(ctx context.Context) error {
	err := v.makeOps()
	if err == nil {
		err = v.apply(ctx)
	}
	v.observe(err)
	if err != nil {
		return err
	}
	if v.all = v.decisions[0]; len(v.decisions) > 1 {
		v.all = headgate.Combine(v.decisions)
	}
	return nil
}

// makeOps writes the keys to where they stay and makes an op for each limit.
func (v *visit) makeOps() error {
	v.text.Grow(len(v.keys) + roomForFields)
	v.text.Write(v.keys)
	keys, begin := v.text.String(), 0
	for i := range v.taken {
		t := &v.taken[i]
		if t.cost < 0 {
			return errCost(t.cost)
		}
		for j := range t.charge.limits {
			v.ops = append(v.ops, headgate.Op{Bound: t.charge.limits[j].bound, Key: keys[begin:t.keyEnd], Cost: t.cost})
		}
		begin = t.keyEnd
	}
	v.decisions = slices.Grow(v.decisions, len(v.ops))[:len(v.ops)]
	return nil
}

func (v *visit) apply(ctx context.Context) (err error) {
	if len(v.ops) > 1 {
		return v.gate.store.ApplyAll(ctx, headgate.StoreClock, v.ops, false, v.decisions)
	}
	if op := &v.ops[0]; v.taken[0].charge.leaky && op.Bound.Books() && op.Cost > 0 && op.Cost <= op.Bound.Limit() {
		v.decisions[0], err = v.booking.take(ctx, op)
	} else {
		v.decisions[0], err = op.Bound.Apply(ctx, headgate.StoreClock, op.Key, headgate.Take, op.Cost)
	}
	return err
}

// observe tells the observer of each charge its own part of the answer.
func (v *visit) observe(err error) {
	if v.gate.opts.Observer == nil {
		return
	}
	var rest []headgate.Decision
	if err == nil {
		rest = v.decisions
	}
	for i := range v.taken {
		t := &v.taken[i]
		n := min(len(t.charge.limits), len(rest))
		v.gate.observe(t.charge, headgate.Take, t.cost, rest[:n], err)
		rest = rest[n:]
	}
}

// tell writes the header fields.
func (v *visit) tell(h http.Header) {
	var now time.Time
	if v.gate.needsTime {
		now = time.Now()
	}
	v.gate.writer.Write(h, v.gate.sets.of(v.mask), v.decisions, now, &v.text)
}

// denial is what a denied request is told.
func (v *visit) denial() *Denial {
	d, i := &Denial{Decision: v.all}, 0
	for _, t := range v.taken {
		for _, l := range t.charge.limits {
			if !v.decisions[i].Allowed && !slices.Contains(d.Policies, l.fields.Name) {
				d.Policies = append(d.Policies, l.fields.Name)
			}
			i++
		}
	}
	return d
}

// booking is a place in the queue of a leaky bucket.
type booking struct {
	mark headgate.Mark
	held bool // mark is that of a place that was booked
}

// take is Apply with Take for an op of a leaky bucket, but that its place can be cancelled without moving those behind it. A
// booking knows no queue, so its wait is bounded by what the queue holds, in whole microseconds; in the last of them the take
// itself decides. So it does while the store is away: the share of the limit that holds then has a shorter queue.
func (b *booking) take(ctx context.Context, op *headgate.Op) (headgate.Decision, error) {
	most := op.Bound.Spacing(op.Bound.Limit() - op.Cost)
	d, mark, err := op.Bound.Reserve(ctx, headgate.StoreClock, op.Key, op.Cost, most)
	if err != nil {
		return headgate.Decision{}, err
	}
	switch away := d.Degraded != headgate.NoTrouble; {
	case away && d.Delay > 0:
		if _, err = op.Bound.Cancel(ctx, headgate.StoreClock, op.Key, op.Cost, mark); err != nil {
			return headgate.Decision{}, err
		}
	case d.Allowed || d.Never || !away && d.RetryAfter > time.Microsecond:
		b.mark, b.held = mark, d.Allowed
		return d, nil
	}
	return op.Bound.Apply(ctx, headgate.StoreClock, op.Key, headgate.Take, op.Cost)
}
