package algo

import _ "embed"

//go:embed arithmetic.lua
var arithmeticLua string

// Arithmetic is the Lua text that the text of every algorithm needs before it: it declares locals and nothing else. The text of
// an [Algorithm] ends by returning the table of its functions, so that the two, one behind the other, are a chunk:
//
//	Arithmetic() + a.Lua                                      -- returns the functions of one algorithm
//	Arithmetic() + LuaLocal("x", a.Lua) + LuaLocal("y", b.Lua) -- for a script of one's own, which goes on behind them
//
// It is Lua 5.1 as Redis runs it: no globals, no clock, and whole numbers below 2^53 throughout, so that doubles hold them
// exactly. What goes in must be as a [Stepper] takes it, and costs below 2^53.
//
// # The functions
//
// A twin has the methods of its Stepper, and of its [Booker] if it is one, under the same names:
//
//	w = x.new(terms)                              terms: the list that Terms gave, in its order
//	s, allowed = x.take(w, s, t, n)
//	d = x.answer(w, s, t, asked, spent, allowed)
//	s = x.refund(w, s, t, n)
//	s = x.undo(w, s, was, after, t0, t, n)
//	instant = x.reset_at(w, s)
//	s, delay, booked = x.reserve(w, s, t, n, max_delay)
//	s = x.cancel(w, s, mark, t, n)
//
// A state is {a = A, b = B, c = C} and is never changed, only replaced. A decision d has allowed and never, which are booleans,
// and limit, remaining, retry_after, reset_after and delay, in units and µs.
//
// A [LogStepper]'s twin takes a list of entries {at = t, units = n}, oldest first; take, when it admits, refund and undo change it:
//
//	allowed = x.take(w, log, t, n, room)
//	allowed = x.fits(w, log, t, n)
//	d = x.answer(w, log, t, asked, allowed)
//	x.refund(w, log, t, n)
//	x.undo(w, log, at, n)
//	instant = x.reset_at(w, log)
func Arithmetic() string { return arithmeticLua }

// LuaLocal is a statement that gives an algorithm's text a name: local name = the table of its functions.
func LuaLocal(name, text string) string {
	return "local " + name + " = (function()\n" + text + "\nend)()\n"
}
