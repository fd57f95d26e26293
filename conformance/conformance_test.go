package conformance_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/conformance"
	"github.com/headgate/headgate/memstore"
)

// eachVector runs a test for every vector of every file.
func eachVector(t *testing.T, test func(t *testing.T, v *conformance.Vector)) {
	t.Helper()
	files, err := conformance.Load()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range append(files, generatedFiles(t, madeUp())...) {
		for i := range f.Vectors {
			t.Run(strings.TrimSuffix(f.Name, ".json")+"/"+f.Vectors[i].Name, func(t *testing.T) { test(t, &f.Vectors[i]) })
		}
	}
}

func TestVectorsAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	eachVector(t, func(t *testing.T, v *conformance.Vector) {
		if names[t.Name()] {
			t.Error("the name is taken")
		}
		names[t.Name()] = true
		if strings.Contains(t.Name(), "/handworked/") && v.Comment == "" {
			t.Error("it is worked by hand and has no comment")
		}
		limits := v.Limits
		if v.Limit != nil {
			limits = []conformance.NamedLimit{{Name: "the limit", Algorithm: v.Algorithm, Limit: *v.Limit}}
		}
		if len(limits) == 0 || len(v.Timeline) == 0 || (v.Limit == nil) != (v.Algorithm == "") || (v.Limit != nil) == (v.Limits != nil) {
			t.Errorf("it needs a timeline and either limits, or a limit and an algorithm: %+v", v)
		}
		for _, s := range v.Timeline {
			if s.Limit != nil {
				limits = append(limits, conformance.NamedLimit{Name: "the limit of a step", Limit: *s.Limit})
			}
		}
		for _, l := range limits {
			parsed := limitOf(t, l.Limit)
			if parsed.Rate != l.Rate || parsed.Period.Microseconds() != l.PeriodUS || parsed.Capacity() != l.Capacity {
				t.Errorf("%s: the text is %+v, the numbers are %+v", l.Name, parsed, l.Limit)
			}
			if last := len(v.Timeline) - 1; parsed.Period == 0 && !parsed.Concurrent {
				want := calendarEdges(t, parsed, v.Timeline[0].TimeUS, v.Timeline[last].TimeUS)
				if !slices.Equal(l.EdgesUS, want) {
					t.Errorf("%s: edges_us: got %v want %v", parsed, l.EdgesUS, want)
				}
			}
		}
		for i, a := range v.Answers {
			for _, n := range []int64{a.Limit, a.Remaining, a.RetryAfterUS, a.ResetAfterUS, a.DelayUS, v.Timeline[i].TimeUS, v.Timeline[i].Cost} {
				if n < 0 || n >= 1<<53 {
					t.Errorf("step %d: %d is not a whole number from 0 to 2^53 − 1", i+1, n)
				}
			}
			if a.Error == "" && a.Allowed && (a.RetryAfterUS != 0 || a.Never || a.DeniedBy != nil) || a.Error == "" && !a.Allowed && (a.RetryAfterUS == 0) != a.Never {
				t.Errorf("step %d: the answer contradicts itself: %+v", i+1, a)
			}
		}
	})
}

// calendarEdges returns the edges of all windows between two instants.
func calendarEdges(t *testing.T, l headgate.Limit, first, last int64) []int64 {
	t.Helper()
	a, err := algo.Named(headgate.CalendarWindow)
	if err != nil {
		t.Fatal(err)
	}
	step, err := a.New(l)
	if err != nil {
		t.Fatal(err)
	}
	var edges []int64
	for at := min(first, last); ; {
		near := step.(algo.CalendarStepper).BoundariesAt(at)
		i, _ := slices.BinarySearch(near, at+1)
		edges, at = append(edges, near[i-1]), near[i]
		if at > max(first, last) {
			return append(edges, at)
		}
	}
}

func limitOf(t *testing.T, l conformance.Limit) headgate.Limit {
	t.Helper()
	parsed, err := headgate.ParseLimit(l.Text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed
}

// TestVectorsGo runs the Go implementation of each algorithm.
func TestVectorsGo(t *testing.T) {
	eachVector(t, func(t *testing.T, v *conformance.Vector) {
		if v.Limit == nil || v.OnExpiry != "" {
			return // only stores implement multiple limits and holds: see TestVectorsMemstore
		}
		a, err := algo.Named(headgate.Algorithm(v.Algorithm))
		if err != nil {
			t.Fatal(err)
		}
		decide := stepper(t, a, v)
		if a.NewLog != nil {
			decide = logStepper(t, a, v)
		}
		if err := v.Play(decide); err != nil {
			t.Error(err)
		}
	})
}

// limitAt returns the limit of a step.
func limitAt(t *testing.T, v *conformance.Vector, s conformance.Step) headgate.Limit {
	t.Helper()
	if s.Limit != nil {
		return limitOf(t, *s.Limit)
	}
	return limitOf(t, *v.Limit)
}

func stepper(t *testing.T, a algo.Algorithm, v *conformance.Vector) func(conformance.Step) (conformance.Answer, error) {
	states := map[string]algo.State{}
	return func(s conformance.Step) (conformance.Answer, error) {
		step, err := a.New(limitAt(t, v, s))
		if err != nil {
			t.Fatal(err)
		}
		state, now := states[s.Key], s.TimeUS
		switch s.Verb {
		case "take":
			next, ok := step.Take(state, now, s.Cost)
			states[s.Key] = next
			spent := s.Cost
			if !ok {
				spent = 0
			}
			return answer(step.Answer(next, now, s.Cost, spent, ok)), nil
		case "peek":
			_, ok := step.Take(state, now, s.Cost)
			return answer(step.Answer(state, now, s.Cost, 0, ok)), nil
		case "refund":
			states[s.Key] = step.Refund(state, now, s.Cost)
		case "reset":
			delete(states, s.Key)
		default:
			return conformance.Answer{}, fmt.Errorf("unknown verb %q", s.Verb)
		}
		return answer(step.Answer(states[s.Key], now, 0, 0, true)), nil
	}
}

func logStepper(t *testing.T, a algo.Algorithm, v *conformance.Vector) func(conformance.Step) (conformance.Answer, error) {
	logs := map[string]*algo.Log{}
	return func(s conformance.Step) (conformance.Answer, error) {
		step, err := a.NewLog(limitAt(t, v, s))
		if err != nil {
			t.Fatal(err)
		}
		log := logs[s.Key]
		if log == nil || s.Verb == "reset" {
			log = &algo.Log{}
			logs[s.Key] = log
		}
		switch s.Verb {
		case "take":
			ok := step.Take(log, s.TimeUS, s.Cost, true)
			return answer(step.Answer(log, s.TimeUS, s.Cost, ok)), nil
		case "peek":
			return answer(step.Answer(log, s.TimeUS, s.Cost, step.Fits(log, s.TimeUS, s.Cost))), nil
		case "refund":
			step.Refund(log, s.TimeUS, s.Cost)
		}
		return answer(step.Answer(log, s.TimeUS, 0, true)), nil
	}
}

func answer(d headgate.Decision) conformance.Answer {
	return conformance.Answer{
		Allowed: d.Allowed, Limit: d.Limit, Remaining: d.Remaining, RetryAfterUS: d.RetryAfter.Microseconds(),
		ResetAfterUS: d.ResetAfter.Microseconds(), DelayUS: d.Delay.Microseconds(), Never: d.Never,
	}
}

// luaRunner stores the states of keys in a table and executes steps on them.
const luaRunner = `
local states = {}

return function(is_log, key, verb, t, n, ...)
  local w, s, ok, spent = x.new({...}), states[key], true, 0
  if not s or verb == "reset" then s = is_log and {} or {a = 0, b = 0, c = 0} end
  if verb == "take" and is_log then
    ok = x.take(w, s, t, n, true)
  elseif verb == "take" then
    s, ok = x.take(w, s, t, n)
    spent = ok and n or 0
  elseif verb == "peek" and is_log then
    ok = x.fits(w, s, t, n)
  elseif verb == "peek" then
    local _
    _, ok = x.take(w, s, t, n)
  elseif verb == "refund" then
    s, n = x.refund(w, s, t, n) or s, 0
  end
  states[key] = s
  local d
  if is_log then d = x.answer(w, s, t, n, ok) else d = x.answer(w, s, t, n, spent, ok) end
  return d.allowed, d.never, d.limit, d.remaining, d.retry_after, d.reset_after, d.delay
end
`

// TestVectorsLua runs the Lua implementation of each algorithm, like a Redis server.
func TestVectorsLua(t *testing.T) {
	eachVector(t, func(t *testing.T, v *conformance.Vector) {
		if v.Limit == nil || v.OnExpiry != "" {
			return
		}
		a, err := algo.Named(headgate.Algorithm(v.Algorithm))
		if err != nil {
			t.Fatal(err)
		}
		vm := lua.NewState()
		defer vm.Close()
		if err := vm.DoString(algo.Arithmetic() + algo.LuaLocal("x", a.Lua) + luaRunner); err != nil {
			t.Fatal(err)
		}
		run := vm.Get(-1)
		err = v.Play(func(s conformance.Step) (conformance.Answer, error) {
			arguments := []lua.LValue{
				lua.LBool(a.NewLog != nil), lua.LString(s.Key), lua.LString(s.Verb), lua.LNumber(s.TimeUS), lua.LNumber(s.Cost),
			}
			if err := vm.CallByParam(lua.P{Fn: run, NRet: 7, Protect: true}, append(arguments, termsOf(t, a, limitAt(t, v, s), edgesOf(v, s))...)...); err != nil {
				return conformance.Answer{}, err
			}
			defer vm.Pop(7)
			n := func(i int) int64 { return int64(vm.Get(i - 8).(lua.LNumber)) }
			return conformance.Answer{
				Allowed: vm.Get(-7) == lua.LTrue, Never: vm.Get(-6) == lua.LTrue,
				Limit: n(3), Remaining: n(4), RetryAfterUS: n(5), ResetAfterUS: n(6), DelayUS: n(7),
			}, nil
		})
		if err != nil {
			t.Error(err)
		}
	})
}

// edgesOf returns the edges of the limit of a step, which follow the parameters in Lua.
func edgesOf(v *conformance.Vector, s conformance.Step) []int64 {
	if s.Limit != nil {
		return s.Limit.EdgesUS
	}
	return v.Limit.EdgesUS
}

func termsOf(t *testing.T, a algo.Algorithm, l headgate.Limit, edges []int64) (values []lua.LValue) {
	var step interface{ Params() []int64 }
	var err error
	if a.New != nil {
		step, err = a.New(l)
	} else {
		step, err = a.NewLog(l)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range slices.Concat(step.Params(), edges) {
		values = append(values, lua.LNumber(n))
	}
	return values
}

// TestVectorsMemstore runs whole limiters on memstore, including vectors with
// multiple limits.
func TestVectorsMemstore(t *testing.T) {
	eachVector(t, func(t *testing.T, v *conformance.Vector) {
		store := memstore.New(nil)
		defer store.Close()
		limits := v.Limits
		if v.Limit != nil {
			limits = []conformance.NamedLimit{{Algorithm: v.Algorithm, Limit: *v.Limit}}
		}
		limiters := map[string]*headgate.Limiter{}
		for _, l := range limits {
			limiters[l.Name] = newLimiter(t, store, l.Name, l.Algorithm, limitOf(t, l.Limit))
		}
		if v.OnExpiry != "" {
			if err := v.Play(holdPlayer(t, store, v)); err != nil {
				t.Error(err)
			}
			return
		}
		err := v.Play(func(s conformance.Step) (conformance.Answer, error) {
			if s.Checks != nil {
				return decideAll(t, limiters, s)
			}
			return decide(t, newLimiter(t, store, "the policy", v.Algorithm, limitAt(t, v, s)), s)
		})
		if err != nil {
			t.Error(err)
		}
	})
}

func newLimiter(t *testing.T, store headgate.Store, name, algorithm string, limit headgate.Limit) *headgate.Limiter {
	t.Helper()
	l, err := headgate.New(store, headgate.Policy{Name: name, Algorithm: headgate.Algorithm(algorithm), Limits: []headgate.Limit{limit}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func decide(t *testing.T, l *headgate.Limiter, s conformance.Step) (conformance.Answer, error) {
	now := headgate.Instant(s.TimeUS)
	var d headgate.Decision
	var err error
	switch s.Verb {
	case "take":
		d, err = l.AllowAt(t.Context(), now.Time(), s.Key, s.Cost)
	case "peek":
		d, err = l.PeekAt(t.Context(), now.Time(), s.Key, s.Cost)
	case "refund":
		d, err = l.RefundAt(t.Context(), now.Time(), s.Key, s.Cost)
	case "reset":
		d, err = l.ResetAt(t.Context(), now.Time(), s.Key)
	default:
		err = fmt.Errorf("unknown verb %q", s.Verb)
	}
	return answer(d), err
}

func decideAll(t *testing.T, limiters map[string]*headgate.Limiter, s conformance.Step) (conformance.Answer, error) {
	checks := make([]headgate.Check, len(s.Checks))
	for i, c := range s.Checks {
		checks[i] = headgate.Check{Limiter: limiters[c.Limit], Key: c.Key, Cost: c.Cost}
	}
	all := headgate.AllowAllAt
	if s.Verb == "peek" {
		all = headgate.PeekAllAt
	}
	d, err := all(t.Context(), headgate.Instant(s.TimeUS).Time(), checks...)
	a := answer(d)
	a.DeniedBy = d.DeniedBy
	return a, err
}

func TestPlayReportsFirstWrongAnswer(t *testing.T) {
	v := conformance.Vector{
		Name:     "two steps",
		Timeline: []conformance.Step{{TimeUS: 1, Key: "a", Verb: "take", Cost: 1}, {TimeUS: 2, Key: "a", Verb: "take", Cost: math.MaxInt32}},
		Answers:  []conformance.Answer{{Allowed: true}, {Never: true}},
	}
	if err := v.Play(func(s conformance.Step) (conformance.Answer, error) {
		return conformance.Answer{Allowed: s.Cost == 1, Never: s.Cost > 1}, nil
	}); err != nil {
		t.Errorf("right answers: got error %v", err)
	}
	err := v.Play(func(conformance.Step) (conformance.Answer, error) { return conformance.Answer{Allowed: true}, nil })
	if err == nil || !strings.Contains(err.Error(), "two steps: step 2 (take 2147483647 of \"a\" at 2 µs)") {
		t.Errorf("a wrong second answer: got error %v want one that names the step", err)
	}
	err = v.Play(func(conformance.Step) (conformance.Answer, error) { return conformance.Answer{}, headgate.ErrClosed })
	if err == nil || !strings.Contains(err.Error(), headgate.ErrClosed.Error()) {
		t.Errorf("a limiter that fails: got error %v want its own", err)
	}
}
