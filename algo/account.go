package algo

// Account is the state of one key under one limit, as a [Ledger] uses it. t is an instant
// in µs that is the same in all calls of one operation.
type Account interface {
	// Adopt converts the state to the form of this limit, if it was written under another
	// limit, whose unit is from. cut is the debt in µs that was dropped because the state
	// exceeded the capacity of this limit. changed reports whether the state was
	// converted. The debt of a bucket contains that of the leased units. This part is not
	// converted: as many units are missing under this limit.
	Adopt(t int64, from Unit, leased int64) (cut int64, changed bool)
	// Recount returns the new ChargedAt, after Adopt, of units that were charged at
	// chargedAt, or 0 if they no longer count.
	Recount(t, chargedAt int64, from Unit) int64
	// Take spends n units at t if they are available, and reports whether they were.
	Take(t, n int64) bool
	// Charge spends n units at t, whether or not they are available. The key can then be
	// overspent: nothing remains, and a denial has a correspondingly longer RetryAfter.
	Charge(t, n int64)
	// Remaining returns the number of units that can be spent at t.
	Remaining(t int64) int64
	// ChargedAt returns the instant that identifies the last charge: the start or the end
	// of its window, or the instant of its entry in a log. It is 0 if a correction does
	// not depend on it.
	ChargedAt() int64
	// Debt returns the debt at t. It is zero for an algorithm that counts in windows or
	// slots.
	Debt(t int64) Debt
	// Unit returns the debt that one unit causes.
	Unit() Unit
	// Correct changes the state as if n units fewer had been charged at chargedAt. The
	// debt is then lower by the parameter reduction.
	Correct(t, chargedAt, n int64, reduction Debt)
	// Raise raises the debt at t to that of n units, or the count of a window to n, if it
	// is lower.
	Raise(t, n int64)
	// Clear removes all units.
	Clear()
	// LeaseEnd returns the latest instant at which a lease ends that begins at t: the end
	// of the window in which its units are counted.
	LeaseEnd(t int64) int64
}

// Corrector is a Stepper whose charges can be corrected later.
type Corrector interface {
	Stepper

	// Charge spends n units at t, whether or not they are available; see
	// [Account.Charge].
	Charge(s State, t, n int64) State
	// Adopt converts s, which was written under a limit with the unit from; see
	// [Account.Adopt].
	Adopt(s State, t int64, from Unit, leased int64) (next State, cut int64, changed bool)
	// Recount returns the new ChargedAt, after Adopt with the same arguments, of units
	// that were charged at chargedAt in s; see [Account.Recount].
	Recount(s State, t, chargedAt int64, from Unit) int64
	// ChargedAt returns the instant that identifies the last charge of s; see
	// [Account.ChargedAt].
	ChargedAt(s State) int64
	// Debt returns the debt of s at t.
	Debt(s State, t int64) Debt
	// Unit returns the debt that one unit causes.
	Unit() Unit
	// Correct returns the state at t as if n units fewer had been charged at chargedAt;
	// see [Account.Correct].
	Correct(s State, t, chargedAt, n int64, reduction Debt) State
	// Raise raises the debt of s at t to that of n units, or its count to n, if it is
	// lower. s must have been converted to this limit.
	Raise(s State, t, n int64) State
	// LeaseEnd returns the latest instant at which a lease ends; see [Account.LeaseEnd].
	LeaseEnd(s State, t int64) int64
}

// StateAccount is an [Account] for an algorithm whose state is a [State].
type StateAccount struct {
	Step  Corrector
	State State
}

// Adopt implements [Account].
func (a *StateAccount) Adopt(t int64, from Unit, leased int64) (cut int64, changed bool) {
	a.State, cut, changed = a.Step.Adopt(a.State, t, from, leased)
	return cut, changed
}

// Recount implements [Account].
func (a *StateAccount) Recount(t, chargedAt int64, from Unit) int64 {
	return a.Step.Recount(a.State, t, chargedAt, from)
}

// Take implements [Account].
func (a *StateAccount) Take(t, n int64) (ok bool) {
	a.State, ok = a.Step.Take(a.State, t, n)
	return ok
}

// Charge implements [Account].
func (a *StateAccount) Charge(t, n int64) { a.State = a.Step.Charge(a.State, t, n) }

// Remaining implements [Account].
func (a *StateAccount) Remaining(t int64) int64 {
	return a.Step.Answer(a.State, t, 0, 0, true).Remaining
}

// ChargedAt implements [Account].
func (a *StateAccount) ChargedAt() int64 { return a.Step.ChargedAt(a.State) }

// Debt implements [Account].
func (a *StateAccount) Debt(t int64) Debt { return a.Step.Debt(a.State, t) }

// Unit implements [Account].
func (a *StateAccount) Unit() Unit { return a.Step.Unit() }

// Correct implements [Account].
func (a *StateAccount) Correct(t, chargedAt, n int64, reduction Debt) {
	a.State = a.Step.Correct(a.State, t, chargedAt, n, reduction)
}

// Raise implements [Account].
func (a *StateAccount) Raise(t, n int64) { a.State = a.Step.Raise(a.State, t, n) }

// LeaseEnd implements [Account].
func (a *StateAccount) LeaseEnd(t int64) int64 { return a.Step.LeaseEnd(a.State, t) }

// Clear implements [Account].
func (a *StateAccount) Clear() { a.State = State{} }

// LogAccount is an [Account] for an algorithm whose state is a [Log].
type LogAccount struct {
	Step LogStepper
	Log  *Log
}

// Adopt implements [Account]: the entries of a log do not depend on the limit.
func (a *LogAccount) Adopt(int64, Unit, int64) (int64, bool) { return 0, false }

// Recount implements [Account].
func (a *LogAccount) Recount(_, chargedAt int64, _ Unit) int64 { return chargedAt }

// Take implements [Account].
func (a *LogAccount) Take(t, n int64) bool { return a.Step.Take(a.Log, t, n, true) }

// Charge implements [Account].
func (a *LogAccount) Charge(t, n int64) { a.Step.Charge(a.Log, t, n, true) }

// Remaining implements [Account].
func (a *LogAccount) Remaining(t int64) int64 { return a.Step.Answer(a.Log, t, 0, true).Remaining }

// ChargedAt returns the instant of the newest entry; see [Account].
func (a *LogAccount) ChargedAt() int64 {
	if a.Log.Len() == 0 {
		return 0
	}
	return a.Log.newest()
}

// Debt implements [Account]: the units of a log do not recover gradually.
func (a *LogAccount) Debt(int64) Debt { return Debt{} }

// Unit returns zero.
func (a *LogAccount) Unit() Unit { return Unit{} }

// Correct implements [Account].
func (a *LogAccount) Correct(t, chargedAt, n int64, _ Debt) {
	a.Step.Correct(a.Log, t, chargedAt, n)
}

// Raise implements [Account]. A [Ledger] counts the units of leases in a log instead.
func (a *LogAccount) Raise(_, _ int64) {}

// Clear implements [Account].
func (a *LogAccount) Clear() { a.Log.Clear() }

// LeaseEnd returns the end of a period that begins at t: an entry counts until then.
func (a *LogAccount) LeaseEnd(t int64) int64 { return t + a.Step.Params()[1] }

// counted returns the number of units that count at t.
func (a *LogAccount) counted(t int64) int64 {
	_, n := a.Log.since(t - a.Step.Params()[1])
	return n
}

// counts reports whether units that were spent at the instant chargedAt count at t.
func (a *LogAccount) counts(t, chargedAt int64) bool { return chargedAt > t-a.Step.Params()[1] }

// unconverted has methods of [Corrector] for an algorithm whose states have the same form
// under every limit.
type unconverted struct{}

// Adopt returns s.
func (unconverted) Adopt(s State, _ int64, _ Unit, _ int64) (State, int64, bool) {
	return s, 0, false
}

// Recount returns chargedAt.
func (unconverted) Recount(_ State, _, chargedAt int64, _ Unit) int64 { return chargedAt }

// ChargedAt returns 0: a correction does not depend on when the units were charged.
func (unconverted) ChargedAt(State) int64 { return 0 }

// LeaseEnd returns an instant after all others.
func (unconverted) LeaseEnd(State, int64) int64 { return maxExact }

// noDebt has methods of [Corrector] for an algorithm whose units cause no debt: windows
// and slots.
type noDebt struct{ unconverted }

// Debt returns zero.
func (noDebt) Debt(State, int64) Debt { return Debt{} }

// Unit returns the zero Unit. An algorithm whose state depends on its period overrides
// it.
func (noDebt) Unit() Unit { return Unit{} }

// maxCount is the maximum count of units in a sliding window or log.
const maxCount = 1<<30 - 1
