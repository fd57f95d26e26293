package algo_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	lua "github.com/yuin/gopher-lua"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/internal/micros"
)

// holdDriver is the Lua side of TestLuaHoldsEqualGo: it executes one step and returns the
// fields of the decision, the units that were granted and the number of open holds.
const holdDriver = `
local w, l

local drive = {}

function drive.bind(...)
  w = x.new({...})
  if l then
    l.w = w
  end
end
function drive.forget() l = ledger.new(ledger.functions(x), w, {a = 0, b = 0, c = 0}) end

function drive.step(verb, t, n, id, deadline, release, clip, lease)
  ledger.expire(l, t, release)
  local asked, allowed, granted, i, lease_end, carried = 0, true, 0, ledger.find(l, id), 0, false
  if verb == 'take' or verb == 'hold' then
    asked = n
    allowed = ledger.take(l, t, n)
    if allowed then
      asked = 0
      if verb == 'hold' then
        ledger.open(l, t, id, n, deadline)
      end
    end
  elseif verb == 'peek' then
    local _
    _, allowed = x.take(w, l.s, t, n)
    asked = n
  elseif verb == 'commit' and i then
    ledger.finish(l, t, i, n, clip)
  elseif verb == 'extend' and i then
    l.list[i].deadline = deadline
  elseif verb == 'lease' then
    granted, lease_end, carried = ledger.leases().apply(l, t, lease)
  elseif verb == 'debit' then
    ledger.charge(l, t, n)
  elseif verb == 'up_to' then
    granted = ledger.take_up_to(l, t, n)
  elseif verb == 'reset' then
    ledger.reset(l, t)
  elseif verb == 'refund' then
    local next = x.refund(w, l.s, t, n)
    if next ~= l.s then
      ledger.set(l, t, next)
    end
  end
  local d = ledger.answer(l, t, asked, allowed)
  return d.allowed, d.never, d.limit, d.remaining, d.retry_after, d.reset_after, granted or -1, #l.list, lease_end or 0, carried == true
end

return drive
`

// luaHolds is a key with holds, in the Lua implementation.
type luaHolds struct {
	vm    *lua.LState
	drive *lua.LTable
	dated algo.CalendarStepper // nil if the parameters do not depend on the time
	terms []int64
}

// begin starts a trace on an unused key with the limit of k.
func (k *luaHolds) begin(of *holdKey) {
	k.change(of)
	k.call("forget", 0)
}

// change binds the limit of k.
func (k *luaHolds) change(of *holdKey) {
	k.terms = of.terms()
	if k.dated, _ = of.step.(algo.CalendarStepper); k.dated == nil {
		k.bind(k.terms)
	}
}

// luaHoldsText returns the Lua text of newLuaHolds.
func luaHoldsText(a algo.Algorithm) string {
	return algo.Arithmetic() + algo.LuaLocal("x", a.Lua) + algo.LuaLocal("ledger", algo.LedgerLua()) + holdDriver
}

func newLuaHolds(t *testing.T, a algo.Algorithm) *luaHolds {
	t.Helper()
	return newLuaHoldsOf(t, luaHoldsText(a))
}

func newLuaHoldsOf(t *testing.T, text string) *luaHolds {
	t.Helper()
	vm := newLuaVM(t, text)
	return &luaHolds{vm: vm, drive: vm.Get(-1).(*lua.LTable)}
}

// newLuaVM executes the text in a new interpreter. The result is on the stack.
func newLuaVM(t *testing.T, text string) *lua.LState {
	t.Helper()
	vm := lua.NewState(lua.Options{SkipOpenLibs: true})
	t.Cleanup(vm.Close)
	for _, open := range []lua.LGFunction{lua.OpenBase, lua.OpenMath, lua.OpenTable} {
		vm.Push(vm.NewFunction(open))
		vm.Call(0, 0)
	}
	if err := vm.DoString(text); err != nil {
		t.Fatal(err)
	}
	return vm
}

func (k *luaHolds) call(name string, results int, args ...lua.LValue) []lua.LValue {
	k.vm.SetTop(0)
	k.vm.Push(k.drive.RawGetString(name))
	for _, arg := range args {
		k.vm.Push(arg)
	}
	k.vm.Call(len(args), results)
	out := make([]lua.LValue, results)
	for i := range out {
		out[i] = k.vm.Get(i + 1)
	}
	return out
}

func (k *luaHolds) bind(terms []int64) {
	args := make([]lua.LValue, len(terms))
	for i, n := range terms {
		args[i] = lua.LNumber(n)
	}
	k.call("bind", 0, args...)
}

// run executes a step. The parameters of a calendar are those at the time of the step.
func (k *luaHolds) run(s *holdStep, release, clip bool) holdAnswer {
	if k.dated != nil {
		k.bind(append(slices.Clone(k.terms), k.dated.BoundariesAt(s.t)...))
	}
	v := k.call("step", 10, lua.LString(s.verb), lua.LNumber(s.t), lua.LNumber(s.n), lua.LString(s.id), lua.LNumber(s.deadline), lua.LBool(release), lua.LBool(clip), k.lease(s))
	number := func(i int) int64 { return int64(v[i].(lua.LNumber)) }
	return holdAnswer{
		decision: headgate.Decision{
			Allowed: v[0] == lua.LTrue, Never: v[1] == lua.LTrue, Limit: number(2), Remaining: number(3),
			RetryAfter: micros.Duration(number(4)), ResetAfter: micros.Duration(number(5)),
		},
		granted: number(6), open: int(number(7)), leaseEnd: number(8), carried: v[9] == lua.LTrue,
	}
}

// lease returns the argument of leases.apply.
func (k *luaHolds) lease(s *holdStep) lua.LValue {
	c := k.vm.NewTable()
	for name, n := range map[string]int64{"spent": s.lease.Spent, "want": s.lease.Want, "max": s.lease.Max, "ttl": s.lease.TTL.Microseconds(), "max_open": maxOpenInTest} {
		c.RawSetString(name, lua.LNumber(n))
	}
	for name, id := range map[string]headgate.HoldID{"id": s.lease.ID, "previous": s.lease.Previous} {
		if id != (headgate.HoldID{}) {
			c.RawSetString(name, lua.LString(strings.TrimRight(string(id[:]), "\x00")))
		}
	}
	return c
}

// TestLuaHoldsEqualGo compares the two implementations of the ledger on random traces.
func TestLuaHoldsEqualGo(t *testing.T) {
	steps := *stepsFlag / 12 // for each of six algorithms
	if raceDetector || testing.Short() {
		steps = 6_000
	}
	forEachOf(t, algo.All(), func(t *testing.T, a algo.Algorithm) {
		if !a.Name.CanHold() || a.NewLog != nil {
			t.Skipf("%s has no ledger in Lua", a.Name)
		}
		d, other := newGenerator(*seedFlag, 901), newLuaHolds(t, a)
		if difference := compareWrittenTraces(a, other); difference != "" {
			t.Fatal(difference)
		}
		for done := 0; done < steps; {
			n, difference := compareHoldTrace(a, d, other)
			if difference != "" {
				t.Fatal(difference)
			}
			done += n
		}
		t.Logf("seed %d: %d steps, 0 differ", *seedFlag, steps)
	})
}

// compareHoldTrace compares one random trace. It returns its number of steps, and a
// description of the first difference or "".
func compareHoldTrace(a algo.Algorithm, d generator, other *luaHolds) (steps int, difference string) {
	l := holdLimit(d, a)
	k := newHoldKey(a, l)
	k.release = a.Name.OnlyHolds() || d.oneIn(2)
	clip := d.oneIn(3)
	other.begin(k)
	trace := holdTrace{generator: d, limit: l, now: d.upTo(4e15), last: headgate.Decision{Limit: l.Capacity(), Remaining: l.Capacity()}}
	const length = 40
	changing := d.oneIn(2)
	trace.leasing = a.Name.CanLease() && d.oneIn(2)
	trace.backward = !a.Name.HasCalendar() && d.oneIn(4) // a window of a calendar can be unknown in Lua
	for i := range length {
		if changing && d.oneIn(8) {
			trace.limit = d.changedHoldLimit(a, trace.limit)
			trace.text += fmt.Sprintf("\nlimit %v", trace.limit)
			k.bind(a, trace.limit)
			other.change(k)
		}
		s := trace.next(i, k.known)
		got, want := other.run(&s, k.release, clip), k.run(&s, clip)
		if !reflect.DeepEqual(got, want) {
			return i, fmt.Sprintf("seed %d: %v release=%t clip=%t%s\n lua %+v\n go  %+v", *seedFlag, l, k.release, clip, trace.text, got, want)
		}
		trace.last = want.decision
	}
	return length, ""
}

// writtenHoldTraces are traces under 1/1s burst 10 that random traces contain rarely. The
// comments are the debts of the key.
var writtenHoldTraces = [][]holdStep{
	{ // the least debt of b is below that of a and of c when a is committed
		{verb: "hold", t: 0, n: 4, id: "a"},   // 4
		{verb: "hold", t: 0, n: 5, id: "b"},   // 9
		{verb: "hold", t: 3e6, n: 4, id: "c"}, // 6, then 10
		{verb: "commit", t: 3e6, id: "a"},     // 6; without a, the least debt of b was 2
		{verb: "commit", t: 3e6, id: "b"},     // 4
	},
	{ // b ends without a correction, and its least debt is below that of a
		{verb: "hold", t: 0, n: 9, id: "a"},     // 9
		{verb: "hold", t: 0, n: 1, id: "b"},     // 10
		{verb: "take", t: 6e6, n: 6},            // 4, then 10
		{verb: "commit", t: 6e6, n: 1, id: "b"}, // 10
		{verb: "commit", t: 6e6, n: 0, id: "a"}, // 6
	},
}

// compareWrittenTraces compares the written traces. It returns a description of the first
// difference or "". The traces are about limits that refill.
func compareWrittenTraces(a algo.Algorithm, other *luaHolds) (difference string) {
	if a.Name.Windowed() || a.Name.OnlyHolds() {
		return ""
	}
	for _, trace := range writtenHoldTraces {
		k := newHoldKey(a, headgate.MustParseLimit("1/1s burst 10"))
		other.begin(k)
		for _, s := range trace {
			s.deadline = 3600e6
			if got, want := other.run(&s, false, false), k.run(&s, false); !reflect.DeepEqual(got, want) {
				return fmt.Sprintf("%+v\n lua %+v\n go  %+v", s, got, want)
			}
		}
	}
	return ""
}
