package algo_test

import (
	"fmt"
	"slices"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// verb is the kind of a step.
type verb int

const (
	take verb = iota
	peek
	refund
	reserve
	cancel
	undo
	verbs
)

func (v verb) String() string {
	return [...]string{"take", "peek", "refund", "reserve", "cancel", "undo"}[v]
}

// step is a request that both implementations execute.
type step struct {
	verb     verb
	t, n     int64
	maxDelay int64      // reserve
	mark     algo.State // cancel; undo: the state after the take
	was      algo.State // undo: the state before the take
	t0       int64      // undo: the time of the take; of a log, the time of its entry
	room     bool       // take from a log
}

func (s step) String() string {
	text := fmt.Sprintf("t=%d %s %d", s.t, s.verb, s.n)
	switch s.verb {
	case reserve:
		text += fmt.Sprintf(" within %d", s.maxDelay)
	case cancel:
		text += fmt.Sprintf(" mark %v", s.mark)
	case undo:
		text += fmt.Sprintf(" from %v to %v at %d", s.was, s.mark, s.t0)
	}
	return text
}

// result contains all results of a step.
type result struct {
	ok       bool
	booked   int64 // the delay of a reservation
	resetAt  int64
	decision headgate.Decision
	state    [3]int64   // of a log: the number of entries and 0, 0
	log      [][2]int64 // nil if the state is not a log
}

func (r *result) String() string {
	d := r.decision
	text := fmt.Sprintf("ok=%t booked=%d resetAt=%d allowed=%t never=%t limit=%d remaining=%d retry=%d reset=%d delay=%d state=%v", r.ok,
		r.booked, r.resetAt, d.Allowed, d.Never, d.Limit, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds(),
		d.Delay.Microseconds(), r.state)
	if r.log != nil {
		text += fmt.Sprintf(" log=%v", r.log)
	}
	return text
}

// goStepper runs the Go implementation on the state of one key.
type goStepper struct {
	step  algo.Stepper
	log   algo.LogStepper
	state algo.State
	list  algo.Log
}

// bind changes the limit of the key and keeps its state.
func (g *goStepper) bind(a algo.Algorithm, l headgate.Limit) {
	var err error
	if a.New != nil {
		g.step, err = a.New(l)
	} else {
		g.log, err = a.NewLog(l)
	}
	if err != nil {
		panic(err)
	}
}

// forget makes the key unused.
func (g *goStepper) forget() { g.state, g.list = algo.State{}, algo.Log{} }

// do executes a step and overwrites r.
func (g *goStepper) do(s *step, r *result) {
	*r = result{log: r.log[:0]}
	if g.log != nil {
		g.doLog(s, r)
		return
	}
	now := g.state
	asked, spent := s.n, int64(0)
	switch r.ok = true; s.verb {
	case take:
		if now, r.ok = g.step.Take(g.state, s.t, s.n); r.ok {
			spent = s.n
		}
	case peek:
		_, r.ok = g.step.Take(g.state, s.t, s.n)
		now, _ = g.step.Take(g.state, s.t, 0)
	case refund:
		now, asked = g.step.Refund(g.state, s.t, s.n), 0
	case reserve:
		now, r.booked, r.ok = g.step.(algo.Reserver).Reserve(g.state, s.t, s.n, s.maxDelay)
	case cancel:
		now, asked = g.step.(algo.Reserver).Cancel(g.state, s.mark, s.t, s.n), 0
	case undo:
		now, asked = g.step.Undo(g.state, s.was, s.mark, s.t0, s.t, s.n), 0
	}
	r.decision = g.step.Answer(now, s.t, asked, spent, r.ok)
	r.resetAt = g.step.ResetAt(now)
	r.state = [3]int64{now.A, now.B, now.C}
	if s.verb != peek {
		g.state = now
	}
}

func (g *goStepper) terms() []int64 {
	if g.log != nil {
		return g.log.Params()
	}
	return g.step.Params()
}

func (g *goStepper) doLog(s *step, r *result) {
	asked := s.n
	switch r.ok = true; s.verb {
	case take:
		r.ok = g.log.Take(&g.list, s.t, s.n, s.room)
	case peek:
		r.ok = g.log.Fits(&g.list, s.t, s.n)
	case refund:
		g.log.Refund(&g.list, s.t, s.n)
		asked = 0
	case undo:
		g.log.Undo(&g.list, s.t0, s.n)
		asked = 0
	}
	r.decision = g.log.Answer(&g.list, s.t, asked, r.ok)
	r.state[0], r.resetAt = int64(g.list.Len()), g.log.ResetAt(&g.list)
	for at, units := range g.list.Units {
		r.log = append(r.log, [2]int64{at, units})
	}
}

// driver is the Lua side of a luaStepper: one function for each verb, all with the same
// results.
const driver = `
local w, s

local function report(ok, booked, t, asked, spent)
  local d = x.answer(w, s, t, asked, spent, ok)
  return ok, booked, x.reset_at(w, s), d.allowed, d.never, d.limit, d.remaining, d.retry_after, d.reset_after, d.delay, s.a, s.b, s.c
end

local function keep(before, a, b, c)
  assert(before.a == a and before.b == b and before.c == c, "a state was changed in place")
end

local drive = {}

function drive.bind(...) w = x.new({...}) end
function drive.forget() s = {a = 0, b = 0, c = 0} end

function drive.take(t, n)
  local before, a, b, c = s, s.a, s.b, s.c
  local ok
  s, ok = x.take(w, s, t, n)
  keep(before, a, b, c)
  return report(ok, 0, t, n, ok and n or 0)
end

function drive.peek(t, n)
  local before = s
  local _, ok = x.take(w, s, t, n)
  s = x.take(w, s, t, 0)
  return (function(...) s = before return ... end)(report(ok, 0, t, n, 0))
end

function drive.refund(t, n)
  local before, a, b, c = s, s.a, s.b, s.c
  s = x.refund(w, s, t, n)
  keep(before, a, b, c)
  return report(true, 0, t, 0, 0)
end

function drive.reserve(t, n, max_delay)
  local before, a, b, c = s, s.a, s.b, s.c
  local booked, ok
  s, booked, ok = x.reserve(w, s, t, n, max_delay)
  keep(before, a, b, c)
  return report(ok, booked, t, n, 0)
end

function drive.cancel(t, n, a, b, c)
  s = x.cancel(w, s, {a = a, b = b, c = c}, t, n)
  return report(true, 0, t, 0, 0)
end

function drive.undo(t, n, t0, was_a, was_b, was_c, a, b, c)
  local before, s_a, s_b, s_c = s, s.a, s.b, s.c
  s = x.undo(w, s, {a = was_a, b = was_b, c = was_c}, {a = a, b = b, c = c}, t0, t, n)
  keep(before, s_a, s_b, s_c)
  return report(true, 0, t, 0, 0)
end

return drive
`

// logDriver is the driver for algorithms whose state is a log.
const logDriver = `
local w, log

local function report(ok, t, asked)
  local d = x.answer(w, log, t, asked, ok)
  return ok, 0, x.reset_at(w, log), d.allowed, d.never, d.limit, d.remaining, d.retry_after, d.reset_after, d.delay, #log, 0, 0
end

local drive = {}

function drive.bind(...) w = x.new({...}) end
function drive.forget() log = {} end
function drive.take(t, n, room) return report(x.take(w, log, t, n, room), t, n) end
function drive.peek(t, n) return report(x.fits(w, log, t, n), t, n) end
function drive.refund(t, n) x.refund(w, log, t, n) return report(true, t, 0) end
function drive.undo(t, n, at) x.undo(w, log, at, n) return report(true, t, 0) end
function drive.entry(i) return log[i].at, log[i].units end

return drive
`

const driverResults = 13

// luaStepper runs the Lua implementation on the state of one key.
type luaStepper struct {
	vm     *lua.LState
	verbs  [verbs]*lua.LFunction
	driven *lua.LTable
	isLog  bool
	values [driverResults]lua.LValue
	dated  algo.CalendarStepper // nil if the parameters do not depend on the time
	terms  []int64
	a      int64 // field A of the state after the last step
}

func driverOf(a algo.Algorithm) string {
	if a.NewLog != nil {
		return logDriver
	}
	return driver
}

// stepperText returns the whole Lua chunk of an algorithm with its driver.
func stepperText(a algo.Algorithm) string {
	return algo.Arithmetic() + algo.LuaLocal("x", a.Lua) + driverOf(a)
}

func newLuaStepper(a algo.Algorithm, load func(*lua.LState) (*lua.LFunction, error)) (*luaStepper, error) {
	vm := lua.NewState(lua.Options{SkipOpenLibs: true, RegistrySize: 1 << 12})
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenMath} {
		vm.Push(vm.NewFunction(open))
		vm.Call(0, 0)
	}
	chunk, err := load(vm)
	if err != nil {
		return nil, err
	}
	vm.Push(chunk)
	if err := vm.PCall(0, 1, nil); err != nil {
		return nil, err
	}
	l := &luaStepper{vm: vm, driven: vm.Get(-1).(*lua.LTable), isLog: a.NewLog != nil}
	vm.Pop(1)
	for v := range verbs {
		l.verbs[v], _ = l.driven.RawGetString(v.String()).(*lua.LFunction)
	}
	return l, nil
}

// unchangedText returns a function that loads the Lua chunk without mutations.
func unchangedText(a algo.Algorithm) func(*lua.LState) (*lua.LFunction, error) {
	return func(vm *lua.LState) (*lua.LFunction, error) { return vm.LoadString(stepperText(a)) }
}

func (l *luaStepper) bind(a algo.Algorithm, limit headgate.Limit) {
	var g goStepper
	g.bind(a, limit)
	l.terms = g.terms()
	if l.dated, _ = g.step.(algo.CalendarStepper); l.dated == nil {
		l.callBind(l.terms)
	}
}

// callBind calls new with parameters.
func (l *luaStepper) callBind(terms []int64) {
	l.vm.Push(l.driven.RawGetString("bind"))
	for _, n := range terms {
		l.vm.Push(lua.LNumber(n))
	}
	l.vm.Call(len(terms), 0)
}

// bindAround passes the boundaries around all instants that a step can use.
func (l *luaStepper) bindAround(s *step) {
	var boundaries []int64
	for _, t := range []int64{s.t, l.a, s.was.A, s.mark.A} {
		boundaries = append(boundaries, l.dated.BoundariesAt(t)...)
	}
	slices.Sort(boundaries)
	l.callBind(append(slices.Clone(l.terms), slices.Compact(boundaries)...))
}

func (l *luaStepper) forget() {
	l.a = 0
	l.vm.Push(l.driven.RawGetString("forget"))
	l.vm.Call(0, 0)
}

func (l *luaStepper) do(s *step, r *result) error {
	if l.dated != nil {
		l.bindAround(s)
	}
	numbers := []int64{s.t, s.n}
	switch s.verb {
	case reserve:
		numbers = append(numbers, s.maxDelay)
	case cancel:
		numbers = append(numbers, s.mark.A, s.mark.B, s.mark.C)
	case undo:
		numbers = append(numbers, s.t0, s.was.A, s.was.B, s.was.C, s.mark.A, s.mark.B, s.mark.C)
	}
	l.vm.Push(l.verbs[s.verb])
	for _, n := range numbers {
		l.vm.Push(lua.LNumber(n))
	}
	arguments := len(numbers)
	if s.verb == take {
		l.vm.Push(lua.LBool(s.room))
		arguments++
	}
	if err := l.vm.PCall(arguments, driverResults, nil); err != nil {
		return err
	}
	for i := range l.values {
		l.values[i] = l.vm.Get(i - driverResults)
	}
	l.vm.Pop(driverResults)
	return l.read(s, r)
}

// read converts the driver's results to r. A number that is not whole is an error.
func (l *luaStepper) read(s *step, r *result) (err error) {
	whole := func(v lua.LValue) int64 {
		f, ok := v.(lua.LNumber)
		if !ok || lua.LNumber(int64(f)) != f {
			err = fmt.Errorf("lua gave %v (%v) for a whole number", v, v.Type())
		}
		return int64(f)
	}
	v := &l.values
	*r = result{ok: v[0] == lua.LTrue, booked: whole(v[1]), resetAt: whole(v[2]), log: r.log[:0]}
	r.decision = headgate.Decision{
		Allowed: v[3] == lua.LTrue, Never: v[4] == lua.LTrue, Limit: whole(v[5]), Remaining: whole(v[6]),
		RetryAfter: wholeMicros(whole(v[7])), ResetAfter: wholeMicros(whole(v[8])), Delay: wholeMicros(whole(v[9])),
	}
	r.state = [3]int64{whole(v[10]), whole(v[11]), whole(v[12])}
	if s.verb != peek {
		l.a = r.state[0]
	}
	if !l.isLog || err != nil {
		return err
	}
	for i := range r.state[0] {
		l.vm.Push(l.driven.RawGetString("entry"))
		l.vm.Push(lua.LNumber(i + 1))
		l.vm.Call(1, 2)
		r.log = append(r.log, [2]int64{whole(l.vm.Get(-2)), whole(l.vm.Get(-1))})
		l.vm.Pop(2)
	}
	return err
}

func wholeMicros(us int64) time.Duration { return micros.Duration(us) }
