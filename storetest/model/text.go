package model

import (
	"fmt"
	"strings"
)

// Text returns a text that identifies the state. If two keys of one algorithm have the
// same text, and each was used under the same single limit only, all of their further
// decisions are the same.
func (k *Key) Text() string { return k.state.text() }

// Clone returns an independent key with the same state.
func (k *Key) Clone() *Key { return k.clone() }

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
