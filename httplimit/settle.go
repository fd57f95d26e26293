package httplimit

import (
	"context"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// settleTimeout bounds each operation of the store after the decision: its client waits for it, or has gone.
const settleTimeout = time.Second

// mostTries bounds how often a rest is asked for that others may spend meanwhile.
const mostTries = 3

// OnlyFailures is a Settle that gives everything back for answers below 400: what is left is charged to who fails, such as a
// wrong password. A handler that panicked failed; so do answers of 500 and above, which are not the client's doing: see
// [OnlyStatus].
func OnlyFailures(o Outcome) int64 {
	if o.Status < http.StatusBadRequest && !o.Panicked {
		return 0
	}
	return o.Charged
}

// OnlySuccesses is a Settle that gives everything back for answers of 400 and above, and for a handler that panicked: nobody pays
// for what did not work. Whoever can make requests fail can make them without end.
func OnlySuccesses(o Outcome) int64 { return o.Charged - OnlyFailures(o) }

// OnlyStatus is a Settle that gives everything back unless the answer has one of these statuses: 401 and 403 on a login, say. A
// handler that panicked before it answered has 500.
func OnlyStatus(codes ...int) func(Outcome) int64 {
	codes = slices.Clone(codes)
	return func(o Outcome) int64 {
		if slices.Contains(codes, o.Status) {
			return o.Charged
		}
		return 0
	}
}

// PerBytes is a Settle for costs that are known at the end: one unit for each size bytes of the answer's body, rounded up, and at
// least one. size is at least 1; less counts as 1.
func PerBytes(size int64) func(Outcome) int64 {
	size = max(size, 1)
	return func(o Outcome) int64 {
		units := o.Bytes / size
		if o.Bytes%size > 0 {
			units++
		}
		return max(units, 1)
	}
}

// bill is what is left of a visit while the request is held or handled.
type bill struct {
	gate    *gate
	items   []item
	taken   []take
	booking booking
	settles bool
	asked   time.Time
}

// item is what one limit was asked for, and what it said.
type item struct {
	headgate.Op
	said headgate.Decision
}

// bill copies what a visit knows of its charges.
func (v *visit) bill() *bill {
	items := make([]item, len(v.ops))
	for i := range items {
		items[i] = item{v.ops[i], v.decisions[i]}
	}
	return &bill{v.gate, items, slices.Clone(v.taken), v.booking, v.settles, v.asked}
}

// each calls f with each charge and its items.
func (b *bill) each(f func(t *take, items []item)) {
	rest := b.items
	for i := range b.taken {
		n := len(b.taken[i].charge.limits)
		f(&b.taken[i], rest[:n])
		rest = rest[n:]
	}
}

// giveBack is for a request that left its queue: its handler has not run. A leaky bucket's place is given back unless others
// stand behind it, who were promised their instants; beside other policies it stays taken.
func (b *bill) giveBack(ctx context.Context) {
	b.each(func(t *take, items []item) {
		switch {
		case b.booking.held:
			b.cancel(ctx, t, &items[0].Op)
		case !t.charge.leaky:
			b.refund(ctx, t.charge, items, t.cost)
		}
	})
}

func (b *bill) cancel(ctx context.Context, t *take, op *headgate.Op) {
	ctx, done := afterwards(ctx)
	defer done()
	d, err := op.Bound.Cancel(ctx, headgate.StoreClock, op.Key, op.Cost, b.booking.mark)
	if o := b.gate.opts.Observer; o != nil {
		o.Observe(headgate.Event{Policy: t.charge.policy, Verb: "cancel", Cost: op.Cost, Decision: d, Err: err})
	}
}

// serve runs the handler and settles, also if it panics: the panic goes on by itself.
func (b *bill) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	rec, finished := &recorder{ResponseWriter: w}, false
	defer func() { b.settle(r, rec.outcome(!finished)) }()
	next.ServeHTTP(rec, r)
	finished = true
}

// settle has each charge's real cost taken. o lacks the request and what was charged.
func (b *bill) settle(r *http.Request, o Outcome) {
	o.Request = r
	b.each(func(t *take, items []item) {
		if t.charge.settle == nil {
			return
		}
		o.Charged = t.cost
		switch cost := max(t.charge.settle(o), 0); {
		case cost < t.cost:
			b.refund(r.Context(), t.charge, items, t.cost-cost)
		case cost > t.cost:
			b.spend(r.Context(), t.charge, items, cost-t.cost)
		}
	})
}

// refund gives units back to each limit of a charge that still has them.
func (b *bill) refund(ctx context.Context, c *charge, items []item, units int64) {
	ctx, done := afterwards(ctx)
	defer done()
	var decisions []headgate.Decision
	var failed error
	for i := range items {
		if !b.owes(ctx, &items[i]) {
			continue
		}
		d, err := items[i].Bound.Apply(ctx, headgate.StoreClock, items[i].Key, headgate.Refund, units)
		if err != nil {
			failed = err
		}
		decisions = append(decisions, d)
	}
	if len(decisions) > 0 {
		b.gate.observe(c, headgate.Refund, units, decisions, failed)
	}
}

// owes reports whether a limit still has what it was paid. What has come back by itself would come back twice, at the cost of
// what others have spent since. What was charged while the store was away the store knows nothing of, so it goes back only while
// it still is.
func (b *bill) owes(ctx context.Context, it *item) bool {
	if time.Since(b.asked) >= it.said.ResetAfter {
		return false
	}
	if it.said.Degraded == headgate.NoTrouble {
		return true
	}
	d, err := it.Bound.Apply(ctx, headgate.StoreClock, it.Key, headgate.Peek, 0)
	return err == nil && d.Degraded != headgate.NoTrouble
}

// spend takes as much of units as is there: each limit of a charge loses the same.
func (b *bill) spend(ctx context.Context, c *charge, items []item, units int64) {
	ctx, done := afterwards(ctx)
	defer done()
	ops, decisions := make([]headgate.Op, len(items)), make([]headgate.Decision, len(items))
	for range mostTries {
		for i := range ops {
			ops[i] = items[i].Op
			ops[i].Cost = units
		}
		err := b.gate.store.ApplyAll(ctx, headgate.StoreClock, ops, false, decisions)
		all := headgate.Combine(decisions)
		if err != nil || all.Allowed {
			b.gate.observe(c, headgate.Take, units, decisions, err)
			return
		}
		if units = min(units, all.Remaining); units == 0 {
			return
		}
	}
}

// afterwards is the context of what is done when the request itself may be over.
func afterwards(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
}
