package model

import (
	"slices"

	"github.com/headgate/headgate"
)

// Holds is a key with open holds. It is written from the definition of a hold: a commit
// with fewer units than were held has the effect that the actual units had been charged
// at the beginning. For the token bucket, Holds computes the state again from all charges
// since the key was unused and all changes of the limit, with the corrected number of
// units. For the other algorithms, it follows the formula of the definition. Under the
// algorithm concurrency, the state is the list of the open holds.
//
// Begin must be called at the start of every operation.
type Holds struct {
	Key     *Key
	Release bool    // whether the units of an expired hold are refunded
	Clip    bool    // whether units above those held are charged only as far as they remain
	Ended   Ended   // records of the holds that were committed
	base    *Key    // state before the first event of the history
	history []event // since the beginning of the first open hold
	open    []*hold
	leases  []*lease
}

// event is a change of the state: units were charged at an instant, or refunded if the
// number is negative. An event of no units converts the state to another limit. debt is
// the debt before the charge and after it; only the interval bucket uses it.
type event struct {
	limit         headgate.Limit
	at, units     int64
	before, after int64
}

type hold struct {
	id       string
	units    int64
	event    int   // index of the charge in the history
	mark     int64 // window or instant in which the units were counted
	deadline int64
}

// NewHolds returns an unused key without holds.
func NewHolds(algorithm headgate.Algorithm) *Holds {
	return &Holds{Key: NewKey(algorithm), base: NewKey(algorithm)}
}

// Begin ends the leases and then the holds that have expired at t, each in the order of
// their deadlines, and returns the ids of the holds.
func (h *Holds) Begin(l headgate.Limit, t int64) (ended []string) {
	h.forget()
	for first := h.nextLease(); first != nil && first.expires <= t; first = h.nextLease() {
		h.expireLeases(l, first.expires)
	}
	for first := h.earliest(); first != nil && first.deadline <= t; first = h.earliest() {
		if h.Release {
			h.convert(l, t)
			h.correct(l, first, t, first.units)
		}
		h.remove(first)
		ended = append(ended, first.id)
	}
	h.keep(l, t)
	return ended
}

// forget removes the events before the first event of an open hold, which no later call
// changes.
func (h *Holds) forget() {
	first := len(h.history)
	for _, open := range h.open {
		first = min(first, open.event)
	}
	first = max(first, 0) // a hold of no units has no event
	for _, e := range h.history[:first] {
		h.base.apply(e)
	}
	h.history = h.history[first:]
	for _, open := range h.open {
		open.event -= first
	}
}

func (h *Holds) earliest() (first *hold) {
	for _, open := range h.open {
		if first == nil || open.deadline < first.deadline {
			first = open
		}
	}
	return first
}

// Take spends n units if they are available; see [Key.Take].
func (h *Holds) Take(l headgate.Limit, t, n int64) headgate.Decision {
	before := h.debt(l, t)
	d := h.take(l, t, n)
	if d.Allowed && n > 0 {
		h.record(l, t, n, before)
	}
	return d
}

// Debit spends n units, whether or not they are available.
func (h *Holds) Debit(l headgate.Limit, t, n int64) headgate.Decision {
	if n > 0 {
		h.convert(l, t)
		before := h.debt(l, t)
		h.Key.force(l, t, n)
		h.record(l, t, n, before)
	}
	return h.Peek(l, t, 0)
}

// TakeUpTo spends n units or as many as remain. It returns their number.
func (h *Holds) TakeUpTo(l headgate.Limit, t, n int64) (int64, headgate.Decision) {
	n = min(n, h.Peek(l, t, 0).Remaining)
	if n > 0 {
		h.convert(l, t)
	}
	return n, h.Take(l, t, n)
}

// Refund returns n units; see [Key.Refund].
func (h *Holds) Refund(l headgate.Limit, t, n int64) headgate.Decision {
	before := h.debt(l, t)
	h.Key.Refund(l, t, n)
	if n > 0 {
		h.record(l, t, -n, before)
		h.keep(l, t)
	}
	return h.Peek(l, t, 0)
}

// Reset makes the key unused and removes all holds. The leases stay open.
func (h *Holds) Reset(l headgate.Limit, t int64) headgate.Decision {
	h.history, h.open, h.base = nil, nil, NewKey(h.Key.algorithm)
	h.Key.Reset(l, t)
	h.keep(l, t)
	return h.Peek(l, t, 0)
}

// Hold spends n units if they are available, and opens a hold that expires at deadline.
func (h *Holds) Hold(l headgate.Limit, t int64, id string, n, deadline int64) headgate.Decision {
	d := h.Take(l, t, n)
	if s, ok := h.Key.state.(*slots); ok && d.Allowed && n > 0 {
		s.opened(id, deadline)
		d = h.Peek(l, t, 0)
	}
	if d.Allowed {
		h.open = append(h.open, &hold{id: id, units: n, event: len(h.history) - 1, mark: h.Key.mark(), deadline: deadline})
	}
	return d
}

// Deadline returns the deadline of an open hold.
func (h *Holds) Deadline(id string) int64 { return h.find(id).deadline }

// IsOpen reports whether the hold is open.
func (h *Holds) IsOpen(id string) bool { return h.find(id) != nil }

// IsOpenAt reports whether the hold is open at t. It does not need Begin.
func (h *Holds) IsOpenAt(id string, t int64) bool {
	open := h.find(id)
	return open != nil && open.deadline > t
}

// Open returns the number of open holds.
func (h *Holds) Open() int { return len(h.open) }

// Extend changes the deadline of an open hold.
func (h *Holds) Extend(id string, deadline int64) {
	h.find(id).deadline = deadline
	if s, ok := h.Key.state.(*slots); ok {
		s.extend(id, deadline)
	}
}

// Commit ends an open hold with the actual number of units.
func (h *Holds) Commit(l headgate.Limit, t int64, id string, actual int64) headgate.Decision {
	open := h.find(id)
	s, isSlots := h.Key.state.(*slots)
	if actual < open.units && !isSlots {
		h.convert(l, t)
	}
	h.remove(open)
	h.Ended.add(id, open.deadline)
	switch excess := actual - open.units; {
	case isSlots && open.units > 0:
		s.release(id)
	case isSlots:
	case excess < 0:
		h.correct(l, open, t, -excess)
		h.keep(l, t)
	case h.Clip:
		h.TakeUpTo(l, t, excess)
	default:
		h.Debit(l, t, excess)
	}
	return h.Peek(l, t, 0)
}

func (h *Holds) find(id string) *hold {
	for _, open := range h.open {
		if open.id == id {
			return open
		}
	}
	return nil
}

func (h *Holds) remove(open *hold) {
	h.open = slices.DeleteFunc(h.open, func(o *hold) bool { return o == open })
}

func (h *Holds) record(l headgate.Limit, t, n, before int64) {
	h.history = append(h.history, event{limit: l, at: t, units: n, before: before, after: h.debt(l, t)})
}

// convert converts the state of a key with open holds or leases to the limit l. Only
// an operation that changes the number of spent units does so.
func (h *Holds) convert(l headgate.Limit, t int64) {
	if len(h.open)+len(h.leases) == 0 {
		return
	}
	before := h.debt(l, t)
	*h.Key = *h.Key.under(l, t)
	h.record(l, t, 0, before)
}

// correct changes the state as if n units fewer had been charged for the hold.
func (h *Holds) correct(l headgate.Limit, open *hold, t, n int64) {
	if n == 0 {
		return
	}
	switch s := h.Key.state.(type) {
	case *slots:
		s.release(open.id)
	case *tokenBucket:
		h.history[open.event].units -= n
		h.recompute()
	case *intervalBucket:
		h.correctDebts(l, open, t, n)
	case counter:
		s.advance(t)
		s.correct(open.mark, n)
	}
}

// recompute computes the state again from all charges.
func (h *Holds) recompute() {
	*h.Key = *h.base.clone()
	for _, e := range h.history {
		h.Key.apply(e)
	}
}

func (k *Key) apply(e event) {
	switch {
	case e.units > 0:
		k.force(e.limit, e.at, e.units)
	case e.units < 0:
		k.Refund(e.limit, e.at, -e.units)
	default:
		*k = *k.under(e.limit, e.at)
	}
}

// correctDebts subtracts the least of n and the least debt since the charge, from the
// debt at every instant since the charge and from the present debt.
func (h *Holds) correctDebts(l headgate.Limit, open *hold, t, n int64) {
	later := h.history[open.event:]
	least := later[0].after
	later[0].after -= min(n, least)
	for i := range later[1:] {
		e := &later[1+i]
		least = min(least, e.before)
		e.before -= min(n, least)
		least = min(least, e.after)
		e.after -= min(n, least)
	}
	least = min(least, h.debt(l, t))
	h.Key.Refund(l, t, min(n, least))
}

// debt returns the number of missing tokens of an interval bucket, and 0 for every other
// algorithm.
func (h *Holds) debt(l headgate.Limit, t int64) int64 {
	copied := h.Key.under(l, t)
	copied.state.advance(t)
	if b, ok := copied.state.(*intervalBucket); ok {
		return b.full - b.tokens
	}
	return 0
}

// force spends n units at t, whether or not they are available.
func (k *Key) force(l headgate.Limit, t, n int64) {
	*k = *k.under(l, t)
	k.spend(t, n)
}

// counter is a state that counts units in windows or at instants.
type counter interface {
	state
	// mark returns the window or the instant in which the last units were counted.
	mark() int64
	// correct removes up to n units that were counted at mark, if they still count.
	correct(mark, n int64)
}

func (k *Key) mark() int64 {
	if s, ok := k.state.(counter); ok {
		return s.mark()
	}
	return 0
}

func (w *fixedWindow) mark() int64 { return w.window }

func (w *fixedWindow) correct(mark, n int64) {
	if mark == w.window {
		w.count -= min(n, w.count)
	}
}

func (w *calendarWindow) mark() int64 { return w.begin }

func (w *calendarWindow) correct(mark, n int64) {
	if mark == w.begin {
		w.count -= min(n, w.count)
	}
}

func (w *slidingWindow) mark() int64 { return w.window }

func (w *slidingWindow) correct(mark, n int64) {
	switch mark {
	case w.window:
		w.cur -= min(n, w.cur)
	case w.window - 1:
		w.prev -= min(n, w.prev)
	}
}

func (w *slidingLog) mark() int64 {
	if len(w.spent) == 0 {
		return 0
	}
	return w.newest().at
}

// correct removes up to n units that were spent at the instant at.
func (w *slidingLog) correct(at, n int64) {
	for i := range w.spent {
		if e := &w.spent[i]; e.at == at {
			removed := min(n, e.units)
			e.units -= removed
			n -= removed
		}
	}
	w.spent = slices.DeleteFunc(w.spent, func(e entry) bool { return e.units == 0 })
}
