package engine

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/headgate/headgate"
)

// Extend sets the deadlines of holds to the present time plus ttl, with one call of the
// store for at most 256 limits of a server, or for one hold with more. It sets Expires or
// Err of each hold, and returns an error only if no hold was extended. If a call of the
// store fails, the other calls are made. The decision in a is the result of a peek with
// cost 0 on all checks of all holds.
func (s *ActiveConfig) Extend(ctx context.Context, now headgate.Instant, ttl time.Duration, holds []ClientHold, a *Answer) error {
	return s.applyHolds(ctx, &holdCall{verb: headgate.ExtendHold, now: now, ttl: ttl, holds: holds}, a)
}

// checkExtended returns an error if a call extends holds with too many checks.
func (s *ActiveConfig) checkExtended(call *holdCall) error {
	if call.verb != headgate.ExtendHold {
		return nil
	}
	checks := 0
	for i := range call.holds {
		checks += len(call.holds[i].Checks)
	}
	if checks <= s.maxExtend {
		return nil
	}
	return &CheckError{Index: -1, Field: "holds", Err: fmt.Errorf(
		"%w: the %d holds have %d checks; must be at most %d (max_extend_checks); extend fewer holds with each request",
		ErrInvalidRequest, len(call.holds), checks, s.maxExtend,
	)}
}

// sizesOf returns the number of ops of each hold. The parameter holds has the index of
// the hold of each op; those of one hold are adjacent.
func sizesOf(holds []int) []int {
	var sizes []int
	for i, h := range holds {
		if i == 0 || h != holds[i-1] {
			sizes = append(sizes, 0)
		}
		sizes[len(sizes)-1]++
	}
	return sizes
}

// firstError returns the first error of the store, or else the error of the first hold.
func (call *holdCall) firstError() error {
	for i := range call.holds {
		if err := call.holds[i].Err; err != nil && !isNotOpen(err) {
			return err
		}
	}
	return call.holds[0].Err
}

// isNotOpen reports whether err means that the store has no such open hold.
func isNotOpen(err error) bool {
	return errors.Is(err, headgate.ErrUnknownHold) || errors.Is(err, headgate.ErrExpiredHold)
}

// ErrorName returns a name for Err, as in [ErrorKind.HoldError], or unavailable if the
// store has failed.
func (h *ClientHold) ErrorName() string {
	if name := ErrorKindOf(h.Err).HoldError(); name != "" {
		return name
	}
	return "unavailable"
}
