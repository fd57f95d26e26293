package model

import (
	"fmt"
	"math/big"
	"slices"
	"strings"
)

// Text returns a text that identifies the state. If two keys of one algorithm have the
// same text, and each was used under the same single limit only, all of their further
// decisions are the same.
func (k *Key) Text() string { return k.state.text() }

// Clone returns an independent key with the same state.
func (k *Key) Clone() *Key { return k.clone() }

// Clone returns an independent key with the same state and holds.
func (h *Holds) Clone() *Holds {
	c := *h
	c.Key, c.base, c.history = h.Key.clone(), h.base.clone(), slices.Clone(h.history)
	c.open = make([]*hold, len(h.open))
	for i, open := range h.open {
		copied := *open
		c.open[i] = &copied
	}
	return &c
}

// Text returns a text that identifies the state and the open holds. If all operations are
// at one instant and under one limit, two keys with the same text decide equally.
func (h *Holds) Text() string {
	open := make([]string, len(h.open))
	for i, o := range h.open {
		open[i] = fmt.Sprintf("%s holds %d", o.id, o.units)
	}
	slices.Sort(open)
	return h.Key.Text() + ", " + strings.Join(open, ", ") + h.leastDebts()
}

// leastDebts returns, for a bucket, the ids of the open holds in the order of their
// charges, each with the least debt from its charge to that of the next hold. They
// determine the effect of a commit: a refund can have reduced the debt since the charge.
func (h *Holds) leastDebts() string {
	var text strings.Builder
	debts := h.debtsAfterEvents()
	if debts == nil {
		return ""
	}
	inOrder := slices.SortedFunc(slices.Values(h.open), func(a, b *hold) int { return a.event - b.event })
	for i, o := range inOrder {
		end := len(debts)
		if i+1 < len(inOrder) {
			end = inOrder[i+1].event
		}
		if least := slices.MinFunc(debts[o.event:max(end, o.event+1)], (*big.Rat).Cmp); least != nil {
			fmt.Fprintf(&text, "; least debt since %s %s", o.id, least.RatString())
		}
	}
	return text.String()
}

// debtsAfterEvents returns the debt of a bucket after each event of the history; nil for
// all other algorithms. The debt of a token bucket is its theoretical arrival time.
func (h *Holds) debtsAfterEvents() []*big.Rat {
	debts := make([]*big.Rat, len(h.history))
	k := h.base.clone()
	for i, e := range h.history {
		switch k.state.(type) {
		case *intervalBucket:
			debts[i] = new(big.Rat).SetInt64(min(e.before, e.after))
			if e.units > 0 {
				debts[i].SetInt64(e.after)
			}
		case *tokenBucket:
			k.apply(e)
			if debts[i] = new(big.Rat); k.state.(*tokenBucket).tat != nil {
				debts[i].Set(k.state.(*tokenBucket).tat)
			}
		default:
			return nil
		}
	}
	return debts
}

// Units returns the units of an open hold.
func (h *Holds) Units(id string) int64 { return h.find(id).units }

func (b *tokenBucket) text() string {
	if b.tat == nil {
		return "unused"
	}
	return "full at " + b.tat.RatString()
}

func (b *intervalBucket) text() string {
	if !b.used {
		return "unused"
	}
	return fmt.Sprintf("%d at %d", b.tokens, b.last)
}

func (w *fixedWindow) text() string {
	if w.count == 0 {
		return "unused"
	}
	return fmt.Sprintf("%d in window %d", w.count, w.window)
}

func (w *slidingLog) text() string {
	if len(w.spent) == 0 {
		return "unused"
	}
	var b strings.Builder
	for i := 0; i < len(w.spent); { // the entries of one instant are merged
		e := w.spent[i]
		for i++; i < len(w.spent) && w.spent[i].at == e.at; i++ {
			e.units += w.spent[i].units
		}
		fmt.Fprintf(&b, "%d at %d, ", e.units, e.at)
	}
	return b.String()
}

func (w *slidingWindow) text() string {
	if w.prev == 0 && w.cur == 0 {
		return "unused"
	}
	return fmt.Sprintf("%d and %d in window %d", w.prev, w.cur, w.window)
}
