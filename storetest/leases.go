package storetest

import (
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/storetest/model"
)

func leaseChecks() []check {
	return []check{
		{name: "leases", rule: "units on lease are spent for all others and do not refill; decisions, leases and deadlines equal those of the model", perAlgorithm: checkLeases},
		{name: "lease bound", rule: "in every span, the units taken at the store and spent under leases are at most the bound of the algorithm", perAlgorithm: checkLeaseBound},
		{name: "lease errors", rule: "a lease that is not possible is a typed error, and nothing changes", perAlgorithm: checkLeaseErrors},
	}
}

// hasLeases reports whether the store has leases under the algorithm a. A store with
// leases must return [headgate.ErrUnsupported] if the algorithm has none.
func (ts *tester) hasLeases(a headgate.Algorithm) bool {
	s, ok := ts.store.(headgate.LeaseStore)
	if !ok {
		return false
	}
	if a.CanLease() {
		return true
	}
	bound, err := s.Bind(headgate.Rule{Scope: ts.name(), Algorithm: a, Limit: headgate.MustParseLimit("5/1h")})
	ts.mustf(err, "bind")
	_, err = s.ApplyLease(background, start, headgate.LeaseOp{Bound: bound, Key: "key", ID: headgate.NewHoldID(), Want: 1, Max: 1, TTL: time.Second})
	if !errors.Is(err, headgate.ErrUnsupported) {
		ts.failf("%s: lease: got error %v want ErrUnsupported", a, err)
	}
	return false
}

// checkLeases plays random traces of all operations, and compares every result with the
// model.
func checkLeases(ts *tester, a headgate.Algorithm) { ts.leaseTraces(a, false) }

// checkLeaseBound plays random traces in which processes spend units under their leases
// until a renewal is sent or the lease ends, and judges all spent units in every span.
func checkLeaseBound(ts *tester, a headgate.Algorithm) { ts.leaseTraces(a, true) }

func (ts *tester) leaseTraces(a headgate.Algorithm, judged bool) {
	if !ts.hasLeases(a) {
		return
	}
	share := ts.options.Decisions/8/len(ts.options.algorithms())/ts.options.Parallelism + 1
	ts.parallel(ts.options.Parallelism, func(ts *tester) {
		for compared := 0; compared < share; {
			compared += ts.leaseTrace(a, judged)
		}
	})
}

// leasePlayer plays a trace of operations with leases on one key, on the store and on the
// model.
type leasePlayer struct {
	*tester
	store     headgate.LeaseStore
	bound     headgate.Bound
	rule      headgate.Rule
	limit     headgate.Limit
	algorithm headgate.Algorithm
	key       *model.Holds
	most      int64 // maximum number of units on lease
	at        int64
	trace     string
	last      headgate.Decision
	leases    []*playedLease
	holds     []*playedHold
	ids       int
	judged    bool       // whether the trace is one of checkLeaseBound
	spends    []spending // units that were spent, in a judged trace
	// changing is the number of further changes of the limit; highest is the limit with
	// the highest capacity so far.
	changing int
	highest  headgate.Limit
	// backward is whether the clock goes back. latest is the latest instant.
	backward bool
	latest   int64
}

// playedLease is a lease that began in the trace.
type playedLease struct {
	call  model.LeaseCall
	spent int64
}

// spending is a number of units that were spent at an instant.
type spending struct{ at, units int64 }

// leaseTrace plays one random trace and returns its number of steps.
func (ts *tester) leaseTrace(a headgate.Algorithm, judged bool) int {
	p := &leasePlayer{tester: ts, store: ts.store.(headgate.LeaseStore), algorithm: a, limit: ts.holdLimit(a), at: int64(start) + ts.random.Int64N(1e12), judged: judged}
	for judged && p.limit.Period == 0 { // the bound of the model requires a period
		p.limit = ts.holdLimit(a)
	}
	switch ts.random.IntN(3) {
	case 0:
		p.beginChanging()
	case 1:
		p.backward = !judged
	}
	settings := headgate.HoldSettings{OnExpiry: headgate.OnExpiry(1 + ts.random.IntN(2))}
	p.rule = headgate.Rule{Scope: ts.name(), Limit: p.limit, Algorithm: a, Holds: settings}
	p.bind()
	p.tracef("limit %v", p.limit)
	p.highest = p.limit
	p.key = model.NewHolds(a)
	p.key.Release = settings.OnExpiry == headgate.ReleaseExpired
	p.most = 1 + ts.random.Int64N(p.limit.Capacity())
	p.last = headgate.Decision{Limit: p.limit.Capacity(), Remaining: p.limit.Capacity()}
	steps := 5 + ts.random.IntN(40)
	for range steps {
		p.step()
	}
	p.judge()
	return steps
}

func (p *leasePlayer) bind() {
	var err error
	p.bound, err = p.store.Bind(p.rule)
	p.mustf(err, "bind %v as %q", p.rule.Limit, p.algorithm)
}

func (p *leasePlayer) step() {
	r := p.random
	if p.changing > 0 && r.IntN(8) == 0 {
		p.changeLimit()
	}
	p.advance()
	switch r.IntN(10) {
	case 0, 1:
		p.take()
	case 2, 3:
		if p.judged {
			p.resetOrTake()
		} else {
			p.plain()
		}
	case 4:
		p.repeat()
	case 5, 6:
		p.spend()
	default:
		p.lease()
	}
	if !p.judged || r.IntN(4) == 0 {
		p.mustPeek()
	}
}

// advance changes the time to that of the next step.
func (p *leasePlayer) advance() {
	r := p.random
	switch r.IntN(6) {
	case 0:
		p.at += p.last.RetryAfter.Microseconds()
	case 1:
		p.at += logUniform(r, 1+p.last.ResetAfter.Microseconds())
	case 2:
		p.at += logUniform(r, 2*periodOf(p.limit))
	case 3:
		p.at += p.untilEnd()
	}
	p.latest = max(p.latest, p.at)
	if p.backward && r.IntN(4) == 0 && !p.key.HasExpiredUnits(p.limit, p.latest) {
		p.at -= logUniform(r, 2*periodOf(p.limit))
		p.at = max(p.at, 0)
	}
}

func (p *leasePlayer) tracef(format string, args ...any) {
	p.trace += fmt.Sprintf("\n%d ", p.at) + fmt.Sprintf(format, args...)
}

func (p *leasePlayer) failTrace(format string, args ...any) {
	p.failf("%v max %d:%s\n%s", p.limit, p.most, p.trace, fmt.Sprintf(format, args...))
}

func (p *leasePlayer) must(got headgate.Decision, err error, want headgate.Decision) {
	got.DeniedBy = nil
	if err != nil || !equalDecisions(got, want) {
		p.failTrace("got %s, error %v\nwant %s", formatDecision(got), err, formatDecision(want))
	}
}

func (p *leasePlayer) apply(v headgate.Verb, n int64, want headgate.Decision) {
	got, err := p.bound.Apply(background, headgate.Instant(p.at), "key", v, n)
	p.must(got, err, want)
}

func (p *leasePlayer) mustPeek() {
	p.last = p.key.Peek(p.limit, p.at, 1)
	p.apply(headgate.Peek, 1, p.last)
}

func (p *leasePlayer) take() {
	n := p.units(p.limit.Capacity())
	p.tracef("take %d", n)
	p.key.Begin(p.limit, p.at)
	want := p.key.Take(p.limit, p.at, n)
	p.apply(headgate.Take, n, want)
	if want.Allowed {
		p.spends = append(p.spends, spending{p.at, n})
	}
}

// units returns a random number of units, at most the given one. Often it is what
// remains.
func (p *leasePlayer) units(most int64) int64 {
	switch p.random.IntN(4) {
	case 0:
		return min(p.last.Remaining, most)
	case 1:
		return p.random.Int64N(most + 1)
	default:
		return min(logUniform(p.random, most+1), most)
	}
}

// resetOrTake resets the key in one of ten calls, and takes units otherwise.
func (p *leasePlayer) resetOrTake() {
	if p.random.IntN(10) > 0 {
		p.take()
		return
	}
	p.reset()
}

// reset resets the key. The bound begins again, but leases stay open.
func (p *leasePlayer) reset() {
	p.tracef("reset")
	p.key.Begin(p.limit, p.at)
	p.apply(headgate.Reset, 0, p.key.Reset(p.limit, p.at))
	p.judge()
	p.spends = nil
}

// plain executes an operation that returns units, so that the bound does not apply.
func (p *leasePlayer) plain() {
	n := p.units(p.limit.Capacity())
	switch verb := p.random.IntN(12); {
	case verb < 2:
		p.reset()
	case verb < 4:
		p.tracef("refund %d", n)
		p.key.Begin(p.limit, p.at)
		p.apply(headgate.Refund, n, p.key.Refund(p.limit, p.at, n))
	case p.backward: // the model of a hold requires that the clock does not go back
		p.take()
	case verb < 7:
		p.open(n)
	default:
		p.commit(n)
	}
}

func (p *leasePlayer) applyHold(verb headgate.HoldVerb, id string, n int64, ttl int64) (headgate.HoldResult, error) {
	results := make([]headgate.HoldResult, 1)
	op := headgate.HoldOp{Op: headgate.Op{Bound: p.bound, Key: "key", Cost: n}, ID: idOf(id)}
	_, err := p.store.ApplyHolds(background, headgate.Instant(p.at), verb, micros.Duration(ttl), []headgate.HoldOp{op}, results)
	return results[0], err
}

func idOf(text string) (id headgate.HoldID) {
	copy(id[:], text)
	return id
}

func (p *leasePlayer) nextID() string {
	p.ids++
	return fmt.Sprint("id", p.ids)
}

func (p *leasePlayer) open(n int64) {
	id, ttl := p.nextID(), 1+logUniform(p.random, 2*periodOf(p.limit))
	p.tracef("hold %s %d ttl %d", id, n, ttl)
	p.key.Begin(p.limit, p.at)
	want := p.key.Hold(p.limit, p.at, id, n, p.at+ttl)
	got, err := p.applyHold(headgate.OpenHold, id, n, ttl)
	p.must(got.Decision, err, want)
	if want.Allowed {
		p.holds = append(p.holds, &playedHold{id: id, deadline: p.at + ttl})
	}
}

func (p *leasePlayer) commit(n int64) {
	if len(p.holds) == 0 {
		return
	}
	h := p.holds[p.random.IntN(len(p.holds))]
	if p.key.IsOpenAt(h.id, p.at) {
		p.tracef("commit %s %d", h.id, n)
		p.key.Begin(p.limit, p.at)
		want := p.key.Commit(p.limit, p.at, h.id, n)
		got, err := p.applyHold(headgate.CommitHold, h.id, n, 0)
		p.must(got.Decision, err, want)
	}
}

// untilEnd returns the time until the end of a random lease, or 1 µs less.
func (p *leasePlayer) untilEnd() int64 {
	if len(p.leases) == 0 {
		return 0
	}
	_, end, _ := p.key.Leased(p.pick().call.ID, p.at)
	return max(0, end-p.at-p.random.Int64N(2))
}

func (p *leasePlayer) pick() *playedLease { return p.leases[p.random.IntN(len(p.leases))] }

// spend spends units of an open lease, without the store.
func (p *leasePlayer) spend() {
	if len(p.leases) > 0 {
		p.spendUnder(p.pick())
	}
}

// spendUnder spends some of the units that are left of a lease, and returns their number.
func (p *leasePlayer) spendUnder(l *playedLease) int64 {
	units, _, ok := p.key.Leased(l.call.ID, p.at)
	if !ok {
		return 0
	}
	n := p.random.Int64N(units - l.spent + 1)
	l.spent += n
	p.spends = append(p.spends, spending{p.at, n})
	return n
}

// lease begins, renews or ends a lease. Between the sending of the request and its
// execution, time may pass, and further units may be spent. These units belong to the
// next lease, if it has the units that were left.
func (p *leasePlayer) lease() {
	ttl := 1 + logUniform(p.random, 2*periodOf(p.limit))
	next, late := &playedLease{call: model.LeaseCall{ID: p.nextID(), Want: p.units(p.most), Max: p.most, TTL: ttl}}, int64(0)
	if len(p.leases) > 0 && p.random.IntN(4) > 0 {
		previous := p.pick()
		next.call.Previous, next.call.Spent = previous.call.ID, previous.spent
		if p.random.IntN(4) == 0 {
			next.call.ID = ""
		} else if p.random.IntN(2) == 0 {
			late = p.spendUnder(previous)
			p.at += logUniform(p.random, 1+ttl)
		}
	}
	if reply := p.call(next); reply.Carried {
		next.spent = late
	}
	p.leases = append(p.leases, next)
}

// repeat repeats the call of a lease whose record is kept.
func (p *leasePlayer) repeat() {
	if len(p.leases) > 0 {
		if l := p.pick(); l.call.ID != "" {
			if _, _, ok := p.key.Leased(l.call.ID, p.at); ok {
				p.call(l)
			}
		}
	}
}

// call executes the call of a lease, and compares its result with the model.
func (p *leasePlayer) call(l *playedLease) model.LeaseReply {
	c := l.call
	p.tracef("lease %+v", c)
	p.key.Begin(p.limit, p.at)
	want := p.key.Lease(p.limit, p.at, c)
	got, err := p.store.ApplyLease(background, headgate.Instant(p.at), headgate.LeaseOp{
		Bound: p.bound, Key: "key", Previous: idOf(c.Previous), Spent: c.Spent, ID: idOf(c.ID), Want: c.Want, Max: c.Max, TTL: micros.Duration(c.TTL),
	})
	p.must(got.Decision, err, p.key.Peek(p.limit, p.at, 1))
	ttl := micros.Duration(max(0, want.Deadline-p.at))
	if got.Units != want.Units || got.Carried != want.Carried || got.TTL != ttl {
		p.failTrace("got %d units, carried %t, ttl %v\nwant %d, %t, %v", got.Units, got.Carried, got.TTL, want.Units, want.Carried, ttl)
	}
	return want
}

// judge compares the spent units with the bound of the algorithm, in every span.
func (p *leasePlayer) judge() {
	if !p.judged {
		return
	}
	bound := model.UpperBoundOf(p.algorithm, p.highest)
	for i := range p.spends {
		sum, from := int64(0), p.spends[i].at
		for _, s := range p.spends[i:] {
			if sum += s.units; s.at-from > math.MaxInt64/2/p.highest.Rate {
				break
			}
			if most := bound(from, s.at); sum > most {
				p.failTrace("%d units were spent from %d to %d; the bound is %d", sum, from, s.at, most)
			}
		}
	}
}

// checkLeaseErrors tests the errors of leases, and what a lease does at the maximum
// number of open holds.
func checkLeaseErrors(ts *tester, a headgate.Algorithm) {
	if !ts.hasLeases(a) {
		return
	}
	s := ts.store.(headgate.LeaseStore)
	bound, err := s.Bind(headgate.Rule{Scope: ts.name(), Algorithm: a, Limit: headgate.MustParseLimit("10/1h"), Holds: headgate.HoldSettings{MaxOpen: 1}})
	ts.mustf(err, "bind")
	lease := func(op headgate.LeaseOp, units, remaining int64) {
		op.Bound, op.Key, op.TTL = bound, "key", time.Minute
		got, err := s.ApplyLease(background, start, op)
		if ts.mustf(err, "%s: lease %+v", a, op); got.Units != units || got.Remaining != remaining {
			ts.failf("%s: lease %+v: got %d units, %s; want %d, and %d remaining", a, op, got.Units, formatDecision(got.Decision), units, remaining)
		}
	}
	lease(headgate.LeaseOp{ID: idOf("first"), Want: 4, Max: 5}, 4, 6)
	lease(headgate.LeaseOp{ID: idOf("second"), Want: 1, Max: 5}, 0, 6)
	for _, spent := range []int64{-1, 5} {
		op := headgate.LeaseOp{Bound: bound, Key: "key", Previous: idOf("first"), Spent: spent, ID: idOf("third"), TTL: time.Minute}
		if _, err := s.ApplyLease(background, start, op); !errors.Is(err, headgate.ErrInvalidHold) {
			ts.failf("%s: %d of 4 units were spent: got error %v want ErrInvalidHold", a, spent, err)
		}
	}
	lease(headgate.LeaseOp{Previous: idOf("first"), Spent: 1, ID: idOf("fourth"), Want: 9, Max: 5}, 5, 4)
	lease(headgate.LeaseOp{Previous: idOf("fourth")}, 0, 9)
}
