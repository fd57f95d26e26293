package engine

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/headgate/headgate"
)

// ErrNoHold is the error if a request needs a slot and the store opens no further hold
// for one of its keys. The request is valid: its kind is [StoreFailure].
var ErrNoHold = errors.New("no further hold")

// noHoldError is an [ErrNoHold] with its cause.
type noHoldError struct{ cause error }

func (e *noHoldError) Error() string { return ErrNoHold.Error() + ": " + withoutPrefix(e.cause) }

func (e *noHoldError) Unwrap() []error { return []error{ErrNoHold, e.cause} }

// AdmitHeld takes the amounts of all checks of h, or of none, and opens a hold for them,
// like [ActiveConfig.Hold]. If a key has too many open holds, or there is no memory for
// another hold, it takes the amounts without a hold: an error would deny the requests of
// all clients that share the key. If a check needs a slot, it returns [ErrNoHold]
// instead. held is false if no hold was opened. The observer receives one event. The
// checks must be composed by the API, and none may have a queue.
func (s *ActiveConfig) AdmitHeld(ctx context.Context, now headgate.Instant, ttl time.Duration, h *ClientHold, a *Answer) (held bool, err error) {
	a.clear(s.generation)
	defer a.clearKeys()
	if s.observer != nil {
		s.begin(a)
	}
	call, operation := &holdCall{verb: headgate.OpenHold, now: now, ttl: ttl, holds: []ClientHold{*h}}, Hold
	if err = s.changeHolds(ctx, call, a); errors.Is(err, headgate.ErrTooManyHolds) || errors.Is(err, headgate.ErrStoreFull) {
		operation, err = Take, s.takeUnheld(ctx, now, h.Checks, a, err)
	}
	*h = call.holds[0]
	if s.observer != nil {
		s.notify(ctx, operation, h.Checks, a, err)
	}
	return operation == Hold && err == nil && a.Allowed, err
}

// takeUnheld takes units without a hold. cause is the reason why there is none.
func (s *ActiveConfig) takeUnheld(ctx context.Context, now headgate.Instant, checks []Check, a *Answer, cause error) error {
	if slices.ContainsFunc(a.enforced.rules, func(r *Rule) bool { return r.onlyHolds }) {
		return &noHoldError{cause}
	}
	a.clear(s.generation)
	a.withBans = true
	if err := s.resolve(checks, a); err != nil {
		return err
	}
	return s.decideResolved(ctx, now, headgate.Take, a)
}
