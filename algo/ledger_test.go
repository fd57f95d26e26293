package algo_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/storetest/model"
)

// TestHoldsEqualModel compares the ledger of holds with the definition: after a commit
// the state is as if the actual units had been charged at the beginning.
func TestHoldsEqualModel(t *testing.T) {
	traces := 2_000 // 480,000 steps over six algorithms
	if raceDetector || testing.Short() {
		traces = 500
	}
	forEachOf(t, algo.All(), func(t *testing.T, a algo.Algorithm) {
		if !a.Name.CanHold() {
			t.Skipf("%s has no holds", a.Name)
		}
		d := newGenerator(*seedFlag, 900)
		for range traces {
			runHoldTrace(t, a, d)
		}
	})
}

// runHoldTrace compares one random trace. Times do not go back.
func runHoldTrace(t *testing.T, a algo.Algorithm, d generator) {
	t.Helper()
	l := holdLimit(d, a)
	changing := d.oneIn(2)
	if whole := wholeUnits(d, l); changing && !a.Name.Windowed() {
		if changing = accepts(a, whole); changing {
			l = whole
		}
	}
	k, m := newHoldKey(a, l), model.NewHolds(a.Name)
	k.release = a.Name.OnlyHolds() || d.oneIn(2)
	m.Release = k.release
	m.Clip = d.oneIn(3)
	k.maxOpen = 1000
	trace := holdTrace{generator: d, limit: l, now: d.upTo(4e15), last: headgate.Decision{Limit: l.Capacity(), Remaining: l.Capacity()}}
	trace.leasing = a.Name.CanLease() && (!changing || a.Name.Refill() != headgate.RefillStepped) && d.oneIn(2)
	for i := range 40 {
		if changing && d.oneIn(8) {
			trace.changeLimit(a)
			l = trace.limit
			k.bind(a, l)
		}
		s := trace.next(i, k.known)
		if _, _, ok := m.Leased(s.id, s.t); ok && s.verb != "lease" {
			s.verb = "peek" // no client commits or extends a lease
		}
		got, want := k.run(&s, m.Clip), runOnModel(m, l, &s)
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("seed %d: %v release=%t clip=%t%s\n got %+v\nwant %+v", *seedFlag, l, k.release, m.Clip, trace.text, got, want)
		}
		trace.last = got.decision
	}
}

// holdTrace generates the steps of a random trace.
type holdTrace struct {
	generator
	limit headgate.Limit
	now   int64
	last  headgate.Decision
	text  string
	// leasing is whether the trace has leases, and backward whether the clock goes back.
	leasing, backward bool
}

// maxOpenInTest is the maximum number of open holds at which leases begin in traces.
const maxOpenInTest = 6

// nextLease returns the lease of step i. All ids begin with those of holds.
func (r *holdTrace) nextLease(i int, known []string) headgate.LeaseOp {
	most := r.limit.Capacity()
	op := headgate.LeaseOp{Want: r.upTo(most), Max: r.upTo(most), TTL: micros.Duration(1 + r.scaled(1, 4*max(1, r.last.ResetAfter.Microseconds())))}
	if !r.oneIn(4) {
		op.ID = holdID(fmt.Sprint(i))
	}
	if len(known) > 0 && !r.oneIn(4) {
		op.Previous, op.Spent = holdID(known[r.IntN(len(known))]), r.upTo(3)*r.upTo(most)/8
	}
	return op
}

// next returns step i. known are the ids of the holds that were opened.
func (r *holdTrace) next(i int, known []string) holdStep {
	if r.now = max(r.now, r.after(r.now, r.limit, r.last)); r.backward && r.oneIn(8) {
		r.now -= r.upTo(min(r.now, 2*max(1, r.last.ResetAfter.Microseconds())))
	}
	s := holdStep{
		t: r.now, verb: r.pickVerb(), n: min(r.cost(r.last.Limit, r.last.Remaining), 2*r.limit.Capacity()), id: fmt.Sprint(i),
	}
	if len(known) > 0 && (s.verb == "commit" || s.verb == "extend") {
		s.id = known[r.IntN(len(known))]
	}
	if r.leasing && r.oneIn(2) {
		s.verb, s.lease = "lease", r.nextLease(i, known)
	}
	longest := 1 + 4*max(1, r.last.ResetAfter.Microseconds())
	if r.limit.Concurrent {
		longest = headgate.MaxHoldTTL.Microseconds()
	}
	s.deadline = r.now + r.scaled(1, longest)
	r.text += fmt.Sprintf("\n%+v", s)
	return s
}

// changeLimit changes the limit of the trace. The model does not define what a count is
// after a change of the period.
func (r *holdTrace) changeLimit(a algo.Algorithm) {
	l := r.limit
	switch {
	case l.Concurrent || a.Name.Windowed():
		l.Rate = pick(r.generator, 1+r.upTo(2*l.Rate), 1+r.upTo(10))
	default:
		l = wholeUnits(r.generator, l)
	}
	if accepts(a, l) {
		r.limit = l
	}
	r.text += fmt.Sprintf("\nlimit %v", r.limit)
}

// wholeUnits returns a limit similar to l under which a unit takes a whole number of µs.
// A fraction would be rounded when the limit changes.
func wholeUnits(d generator, l headgate.Limit) headgate.Limit {
	unit := time.Duration(1+d.upTo(3*max(1, l.Period.Microseconds()/l.Rate))) * time.Microsecond
	l.Rate = 1 + d.upTo(20)
	l.Period = unit * time.Duration(l.Rate)
	l.Burst = pick(d, 0, l.Burst, 1+d.upTo(2*l.Capacity()), 1+d.upTo(10))
	return l
}

// holdLimit returns a random limit under which a state can represent 40 debits of twice
// the capacity.
func holdLimit(d generator, a algo.Algorithm) headgate.Limit {
	for {
		l := d.limit(a)
		if l.Concurrent && d.oneIn(2) {
			l.Rate = 1 + d.upTo(11)
		} else if d.oneIn(2) && !l.Concurrent {
			l.Rate, l.Period, l.Burst = 1+d.upTo(11), 7*headgate.MinPeriod, l.Burst%20
		}
		if mayHold(a, l) {
			return l
		}
	}
}

// changedHoldLimit returns a limit that replaces l.
func (d generator) changedHoldLimit(a algo.Algorithm, l headgate.Limit) headgate.Limit {
	for range 20 {
		if c := d.changed(a, l); mayHold(a, c) {
			return c
		}
	}
	return holdLimit(d, a)
}

func mayHold(a algo.Algorithm, l headgate.Limit) bool {
	fill := l.Capacity() / l.Rate * l.Period.Microseconds()
	return accepts(a, l) && l.Capacity() <= 1e7 && fill < 1e13
}

func (r *holdTrace) pickVerb() string {
	if r.limit.Concurrent {
		return pick(r.generator, "hold", "hold", "hold", "commit", "extend", "peek")
	}
	return pick(r.generator, "take", "take", "hold", "hold", "hold", "commit", "commit", "commit", "extend", "debit", "up_to", "refund", "peek", "reset")
}

// holdStep is one operation of a trace.
type holdStep struct {
	t, n, deadline int64
	verb, id       string
	lease          headgate.LeaseOp
}

// holdAnswer is the result of a step.
type holdAnswer struct {
	decision headgate.Decision
	granted  int64
	open     int
	leaseEnd int64
	carried  bool
}

// holdKey is a key with holds, in the Go implementation.
type holdKey struct {
	goStepper
	ledger  algo.Ledger
	release bool
	maxOpen int // maximum number of open holds at which leases begin
	known   []string
}

func newHoldKey(a algo.Algorithm, l headgate.Limit) *holdKey {
	k := &holdKey{maxOpen: maxOpenInTest}
	k.bind(a, l)
	return k
}

func (k *holdKey) account() algo.Account {
	if k.log != nil {
		return &algo.LogAccount{Step: k.log, Log: &k.list}
	}
	return &algo.StateAccount{Step: k.step.(algo.Corrector), State: k.state}
}

func (k *holdKey) save(a algo.Account) {
	if s, ok := a.(*algo.StateAccount); ok {
		k.state = s.State
	}
}

// spend spends n units. With no units, it does not convert the state to another limit.
func (k *holdKey) spend(a algo.Account, t, n int64) {
	if n > 0 {
		k.ledger.Prepare(a, t)
		a.Charge(t, n)
		k.ledger.Observe(a, t)
	}
}

// run executes a step as a store does.
func (k *holdKey) run(s *holdStep, clip bool) (out holdAnswer) {
	account := k.account()
	k.ledger.Expire(account, s.t, k.release)
	k.save(account)
	id := holdID(s.id)
	i := k.ledger.Find(id)
	asked, allowed := int64(0), true
	switch s.verb {
	case "take", "hold":
		asked = s.n
		allowed = k.take(account, s.t, s.n)
		if allowed && s.verb == "hold" {
			k.ledger.Open(account, s.t, id, s.n, s.deadline)
			k.known = append(k.known, s.id)
		}
	case "commit":
		if i >= 0 {
			k.ledger.End(account, s.t, i, s.n, clip)
		}
	case "extend":
		if i >= 0 {
			k.ledger.Extend(i, s.deadline)
		}
	case "lease":
		// As in Lua, a call with too many spent units changes nothing.
		result, err := k.ledger.Lease(account, s.t, &s.lease, k.maxOpen)
		out.granted, out.leaseEnd, out.carried = result.Units, result.Deadline, result.PreviousOpen
		if err != nil {
			out.granted = -1
		}
		if result.Units > 0 {
			k.known = append(k.known, s.id)
		}
	case "debit":
		k.spend(account, s.t, s.n)
	case "up_to":
		out.granted = min(s.n, account.Remaining(s.t))
		k.spend(account, s.t, out.granted)
	case "reset":
		k.ledger.Reset(account, s.t)
	case "refund":
		var r result
		k.do(&step{verb: refund, t: s.t, n: s.n}, &r)
		if a, ok := account.(*algo.StateAccount); !ok {
			k.ledger.Observe(account, s.t) // a refund does not return units on lease
		} else if k.state != a.State {
			k.ledger.Set(a, s.t, k.state)
		}
	}
	k.save(account)
	if allowed { // otherwise the decision is that of a peek with the same units
		asked = 0
	}
	if s.verb == "peek" {
		asked = s.n
	}
	out.decision, out.open = k.peek(s.t, asked), len(k.ledger.Holds)
	return out
}

// take takes n units. A denial changes nothing.
func (k *holdKey) take(a algo.Account, t, n int64) bool {
	s, ok := a.(*algo.StateAccount)
	if !ok {
		return a.Take(t, n)
	}
	next, ok := s.Step.Take(s.State, t, n)
	if ok && next != s.State {
		k.ledger.Set(s, t, next)
	}
	return ok
}

// peek returns the decision of a peek with n units.
func (k *holdKey) peek(t, n int64) headgate.Decision {
	if k.log != nil {
		var r result
		k.do(&step{verb: peek, t: t, n: n}, &r)
		return r.decision
	}
	_, ok := k.step.Take(k.state, t, n)
	return k.ledger.Answer(k.step, k.state, t, n, 0, ok)
}

func holdID(text string) (id headgate.HoldID) {
	copy(id[:], text)
	return id
}

func runOnModel(m *model.Holds, l headgate.Limit, s *holdStep) (out holdAnswer) {
	m.Begin(l, s.t)
	switch s.verb {
	case "take":
		out.decision = m.Take(l, s.t, s.n)
	case "hold":
		out.decision = m.Hold(l, s.t, s.id, s.n, s.deadline)
	case "peek":
		out.decision = m.Peek(l, s.t, s.n)
	case "debit":
		out.decision = m.Debit(l, s.t, s.n)
	case "up_to":
		out.granted, out.decision = m.TakeUpTo(l, s.t, s.n)
	case "lease":
		leaseOnModel(m, l, s, &out)
	case "refund":
		out.decision = m.Refund(l, s.t, s.n)
	case "reset":
		out.decision = m.Reset(l, s.t)
	default:
		if s.verb == "extend" && m.IsOpen(s.id) {
			m.Extend(s.id, s.deadline)
		} else if s.verb == "commit" && m.IsOpen(s.id) {
			m.Commit(l, s.t, s.id, s.n)
		}
		out.decision = m.Peek(l, s.t, 0)
	}
	out.open = m.Open() + m.OpenLeases()
	return out
}

func leaseOnModel(m *model.Holds, l headgate.Limit, s *holdStep, out *holdAnswer) {
	name := func(id headgate.HoldID) string { return strings.TrimRight(string(id[:]), "\x00") }
	c := model.LeaseCall{
		Previous: name(s.lease.Previous), ID: name(s.lease.ID), Spent: s.lease.Spent, Want: s.lease.Want, Max: s.lease.Max, TTL: s.lease.TTL.Microseconds(),
	}
	_, _, repeated := m.Leased(c.ID, s.t)
	if units, _, open := m.Leased(c.Previous, s.t); open && !repeated && c.Spent > units {
		out.granted = -1
	} else {
		reply := m.Lease(l, s.t, c)
		out.granted, out.leaseEnd, out.carried = reply.Units, reply.Deadline, reply.PreviousOpen
	}
	out.decision = m.Peek(l, s.t, 0)
}
