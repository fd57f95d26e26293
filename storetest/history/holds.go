package history

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/storetest/model"
)

// Hold is an operation of [headgate.HoldStore]. The zero value is none. In a history
// with other operations than Debit and TakeUpTo, all instants must be equal. So no hold
// expires.
type Hold struct {
	ID   byte // id of the hold, 1 or more; any such number for Debit and TakeUpTo
	Verb headgate.HoldVerb
}

// holdTTL is the TTL of all holds.
const holdTTL = 24 * time.Hour

// answered is what the store has answered to a request.
type answered struct {
	decision headgate.Decision
	replayed bool
	granted  int64
	holdErr  error // ErrUnknownHold or ErrHoldConflict; the decision does not count then
}

func (a *answered) equals(other *answered) bool {
	if a.holdErr != nil || other.holdErr != nil {
		return errors.Is(a.holdErr, other.holdErr)
	}
	return equalDecisions(a.decision, other.decision) && a.replayed == other.replayed && a.granted == other.granted
}

func (a *answered) holdText() string {
	switch {
	case a.holdErr != nil:
		return " " + a.holdErr.Error()
	case a.replayed:
		return " replayed"
	case a.granted > 0:
		return fmt.Sprintf(" granted=%d", a.granted)
	}
	return ""
}

// isHold reports whether the request is an operation of holds.
func (r *Request) isHold() bool { return r.Hold.ID > 0 }

func (r *Request) isPeek() bool { return !r.isHold() && r.Verb == headgate.Peek }

func (r *Request) name() string {
	if r.isHold() {
		return fmt.Sprintf("%v (id %d)", r.Hold.Verb, r.Hold.ID)
	}
	return r.Verb.String()
}

func (l *Log) hasHolds() bool {
	return slices.ContainsFunc(l.events, func(e event) bool { return e.request.isHold() && e.request.Hold.Verb < headgate.Debit })
}

// DoHold is [Log.Do] for a request with an operation of holds. b was bound by s.
func (l *Log) DoHold(ctx context.Context, client int, s headgate.HoldStore, b headgate.Bound, key string, r Request) (Outcome, error) {
	return l.do(client, r, func() (answered, error) {
		op := headgate.HoldOp{Op: headgate.Op{Bound: b, Key: key, Cost: r.Cost}, ID: headgate.HoldID{r.Hold.ID}}
		results := make([]headgate.HoldResult, 1)
		_, err := s.ApplyHolds(ctx, r.At, r.Hold.Verb, holdTTL, []headgate.HoldOp{op}, results)
		a := answered{decision: results[0].Decision, replayed: results[0].Replayed, holdErr: results[0].Err}
		if r.Hold.Verb == headgate.TakeUpTo {
			a.granted = results[0].Granted
		}
		if errors.Is(err, headgate.ErrHoldConflict) {
			a.holdErr, err = headgate.ErrHoldConflict, nil
		}
		return a, err
	})
}

// heldKey is the state of a key with its holds, and the units of the holds that were
// committed.
type heldKey struct {
	*model.Holds
	ended map[byte]int64
}

func (k *heldKey) clone() *heldKey { return &heldKey{k.Clone(), maps.Clone(k.ended)} }

func (k *heldKey) text(holds bool) string {
	if !holds {
		return k.Key.Text()
	}
	return k.Text() + fmt.Sprint(k.ended) // a map is printed in the order of its keys
}

// do executes a request in a history with holds.
func (k *heldKey) do(l headgate.Limit, r Request) answered {
	t := int64(r.At)
	k.Begin(l, t)
	switch {
	case r.isHold():
		return k.doHold(l, t, r)
	case r.Verb == headgate.Take:
		return answered{decision: k.Take(l, t, r.Cost)}
	case r.Verb == headgate.Refund:
		return answered{decision: k.Refund(l, t, r.Cost)}
	case r.Verb == headgate.Reset:
		return answered{decision: k.Reset(l, t)}
	default:
		return answered{decision: k.Key.Peek(l, t, r.Cost)}
	}
}

func (k *heldKey) doHold(l headgate.Limit, t int64, r Request) (a answered) {
	id := fmt.Sprint(r.Hold.ID)
	switch r.Hold.Verb {
	case headgate.OpenHold:
		return k.open(l, t, id, r)
	case headgate.CommitHold:
		_, a.replayed = k.ended[r.Hold.ID]
		if k.IsOpen(id) {
			k.end(r.Hold.ID, k.Units(id))
			k.Commit(l, t, id, r.Cost)
		} else if !a.replayed {
			a.holdErr = headgate.ErrUnknownHold
		}
	case headgate.ExtendHold:
		if !k.IsOpen(id) {
			a.holdErr = headgate.ErrUnknownHold
		}
	case headgate.TakeUpTo:
		a.granted, _ = k.TakeUpTo(l, t, r.Cost)
	default:
		k.Debit(l, t, r.Cost)
	}
	a.decision = k.Key.Peek(l, t, 0)
	return a
}

func (k *heldKey) open(l headgate.Limit, t int64, id string, r Request) (a answered) {
	units, ended := k.ended[r.Hold.ID]
	if k.IsOpen(id) {
		units, ended = k.Units(id), true
	}
	switch {
	case ended && units != r.Cost:
		return answered{holdErr: headgate.ErrHoldConflict}
	case ended:
		a.replayed = true
	default:
		if d := k.Hold(l, t, id, r.Cost, t+holdTTL.Microseconds()); !d.Allowed {
			return answered{decision: d}
		}
	}
	a.decision = k.Key.Peek(l, t, 0)
	return a
}

func (k *heldKey) end(id byte, units int64) {
	if k.ended == nil {
		k.ended = map[byte]int64{}
	}
	k.ended[id] = units
}
