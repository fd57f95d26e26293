package storetest

import (
	"fmt"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/micros"
	"github.com/headgate/headgate/storetest/model"
)

// checkLeases plays random traces of all operations, and compares every result with the
// model.
func checkLeases(ts *tester, a headgate.Algorithm) { ts.leaseTraces(a, false) }

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
	keyPlayer
	store     headgate.LeaseStore
	bound     headgate.Bound
	rule      headgate.Rule
	algorithm headgate.Algorithm
	key       *model.Holds
	most      int64 // maximum number of units on lease
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

// leaseTrace plays one random trace and returns its number of steps.
func (ts *tester) leaseTrace(a headgate.Algorithm, judged bool) int {
	limit := ts.holdLimit(a)
	for judged && limit.Period == 0 { // the bound of the model requires a period
		limit = ts.holdLimit(a)
	}
	p := &leasePlayer{keyPlayer: ts.newKeyPlayer(limit), store: ts.store.(headgate.LeaseStore), algorithm: a, judged: judged}
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
	p.nextInstant()
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
	if reply := p.call(next); reply.PreviousOpen {
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
	if got.Units != want.Units || got.PreviousOpen != want.PreviousOpen || got.TTL != ttl {
		p.failTrace("got %d units, carried %t, ttl %v\nwant %d, %t, %v", got.Units, got.PreviousOpen, got.TTL, want.Units, want.PreviousOpen, ttl)
	}
	return want
}

// nextInstant changes the time to that of the next step, which is earlier if the clock
// goes back.
func (p *leasePlayer) nextInstant() {
	p.advance(p.untilEnd)
	p.latest = max(p.latest, p.at)
	if p.backward && p.random.IntN(4) == 0 && !p.key.HasExpiredUnits(p.limit, p.latest) {
		p.at -= logUniform(p.random, 2*periodOf(p.limit))
		p.at = max(p.at, 0)
	}
}
