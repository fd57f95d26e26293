package conformance_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/conformance"
	"github.com/headgate/headgate/storetest/model"
)

// holds returns the file of timelines with holds.
func holds(t *testing.T) conformance.File {
	f := conformance.File{
		Name:  "generated/holds.json",
		About: "Random holds and other operations on one key, answered by a model that computes the state again from all charges.", Seed: 2026_0300,
	}
	g := newGenerator(f.Seed)
	algorithms := slices.DeleteFunc(shipped(), func(a algo.Algorithm) bool { return !a.Name.CanHold() })
	for n := range 8 * len(algorithms) {
		v := g.holds(algorithms[n%len(algorithms)], n, ratesVerbs)
		if v.Limit.PeriodUS == 0 {
			v.Limit.EdgesUS = calendarEdges(t, limitOf(t, *v.Limit), v.Timeline[0].TimeUS, v.Timeline[len(v.Timeline)-1].TimeUS)
		}
		f.Vectors = append(f.Vectors, v)
	}
	return f
}

// concurrency returns the file of timelines with slots.
func concurrency(t *testing.T) conformance.File {
	t.Helper()
	f := conformance.File{
		Name:  "generated/concurrency.json",
		About: "Random holds of slots on one key, answered by a model that looks at every deadline.", Seed: 2026_0400,
	}
	a, err := algo.Named(headgate.Concurrency)
	if err != nil {
		t.Fatal(err)
	}
	g := newGenerator(f.Seed)
	for n := range 24 {
		f.Vectors = append(f.Vectors, g.holds(a, n, slotsVerbs))
	}
	return f
}

// The verbs of the steps, with their frequencies. Only a hold takes slots.
var (
	ratesVerbs = []string{"hold", "hold", "hold", "commit", "commit", "commit", "extend", "cancel", "debit", "up_to", "take", "take", "refund"}
	slotsVerbs = []string{"hold", "hold", "hold", "hold", "commit", "commit", "extend", "extend", "cancel", "peek", "peek"}
)

// modelledHolds is a key of the model, with the ids of all its holds.
type modelledHolds struct {
	*model.Holds
	limit     headgate.Limit
	amounts   map[string]int64
	deadlines map[string]int64
	last      headgate.Decision
}

// holds returns a timeline of one key. Its limit has at most a million units, so that the
// state represents every debit.
func (g generator) holds(a algo.Algorithm, n int, verbs []string) conformance.Vector {
	l := g.limit(a, n)
	for l.Capacity() > 1e6 || l.Rate > 1e6 {
		l = g.limit(a, n)
	}
	v := conformance.Vector{
		Name: fmt.Sprintf("random_%02d", n+1), Algorithm: string(a.Name), Limit: numbers(l),
		OnExpiry: []string{"keep", "release"}[g.IntN(2)], ExcessPolicy: []string{"owe", "clip"}[g.IntN(2)],
	}
	if a.Name.OnlyHolds() {
		v.OnExpiry = "release"
	}
	k := &modelledHolds{Holds: model.NewHolds(a.Name), limit: l, amounts: map[string]int64{}, deadlines: map[string]int64{}}
	k.Release, k.Clip = v.OnExpiry == "release", v.ExcessPolicy == "clip"
	k.last = k.Key.Peek(l, 0, 0)
	now := int64(1_767_225_600_000_000) + g.Int64N(1e12)
	floor := now // a limiter may have deleted a key that was unused, with the last time
	for range 24 {
		now = max(floor, g.next(now, l, k.last, false))
		s := conformance.Step{TimeUS: now, Key: "a"}
		g.operation(&s, k, verbs)
		v.Timeline, v.Answers = append(v.Timeline, s), append(v.Answers, k.play(s))
		if k.Key.Peek(l, now, 0).ResetAfter == 0 {
			floor = now
		}
	}
	return v
}

// operation sets the verb and the arguments of a step.
func (g generator) operation(s *conformance.Step, k *modelledHolds, verbs []string) {
	s.Verb = verbs[g.IntN(len(verbs))]
	used := len(k.amounts)
	switch s.ID = fmt.Sprintf("h%d", g.IntN(used+1)); {
	case s.Verb == "hold" && g.IntN(6) > 0:
		s.ID = fmt.Sprintf("h%d", used) // a new id
	case s.Verb != "hold" && k.Open() > 0 && g.IntN(4) > 0:
		for !k.IsOpen(s.ID) {
			s.ID = fmt.Sprintf("h%d", g.IntN(used))
		}
	}
	switch s.Verb {
	case "hold":
		s.Cost, s.TTLUS = g.scaled(1, k.limit.Capacity()), g.ttl(k.limit)
		if amount, ok := k.amounts[s.ID]; ok && g.IntN(2) == 0 {
			s.Cost = amount
		}
	case "commit":
		s.Actual = g.Int64N(2*k.amounts[s.ID] + 1)
	case "extend":
		s.TTLUS = g.ttl(k.limit)
	case "cancel":
	default:
		s.ID, s.Cost = "", min(g.cost(k.last), 1e6)
	}
}

func (g generator) ttl(l headgate.Limit) int64 {
	least, most := headgate.MinHoldTTL.Microseconds(), headgate.MaxHoldTTL.Microseconds()
	if l.Period > 0 {
		most = min(most, max(10*l.Period.Microseconds(), 10*least))
	}
	return g.scaled(least, most)
}

// play executes a step on the model.
func (k *modelledHolds) play(s conformance.Step) (a conformance.Answer) {
	k.Begin(k.limit, s.TimeUS)
	if s.ID != "" {
		if a.Error, a.Replayed = k.errorOf(s); a.Error != "" {
			return a
		}
	}
	switch l, t := k.limit, s.TimeUS; {
	case a.Replayed:
		k.last = k.Key.Peek(l, t, 0)
	case s.Verb == "hold":
		if k.last = k.Hold(l, t, s.ID, s.Cost, t+s.TTLUS); k.last.Allowed {
			k.amounts[s.ID], k.deadlines[s.ID] = s.Cost, t+s.TTLUS
		}
	case s.Verb == "extend":
		k.Extend(s.ID, t+s.TTLUS)
		k.deadlines[s.ID] = t + s.TTLUS
		k.last = k.Key.Peek(l, t, 0)
	case s.Verb == "commit", s.Verb == "cancel":
		k.last = k.Commit(l, t, s.ID, s.Actual)
	case s.Verb == "debit":
		k.last = k.Debit(l, t, s.Cost)
	case s.Verb == "up_to":
		a.Granted, k.last = k.TakeUpTo(l, t, s.Cost)
		k.last = k.Key.Peek(l, t, 0)
	case s.Verb == "peek":
		k.last = k.Key.Peek(l, t, s.Cost)
	case s.Verb == "take":
		k.last = k.Take(l, t, s.Cost)
	case s.Verb == "refund":
		k.last = k.Refund(l, t, s.Cost)
	}
	granted, replayed := a.Granted, a.Replayed
	a = answer(k.last)
	a.Granted, a.Replayed = granted, replayed
	return a
}

// errorOf returns the error of an operation on a hold, and whether the operation had been
// executed before. The id of a hold can be used again after its deadline.
func (k *modelledHolds) errorOf(s conformance.Step) (reason string, replayed bool) {
	amount, known := k.amounts[s.ID]
	remembered := known && s.TimeUS < k.deadlines[s.ID]
	switch {
	case s.Verb == "hold" && remembered && amount != s.Cost:
		return "conflict", false
	case s.Verb == "hold":
		return "", remembered
	case !known:
		return "unknown_hold", false
	case !remembered:
		return "expired_hold", false
	case k.IsOpen(s.ID):
		return "", false
	case s.Verb == "extend": // it was committed
		return "unknown_hold", false
	default:
		return "", true
	}
}

// holdPlayer returns a function that executes the steps of a vector with holds on a
// limiter over store.
func holdPlayer(t *testing.T, store headgate.Store, v *conformance.Vector) func(conformance.Step) (conformance.Answer, error) {
	t.Helper()
	p := headgate.Policy{Name: "the policy", Algorithm: headgate.Algorithm(v.Algorithm), Limits: []headgate.Limit{limitOf(t, *v.Limit)}}
	var errs [2]error
	p.Holds.OnExpiry, errs[0] = headgate.ParseOnExpiry(v.OnExpiry)
	p.Holds.ExcessPolicy, errs[1] = headgate.ParseExcessPolicy(v.ExcessPolicy)
	l, err := headgate.New(store, p, nil)
	if err := errors.Join(errs[0], errs[1], err); err != nil {
		t.Fatal(err)
	}
	opened := map[string]*headgate.Hold{}
	return func(s conformance.Step) (conformance.Answer, error) {
		now := headgate.Instant(s.TimeUS).Time()
		var r headgate.HoldResult
		var err error
		switch s.Verb {
		case "hold":
			r, err = hold(t, l, s, opened)
		case "commit":
			r, err = holdOf(l, opened, s).CommitAt(t.Context(), now, s.Actual)
		case "cancel":
			r, err = holdOf(l, opened, s).CancelAt(t.Context(), now)
		case "extend":
			r, err = holdOf(l, opened, s).ExtendAt(t.Context(), now, time.Duration(s.TTLUS)*time.Microsecond)
		case "debit":
			r.Decision, err = l.DebitAt(t.Context(), now, s.Key, s.Cost)
		case "up_to":
			r.Granted, r.Decision, err = l.TakeUpToAt(t.Context(), now, s.Key, s.Cost)
		default:
			return decide(t, l, s)
		}
		if reason := reasonOf(err); reason != "" {
			return conformance.Answer{Error: reason}, nil
		}
		a := answer(r.Decision)
		a.Granted, a.Replayed = r.Granted, r.Replayed
		return a, err
	}
}

func hold(t *testing.T, l *headgate.Limiter, s conformance.Step, opened map[string]*headgate.Hold) (headgate.HoldResult, error) {
	h, err := headgate.HoldAllAt(t.Context(), headgate.Instant(s.TimeUS).Time(),
		&headgate.HoldOptions{ID: s.ID, TTL: time.Duration(s.TTLUS) * time.Microsecond}, headgate.Check{Limiter: l, Key: s.Key, Cost: s.Cost})
	if err != nil {
		return headgate.HoldResult{}, err
	}
	if h.OK() && !h.Replayed() {
		opened[s.ID] = h
	}
	return headgate.HoldResult{Decision: h.Decision(), Replayed: h.Replayed()}, nil
}

// holdOf returns the hold of a step, or one that was never opened.
func holdOf(l *headgate.Limiter, opened map[string]*headgate.Hold, s conformance.Step) *headgate.Hold {
	if h := opened[s.ID]; h != nil {
		return h
	}
	check := headgate.Check{Limiter: l, Key: s.Key}
	return headgate.ResumeHold(headgate.NewHoldID(), headgate.Instant(s.TimeUS).Time().Add(time.Hour), check)
}

// reasonOf returns the name of an error about holds; it is empty for other errors.
func reasonOf(err error) string {
	switch {
	case errors.Is(err, headgate.ErrUnknownHold):
		return "unknown_hold"
	case errors.Is(err, headgate.ErrExpiredHold):
		return "expired_hold"
	case errors.Is(err, headgate.ErrHoldConflict):
		return "conflict"
	default:
		return ""
	}
}
