package algo_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	lua "github.com/yuin/gopher-lua"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// TestHoldsExpireTogether ends as many holds at one instant as a key may have. The time
// must not grow with the square of their number: the test would take minutes.
func TestHoldsExpireTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests expire many holds")
	}
	const holds, step = headgate.MaxOpenHolds, 10 // instants, in µs
	for _, a := range algo.All() {
		if !a.Name.CanHold() {
			continue
		}
		l := unrefilledLimit(a, 2*holds)
		k := newHoldKey(a, l)
		account, start := k.account(), int64(1e15)
		for i := range int64(holds) {
			now := start + i*step
			if !k.take(account, now, 1) {
				t.Fatalf("%s: hold %d is denied", a.Name, i)
			}
			deadline := start + 1e9 + i%2*1e9
			k.ledger.Open(account, now, numbered(i), 1, deadline)
		}
		for expired, now := range []int64{start + 1e9 - 1, start + 1e9, start + 2e9} {
			ended := k.ledger.Expire(account, now, true)
			k.save(account)
			held := int64(holds) - int64(expired)*holds/2
			if want := min(expired, 1) * holds / 2; ended != want || int64(len(k.ledger.Holds)) != held {
				t.Fatalf("%s: %d holds ended and %d remain, want %d and %d", a.Name, ended, len(k.ledger.Holds), want, held)
			}
			if got, want := k.peek(now, 0).Remaining, l.Capacity()-held; got != want {
				t.Errorf("%s: after %d of the deadlines: got %d remaining, want %d", a.Name, expired, got, want)
			}
		}
	}
}

// unrefilledLimit returns a limit of n units, under which no unit refills in an hour.
func unrefilledLimit(a algo.Algorithm, n int64) headgate.Limit {
	switch {
	case a.Name.OnlyHolds():
		return headgate.Limit{Rate: n, Concurrent: true}
	case a.Name.Windowed():
		return headgate.Limit{Rate: n, Period: 24 * time.Hour}
	}
	return headgate.Limit{Rate: 1, Period: time.Hour, Burst: n}
}

// TestLeasesExpireTogether ends as many leases in one call as a key may have: half of
// them with one deadline, and the others with a deadline each. The time must not grow
// with the square of their number: the test would take minutes.
func TestLeasesExpireTogether(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests expire many leases")
	}
	const leases, together, last = headgate.MaxOpenHolds, 1e9, 2e9 // deadlines after start, in µs
	for _, a := range algo.All() {
		if !a.Name.CanLease() {
			continue
		}
		l := unrefilledLimit(a, 2*leases)
		k := newHoldKey(a, l)
		account, start := k.account(), int64(1e15)
		k.ledger.Unit = account.Unit()
		for i := range int64(leases) {
			account.Charge(start+i, 1)
			deadline := start + together
			if i < leases/2 {
				deadline = start + last - i
			}
			h := algo.Hold{ID: numbered(i), ChargedAt: account.ChargedAt(), Deadline: deadline}
			h.Set(1, algo.Lease)
			k.ledger.Add(h)
		}
		for expired, now := range []int64{start + together - 1, start + together, start + last} {
			ended := k.ledger.Expire(account, now, true)
			k.save(account)
			open := int64(leases) - int64(expired)*leases/2
			if want := min(expired, 1) * leases / 2; ended != want || k.ledger.Leased() != open {
				t.Fatalf("%s: %d leases ended and %d units are on lease, want %d and %d", a.Name, ended, k.ledger.Leased(), want, open)
			}
			if got, want := k.peek(now, 0).Remaining, l.Capacity()-leases; got != want {
				t.Errorf("%s: after %d of the deadlines: got %d remaining, want %d, because all leases were spent", a.Name, expired, got, want)
			}
		}
	}
}

// expiryDriver has a function that ends n leases in one call, as TestLeasesExpireTogether
// does. It returns the number of open records, the units on lease and what remains.
const expiryDriver = `
return function(n, start, ...)
  local w = x.new({...})
  local l = ledger.new(ledger.functions(x), w, {a = 0, b = 0, c = 0})
  l.s = l.h.charge(w, l.s, start, n)
  l.p, l.d = l.h.unit(w)
  for i = 1, n do
    local deadline = i <= n / 2 and start + 2e9 - i or start + 1e9
    l.list[i] = {id = '', units = 1, charged_at = l.h.charged_at(w, l.s), deadline = deadline, least = 0, rest = 0, kind = 1}
  end
  l.leased = n
  ledger.expire(l, start + 2e9, true)
  return #l.list, l.leased, ledger.remaining(l, start + 2e9)
end`

// TestLeasesExpireTogetherInLua is TestLeasesExpireTogether for the ledger in Lua, with
// fewer leases, because the interpreter is slower.
func TestLeasesExpireTogetherInLua(t *testing.T) {
	if testing.Short() {
		t.Skip("the long tests expire many leases")
	}
	const leases, start = 20_000, 1e15
	for _, a := range algo.All() {
		if !a.Name.CanLease() || a.NewLog != nil {
			continue
		}
		l := unrefilledLimit(a, 2*leases)
		step, err := a.New(l)
		if err != nil {
			t.Fatal(err)
		}
		terms := step.Params()
		if dated, ok := step.(algo.CalendarStepper); ok {
			terms = append(terms, dated.BoundariesAt(start+2e9)...)
		}
		vm := newLuaVM(t, algo.Arithmetic()+algo.LuaLocal("x", a.Lua)+algo.LuaLocal("ledger", algo.LedgerLua())+expiryDriver)
		args := []lua.LValue{lua.LNumber(leases), lua.LNumber(start)}
		for _, n := range terms {
			args = append(args, lua.LNumber(n))
		}
		if err := vm.CallByParam(lua.P{Fn: vm.Get(-1), NRet: 3, Protect: true}, args...); err != nil {
			t.Fatal(err)
		}
		got := []lua.LValue{vm.Get(-3), vm.Get(-2), vm.Get(-1)}
		if want := []lua.LValue{lua.LNumber(0), lua.LNumber(0), lua.LNumber(leases)}; !slices.Equal(got, want) {
			t.Errorf("%s: got %v open records, units on lease and remaining units, want %v", a.Name, got, want)
		}
	}
}

func numbered(i int64) (id headgate.HoldID) {
	binary.BigEndian.PutUint64(id[:], uint64(i))
	return id
}
