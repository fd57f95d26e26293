package grpclimit

import (
	"context"
	"fmt"
	"math/bits"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// rules is a charge as the store knows it.
type rules struct {
	Charge
	bounds []headgate.Bound
	limits []httpfields.Limit // as clients know them, one for each bound
	queues bool               // places in its queue are booked, so that they can be given back
}

// name is what clients know the policy by; messages of gRPC hold valid UTF-8 alone.
func (r *rules) name() string {
	if r.Policy.Name == "" {
		return "default"
	}
	return strings.ToValidUTF8(r.Policy.Name, "_")
}

// bind makes a charge ready for use.
func bind(store headgate.Store, c Charge) (*rules, error) {
	r := &rules{Charge: c}
	r.Policy.Limits = append([]headgate.Limit(nil), c.Policy.Limits...)
	for _, rule := range r.Charge.rules(false) {
		b, err := store.Bind(rule)
		if err != nil {
			return nil, err
		}
		name := rule.Name
		if c.Policy.Name == "" {
			name = ""
		}
		r.bounds = append(r.bounds, b)
		r.limits = append(r.limits, httpfields.Limit{
			Name: name, Limit: rule.Limit, Algorithm: rule.Algorithm, AtOnce: b.Limit(),
		})
	}
	r.queues = len(r.bounds) == 1 && r.bounds[0].Books() && c.Policy.Algorithm == headgate.LeakyBucket &&
		c.Policy.OnStoreError != headgate.FailLocal // a share of the limit has a shorter queue
	return r, nil
}

// group is the charges that are made together: all, those made when a stream opens, or those made for each of its messages.
type group struct {
	store    headgate.Store
	observer headgate.Observer
	writer   *httpfields.Writer
	silent   bool // allowed calls are told nothing
	holds    bool // one of the rules has a queue
	address  *addresses
	rules    []*rules
	sets     sync.Map // uint32, which of the rules hold → *httpfields.Set
	kept     atomic.Int64
}

func (g *group) add(r *rules) {
	g.rules = append(g.rules, r)
	g.holds = g.holds || r.Policy.Algorithm == headgate.LeakyBucket
}

// mostSets bounds how many combinations of charges are kept ready.
const mostSets = 256

// set is the limits of those rules whose bit is set.
func (g *group) set(which uint32) *httpfields.Set {
	if s, ok := g.sets.Load(which); ok {
		return s.(*httpfields.Set)
	}
	var limits []httpfields.Limit
	for i, r := range g.rules {
		if which&(1<<i) != 0 {
			limits = append(limits, r.limits...)
		}
	}
	s := g.writer.Set(limits...)
	if g.kept.Add(1) <= mostSets {
		g.sets.Store(which, s)
	}
	return s
}

// question is what one call, or one message of it, asks the store, and the answer. Charges that do not hold are not in it.
type question struct {
	which     uint32 // the bit of each rule that holds
	ops       []headgate.Op
	decisions []headgate.Decision // one for each op
	booked    bool                // the only op was a reservation
	mark      headgate.Mark       // of it
	asked     time.Time           // if one of the rules has a queue
	key       []byte              // room
	text      strings.Builder     // of the fields
}

// mostKept bounds the bytes for a key that a question keeps for the next one.
const mostKept = 16 << 10

var questions = sync.Pool{New: func() any { return new(question) }}

// release returns q for others to use, without anybody's keys.
func (q *question) release() {
	clear(q.ops)
	clear(q.decisions)
	key := q.key[:0]
	if cap(key) > mostKept { // a client has sent an absurd one
		key = nil
	}
	*q = question{ops: q.ops[:0], decisions: q.decisions[:0], key: key}
	questions.Put(q)
}

// ask fills in what call asks for. Only a cost below zero is an error.
func (g *group) ask(ctx context.Context, call Call, q *question) error {
	a := asker{call: call, address: g.address}
	for i, r := range g.rules {
		if !r.holds(ctx, call) {
			continue
		}
		cost := r.cost(ctx, call)
		if cost < 0 {
			return fmt.Errorf("%w: %d, of policy %q; accepted are whole numbers from 0", headgate.ErrInvalidCost, cost, r.Policy.Name)
		}
		q.which |= 1 << i
		q.key = a.appendKey(ctx, q.key[:0], r.Key.part)
		key := string(q.key)
		for _, b := range r.bounds {
			q.ops = append(q.ops, headgate.Op{Bound: b, Key: key, Cost: cost})
			q.decisions = append(q.decisions, headgate.Decision{})
		}
	}
	return nil
}

// take has the store decide q.
func (g *group) take(ctx context.Context, q *question) (headgate.Decision, error) {
	if g.holds {
		q.asked = time.Now()
	}
	err := g.apply(ctx, q)
	g.observe(q, err)
	switch {
	case err != nil:
		return headgate.Decision{}, err
	case len(q.decisions) == 1:
		return q.decisions[0], nil
	default:
		return headgate.Combine(q.decisions), nil
	}
}

func (g *group) apply(ctx context.Context, q *question) (err error) {
	if len(q.ops) > 1 {
		return g.store.ApplyAll(ctx, headgate.StoreClock, q.ops, false, q.decisions)
	}
	op := &q.ops[0]
	if r := g.rules[bits.TrailingZeros32(q.which)]; r.queues && op.Cost > 0 && op.Cost <= op.Bound.Limit() {
		if decided, err := q.book(ctx, op); decided || err != nil {
			return err
		}
	}
	q.decisions[0], err = op.Bound.Apply(ctx, headgate.StoreClock, op.Key, headgate.Take, op.Cost)
	return err
}

// book books a place in the queue of a leaky bucket and reports whether that has decided. The longest wait is what the queue
// takes, in whole microseconds: in the last of them a take decides.
func (q *question) book(ctx context.Context, op *headgate.Op) (decided bool, err error) {
	longest := op.Bound.Spacing(op.Bound.Limit() - op.Cost)
	d := &q.decisions[0]
	*d, q.mark, err = op.Bound.Reserve(ctx, headgate.StoreClock, op.Key, op.Cost, longest)
	q.booked = err == nil && d.Allowed
	return d.Allowed || d.Never || d.RetryAfter > time.Microsecond, err
}

// each calls do with every rule that holds, the decisions on its limits, and the cost.
func (g *group) each(q *question, do func(r *rules, decisions []headgate.Decision, cost int64)) {
	first := 0
	for i, r := range g.rules {
		if q.which&(1<<i) != 0 {
			end := first + len(r.bounds)
			do(r, q.decisions[first:end], q.ops[first].Cost)
			first = end
		}
	}
}

func (g *group) observe(q *question, err error) {
	if g.observer == nil {
		return
	}
	g.each(q, func(r *rules, decisions []headgate.Decision, cost int64) {
		e := headgate.Event{Policy: r.Policy.Name, Verb: headgate.Take.String(), Cost: cost, Err: err}
		if err == nil {
			e.Decision = headgate.Combine(decisions)
		}
		g.observer.Observe(e)
	})
}

// hold keeps an admitted call in a leaky bucket's queue for its delay, unless the call ends before: then what it took is given
// back, and the error of its context returned.
func (g *group) hold(ctx context.Context, q *question, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < delay {
		g.giveBack(ctx, q)
		return context.DeadlineExceeded
	}
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		g.giveBack(ctx, q)
		return ctx.Err()
	}
}

// giveBackTimeout bounds the store calls with which a call that has ended gives back what it took.
const giveBackTimeout = 5 * time.Second

// giveBack returns what q took, as far as nothing would be granted twice: the place in a queue if none was taken behind it, for
// those were promised their instants, and the other limits' units that have not come back by themselves meanwhile. What the store
// did not decide it was not paid. What cannot be given back stays spent.
func (g *group) giveBack(ctx context.Context, q *question) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), giveBackTimeout)
	defer cancel()
	if q.booked {
		op := &q.ops[0]
		_, _ = op.Bound.Cancel(ctx, headgate.StoreClock, op.Key, op.Cost, q.mark)
		return
	}
	first := 0
	g.each(q, func(r *rules, decisions []headgate.Decision, _ int64) {
		ops := q.ops[first : first+len(decisions)]
		if first += len(decisions); r.Policy.Algorithm == headgate.LeakyBucket {
			return
		}
		for i, op := range ops {
			if d := &decisions[i]; d.Degraded == headgate.NoTrouble && time.Since(q.asked) < d.ResetAfter {
				_, _ = op.Bound.Apply(ctx, headgate.StoreClock, op.Key, headgate.Refund, op.Cost)
			}
		}
	})
}
