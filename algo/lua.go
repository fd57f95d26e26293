package algo

import (
	_ "embed"
	"strings"
)

//go:embed arithmetic.lua
var arithmeticLua string

// Arithmetic returns the Lua text that must precede the text of every algorithm. It
// only declares local variables. The text of an [Algorithm] ends with a return of its
// function table, so the two texts together are a complete chunk:
//
//	Arithmetic() + a.Lua                  -- returns the functions of one algorithm
//	Arithmetic() + LuaLocal("x", a.Lua) + LuaLocal("y", b.Lua) -- start of your script
//
// The text is Lua 5.1 as in Redis. It uses no globals, no clock, and only whole numbers
// below 2^53, which doubles represent exactly. Arguments must satisfy the conditions of
// [Stepper], and costs must be at most 2^53.
//
// # The functions
//
// The Lua implementation has the methods of [Stepper] and, if the algorithm can
// reserve, of [Reserver], under the same names:
//
//	w = x.new(params)                    params: the list that Params returns, in order
//	s, allowed = x.take(w, s, t, n)
//	d = x.answer(w, s, t, asked, spent, allowed)
//	s = x.refund(w, s, t, n)
//	s = x.undo(w, s, was, after, t0, t, n)
//	instant = x.reset_at(w, s)
//	s, delay, booked = x.reserve(w, s, t, n, max_delay)
//	s = x.cancel(w, s, reserved, t, n)
//
// A state is a table {a = A, b = B, c = C}. Functions never modify a state; they return
// a new one. A decision d has the booleans allowed and never, and the numbers limit,
// remaining, retry_after, reset_after and delay, in units and µs.
//
// The Lua implementation of a [LogStepper] uses a list of entries {at = t, units = n},
// oldest first. take (if it allows), refund and undo modify the list:
//
//	allowed = x.take(w, log, t, n, room)
//	allowed = x.fits(w, log, t, n)
//	d = x.answer(w, log, t, asked, allowed)
//	x.refund(w, log, t, n)
//	x.undo(w, log, at, n)
//	instant = x.reset_at(w, log)
func Arithmetic() string { return arithmeticLua }

// LuaLocal returns a Lua statement that assigns the function table of an algorithm to a
// local variable. text is the Lua text of the algorithm.
func LuaLocal(name, text string) string {
	return "local " + name + " = (function()\n" + text + "\nend)()\n"
}

//go:embed ledgerdebt.lua
var ledgerDebtLua string

//go:embed ledgercorrect.lua
var ledgerCorrectLua string

//go:embed ledger.lua
var ledgerLua string

//go:embed lease.lua
var leaseLua string

// LedgerLua returns the Lua implementation of [Ledger]. The text of [Arithmetic] must
// precede it. It ends with a return of its function table. The functions for leases are
// created when they are first needed, because creating a function takes time.
func LedgerLua() string {
	leases := `local leases_made
local function make_leases()
` + leaseLua + `end
local function leases()
  leases_made = leases_made or make_leases()
  return leases_made
end
ledger.leases = leases
`
	return ledgerDebtLua + ledgerCorrectLua + strings.Replace(ledgerLua, "--LEASES\n", leases, 1)
}
