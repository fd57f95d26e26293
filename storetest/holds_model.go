package storetest

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// checkHolds plays random traces of all operations, and compares every decision, and the
// state of every key after each step, with the model.
func checkHolds(ts *tester, a headgate.Algorithm) {
	if !ts.hasHolds(a) {
		return
	}
	ts.holdTraces(a, ts.options.Decisions/4/len(ts.options.algorithms()))
}

// holdTraces plays random traces with the given number of steps, or with the algorithm's
// share of Options.HoldSteps.
func (ts *tester) holdTraces(a headgate.Algorithm, steps int) {
	if all := ts.options.HoldSteps; all > 0 {
		steps = all / ts.options.holdAlgorithms()
	}
	var played, traces atomic.Int64
	ts.parallel(ts.options.Parallelism, func(ts *tester) {
		for compared := 0; compared <= steps/ts.options.Parallelism; traces.Add(1) {
			n := ts.holdTrace(a)
			compared += n
			played.Add(int64(n))
		}
	})
	ts.summary = fmt.Sprintf("%d traces, %d operations, each with the state of both keys after it; 0 differ", traces.Load(), played.Load())
}

// holdPlayer plays a trace of operations with holds, on the store and on the model.
type holdPlayer struct {
	keyPlayer
	algorithm headgate.Algorithm
	changing  bool // whether the limit changes
	single    bool // whether only the first key is used
	settings  headgate.HoldSettings
	limiter   *headgate.Limiter
	keys      [2]*model.Holds
	holds     []*playedHold
}

// playedHold is a hold that was opened in the trace.
type playedHold struct {
	id       string
	hold     *headgate.Hold
	costs    []int64 // cost for each key, or -1 after its reset; a hold with one cost is on the first key
	amounts  []int64 // the costs when it was opened
	deadline int64
	ended    bool // whether it was committed
	expired  bool
}

// holdTrace plays one random trace and returns its number of steps.
func (ts *tester) holdTrace(a headgate.Algorithm) int {
	p := &holdPlayer{keyPlayer: ts.newKeyPlayer(ts.holdLimit(a)), algorithm: a, changing: ts.random.IntN(3) == 0}
	if p.changing {
		p.limit = p.changedLimit(a)
		for !validForHolds(a, p.limit) {
			p.limit = p.changedLimit(a)
		}
	}
	p.settings = headgate.HoldSettings{
		OnExpiry: headgate.OnExpiry(ts.random.IntN(3)), ExcessPolicy: headgate.ExcessPolicy(ts.random.IntN(2)),
	}
	if a.OnlyHolds() {
		p.settings.OnExpiry = headgate.DefaultExpiry
	}
	p.single = p.changing && p.settings.OnExpiry == headgate.ReleaseExpired
	p.limiter = ts.limiterFor(headgate.Policy{Name: ts.name(), Algorithm: a, Limits: []headgate.Limit{p.limit}, Holds: p.settings})
	for i := range p.keys {
		p.keys[i] = model.NewHolds(a)
		p.keys[i].Release = p.settings.OnExpiry == headgate.ReleaseExpired || a.OnlyHolds()
		p.keys[i].Clip = p.settings.ExcessPolicy == headgate.ClipExcess
	}
	steps := 5 + ts.random.IntN(40)
	for range steps {
		p.step()
	}
	return steps
}

// holdLimit returns a limit under which a state can represent the debits of a trace.
func (ts *tester) holdLimit(a headgate.Algorithm) headgate.Limit {
	for {
		l := randomLimit(ts.random, a)
		if validForHolds(a, l) {
			return l
		}
	}
}

var keyNames = [2]string{"first", "second"}

func (p *holdPlayer) step() {
	if p.changing && p.random.IntN(8) == 0 {
		p.changeLimit()
	}
	p.advance(p.untilDeadline)
	for i := range p.keys {
		for _, id := range p.keys[i].Begin(p.limit, p.at) {
			p.byID(id).expired = true
		}
	}
	key := p.random.IntN(8) / 7
	if p.single {
		key = 0
	}
	switch p.random.IntN(12) {
	case 0, 1:
		p.open(key)
	case 2:
		p.openOrRepeat(key)
	case 3, 4, 5:
		p.commit()
	case 6:
		p.extend()
	default:
		p.plain(key)
	}
	for i, k := range p.keys {
		got := p.peek(p.limiter, headgate.Instant(p.at), keyNames[i], 1)
		p.must(got, nil, k.Key.Peek(p.limit, p.at, 1))
		if i == 0 {
			p.last = got
		}
	}
}

func (p *holdPlayer) now() time.Time { return headgate.Instant(p.at).Time() }

func (p *holdPlayer) cost() int64 {
	most := p.limit.Capacity()
	switch p.random.IntN(4) {
	case 0:
		return min(p.last.Remaining, most)
	case 1:
		return p.random.Int64N(most + 2)
	default:
		return logUniform(p.random, most)
	}
}

// untilDeadline returns the time until the deadline of a random hold, or 1 µs less.
func (p *holdPlayer) untilDeadline() int64 {
	if len(p.holds) == 0 {
		return 0
	}
	return max(0, p.pick().deadline-p.at-p.random.Int64N(2))
}

func (p *holdPlayer) pick() *playedHold { return p.holds[p.random.IntN(len(p.holds))] }

func (p *holdPlayer) byID(id string) *playedHold {
	for _, h := range p.holds {
		if h.id == id {
			return h
		}
	}
	panic("storetest: the model has a hold that was not opened")
}

// must compares a decision of the store with that of the model.
func (p *holdPlayer) must(got headgate.Decision, err error, want headgate.Decision) {
	got.DeniedBy = nil
	if err != nil || !equalDecisions(got, want) {
		p.failf("%v %+v:%s\ngot %s, error %v\nwant %s", p.limit, p.settings, p.trace, formatDecision(got), err, formatDecision(want))
	}
}

// plain executes an operation that is not one of a hold.
func (p *holdPlayer) plain(key int) {
	n, k := p.cost(), p.keys[key]
	name := keyNames[key]
	switch verb := p.random.IntN(16); {
	case verb > 0 && p.limit.Concurrent:
		p.peekAll()
	case verb == 0:
		p.tracef("reset %s", name)
		want := k.Reset(p.limit, p.at)
		for _, h := range p.holds {
			h.forget(key)
		}
		got, err := p.limiter.ResetAt(background, p.now(), name)
		p.must(got, err, want)
	case verb < 3:
		p.tracef("refund %s %d", name, n)
		want := k.Refund(p.limit, p.at, n)
		got, err := p.limiter.RefundAt(background, p.now(), name, n)
		p.must(got, err, want)
	case verb < 5:
		p.tracef("take up to %s %d", name, n)
		granted, want := k.TakeUpTo(p.limit, p.at, n)
		gotGranted, got, err := p.limiter.TakeUpToAt(background, p.now(), name, n)
		p.must(got, err, want)
		if gotGranted != granted {
			p.failf("%v:%s\ngot %d granted want %d", p.limit, p.trace, gotGranted, granted)
		}
	case verb < 7:
		p.tracef("debit %s %d", name, n)
		want := k.Debit(p.limit, p.at, n)
		got, err := p.limiter.DebitAt(background, p.now(), name, n)
		p.must(got, err, want)
	default:
		p.tracef("take %s %d", name, n)
		want := k.Take(p.limit, p.at, n)
		got, err := p.limiter.AllowAt(background, p.now(), name, n)
		p.must(got, err, want)
	}
}

// peekAll compares the decision on a hold on both keys.
func (p *holdPlayer) peekAll() {
	costs := []int64{p.cost(), p.cost()}
	p.tracef("peek %v", costs)
	want := model.PeekAll(p.at, []model.Debit{
		{Key: p.keys[0].Key, Limit: p.limit, Cost: costs[0]}, {Key: p.keys[1].Key, Limit: p.limit, Cost: costs[1]},
	})
	want.DeniedBy = nil
	got, err := headgate.PeekAllAt(background, p.now(), p.checks(costs)...)
	p.must(got, err, want)
}

// forget removes the hold from a key that was reset.
func (h *playedHold) forget(key int) {
	if key < len(h.costs) {
		h.costs[key] = -1
	}
}

// open opens a hold on the first key, or on both keys.
func (p *holdPlayer) open(keys int) {
	h := &playedHold{id: fmt.Sprint("hold ", len(p.holds)), costs: []int64{p.cost()}}
	if keys > 0 {
		h.costs = append(h.costs, p.cost())
	}
	ttl := time.Duration(1000+logUniform(p.random, 4*periodOf(p.limit))) * time.Microsecond
	ttl = min(ttl, headgate.MaxHoldTTL)
	p.tracef("hold %s %v ttl %v", h.id, h.costs, ttl)
	allowed := true
	for i, n := range h.costs {
		allowed = allowed && p.keys[i].Key.Peek(p.limit, p.at, n).Allowed
	}
	got, err := headgate.HoldAllAt(background, p.now(), &headgate.HoldOptions{ID: h.id, TTL: ttl}, p.checks(h.costs)...)
	if err != nil || got.OK() != allowed || got.Replayed() {
		p.failf("%v:%s\ngot hold %+v, error %v\nwant allowed %t", p.limit, p.trace, got, err, allowed)
	}
	if !allowed {
		return
	}
	h.hold, h.deadline, h.amounts = got, p.at+ttl.Microseconds(), slices.Clone(h.costs)
	for i, n := range h.costs {
		p.keys[i].Hold(p.limit, p.at, h.id, n, h.deadline)
	}
	p.holds = append(p.holds, h)
}

// openOrRepeat repeats the request of an earlier hold whose record is kept. If there is
// none, it opens a hold.
func (p *holdPlayer) openOrRepeat(keys int) {
	var known []*playedHold
	for _, h := range p.holds {
		if p.isKnown(h) {
			known = append(known, h)
		}
	}
	if len(known) == 0 {
		p.open(keys)
		return
	}
	h := known[p.random.IntN(len(known))]
	p.tracef("repeat %s", h.id)
	got, err := headgate.HoldAllAt(background, p.now(), &headgate.HoldOptions{ID: h.id, TTL: time.Second}, p.checks(h.costs)...)
	if err != nil || !got.OK() || !got.Replayed() || got.ExpiresAt() != headgate.Instant(h.deadline).Time() {
		p.failf("%v %+v:%s\ngot hold %+v, error %v\nwant replayed, with the deadline %d", p.limit, p.settings, p.trace, got, err, h.deadline)
	}
}

// isKnown reports whether the hold is open on all of its keys, or has ended before its
// deadline.
func (p *holdPlayer) isKnown(h *playedHold) bool {
	for i, n := range h.costs {
		if n < 0 || !h.ended && !p.keys[i].IsOpen(h.id) {
			return false
		}
	}
	return p.at < h.deadline
}

func (p *holdPlayer) checks(costs []int64) []headgate.Check {
	checks := make([]headgate.Check, len(costs))
	for i, n := range costs {
		checks[i] = headgate.Check{Limiter: p.limiter, Key: keyNames[i], Cost: n}
	}
	return checks
}

// commit ends a random hold, or tries to end one that has already ended.
func (p *holdPlayer) commit() {
	if len(p.holds) == 0 {
		p.open(0)
		return
	}
	h := p.pick()
	actual := make([]int64, len(h.costs))
	for i := range actual {
		actual[i] = []int64{0, max(0, h.costs[i]), p.cost(), h.costs[i] / 2}[p.random.IntN(4)]
	}
	p.tracef("commit %s %v", h.id, actual)
	_, err := h.hold.CommitAt(background, p.now(), actual...)
	if p.mustFind(h, err, h.ended, p.hasUncounted(h, actual)); h.ended {
		return
	}
	for i := range h.costs {
		if p.keys[i].IsOpen(h.id) {
			p.keys[i].Commit(p.limit, p.at, h.id, actual[i])
			h.ended = true
		}
	}
}

func (p *holdPlayer) extend() {
	if len(p.holds) == 0 {
		p.open(0)
		return
	}
	h := p.pick()
	ttl := time.Duration(1000+logUniform(p.random, periodOf(p.limit))) * time.Microsecond
	ttl = min(ttl, headgate.MaxHoldTTL)
	p.tracef("extend %s %v", h.id, ttl)
	_, err := h.hold.ExtendAt(background, p.now(), ttl)
	p.mustFind(h, err, false, false)
	for i := range h.costs {
		if p.keys[i].IsOpen(h.id) {
			h.deadline = p.at + ttl.Microseconds()
			p.keys[i].Extend(h.id, h.deadline)
		}
	}
}

// hasUncounted reports whether a key that does not know the hold has not counted the
// units above its amount.
func (p *holdPlayer) hasUncounted(h *playedHold, actual []int64) bool {
	for i, n := range actual {
		if n > h.amounts[i] && !p.keys[i].IsOpen(h.id) {
			return true
		}
	}
	return false
}

// mustFind fails if err is not that of an operation on the hold h. repeated is true if
// the operation repeats the commit of a hold that has ended. An operation that finds the
// hold on some keys only is an error if these are slots, which another hold may have, or
// if units are uncounted; see hasUncounted.
func (p *holdPlayer) mustFind(h *playedHold, err error, repeated, uncounted bool) {
	open := 0
	for i := range h.costs {
		if p.keys[i].IsOpen(h.id) {
			open++
		}
	}
	found := repeated || open == len(h.costs) || open > 0 && !p.limit.Concurrent && !uncounted
	switch {
	case h.ended && p.at >= h.deadline: // the record may be removed
	case repeated && (p.limit.Concurrent || uncounted) && slices.Contains(h.costs, -1): // its key was reset
	case found && err == nil:
	case !found && (errors.Is(err, headgate.ErrUnknownHold) || errors.Is(err, headgate.ErrExpiredHold)):
	default:
		p.failf("%v %+v:%s\ngot error %v; the hold is open: %t", p.limit, p.settings, p.trace, err, found)
	}
}
