package headgate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The errors of this package. Test for them with [errors.Is]. A denial is not an error.
var (
	// ErrInvalidLimit means that a limit is outside the accepted range, or that its
	// text cannot be parsed. See [LimitError] and [SyntaxError].
	ErrInvalidLimit = errors.New("headgate: invalid limit")
	// ErrInvalidCost means that the cost is below 0 or, for an operation of holds, above
	// [MaxWindowUnits] or, for a debit or a commit, above [Algorithm.MaxDebit].
	ErrInvalidCost = errors.New("headgate: invalid cost")
	// ErrInvalidInstant means that the time is before 1970 or after [MaxInstant].
	ErrInvalidInstant = errors.New("headgate: invalid instant")
	// ErrInvalidPolicy means that a policy has no limits, too many limits or
	// contradictory settings.
	ErrInvalidPolicy = errors.New("headgate: invalid policy")
	// ErrUnknownAlgorithm means that package algo has no algorithm of this name.
	ErrUnknownAlgorithm = errors.New("headgate: unknown algorithm")
	// ErrUnsupported means that the algorithm cannot perform this operation exactly, or
	// that the store does not support the algorithm.
	ErrUnsupported = errors.New("headgate: unsupported")
	// ErrHoldRequired means that a limit counts concurrent work, as in “16 concurrent”.
	// Only a hold can take its units: call [Limiter.Hold] or [HoldAll], and Commit or
	// Cancel when the work ends. Nothing was charged. The error also matches
	// ErrUnsupported.
	ErrHoldRequired = fmt.Errorf("%w: hold required", ErrUnsupported)
	// ErrNeverAllowed means that the cost given to Wait is above the limit, so waiting
	// does not help.
	ErrNeverAllowed = errors.New("headgate: cost is above the limit and can never be allowed")
	// ErrWouldExceedDeadline means that the wait would exceed the deadline of the
	// context, so Wait returned without waiting.
	ErrWouldExceedDeadline = errors.New("headgate: waiting would exceed the context's deadline")
	// ErrStoreUnavailable means that the store could not decide. It is matched by every
	// [StoreError], whatever the reason.
	ErrStoreUnavailable = errors.New("headgate: store unavailable")
	// ErrStoreFull means that the store has reached its maximum size and cannot remove
	// a key, because every key in it has spent units.
	ErrStoreFull = errors.New("headgate: store full")
	// ErrUnknownHold means that the store has no hold with this id on the key: it was
	// never opened, it has ended, or the key was reset. Nothing was charged, except if
	// only some limits of the hold do not know it, as [Hold.Commit] describes: the other
	// limits of the hold were then changed.
	ErrUnknownHold = errors.New("headgate: unknown hold")
	// ErrExpiredHold means that the hold expired before it was committed. Nothing was
	// charged, with the same exception: [HoldSettings.OnExpiry] has decided what became
	// of its units.
	ErrExpiredHold = errors.New("headgate: hold has expired")
	// ErrHoldConflict means that one of the keys has a hold with the same id but with
	// other keys or amounts. Use a different id for each piece of work. Nothing was
	// charged.
	ErrHoldConflict = errors.New("headgate: hold conflicts with a hold of the same id")
	// ErrTooManyHolds means that the key has as many open holds as
	// [HoldSettings.MaxOpen] permits. Nothing was charged.
	ErrTooManyHolds = errors.New("headgate: too many open holds")
	// ErrInvalidHold means that an argument of a hold is outside the accepted range: its
	// id, its TTL or the number of its actual costs. It also means that two checks of a
	// hold have the same policy and key, and different limits: see [Limiter.WithLimits].
	ErrInvalidHold = errors.New("headgate: invalid hold")
	// ErrClosed means that the store was closed.
	ErrClosed = errors.New("headgate: store is closed")
)

// LimitError reports a field of a limit that is outside the accepted range. It matches
// [ErrInvalidLimit].
type LimitError struct {
	// Field is rate, period, burst or queue; calendar unit, calendar start or time zone;
	// fill time; or limit for the limit as a whole.
	Field string
	Value string // invalid value, as text
	Bound string // accepted values, for example “must be 1 to 1000000000”
}

// Error returns the field, its value and the accepted values.
func (e *LimitError) Error() string {
	return fmt.Sprintf("headgate: invalid limit: %s is %s; %s", e.Field, e.Value, e.Bound)
}

// Is reports whether target is [ErrInvalidLimit].
func (e *LimitError) Is(target error) bool { return target == ErrInvalidLimit }

// SyntaxError reports which part of a text could not be parsed as a limit. It matches
// [ErrInvalidLimit].
type SyntaxError struct {
	Input  string // whole text
	Offset int    // start of the wrong part in Input, in bytes
	Length int    // length of the wrong part in bytes; 0 if the text ends too early
	Reason string // what was expected, often with a suggestion
}

// maxShownInput is the maximum number of bytes of the input that an error repeats.
const maxShownInput = 80

// Error returns the column (1 for the first byte) and what was expected there. It
// repeats the text and marks the wrong part on a line below it.
func (e *SyntaxError) Error() string {
	input, marker := e.Input, e.Offset
	if len(input) > maxShownInput {
		input, marker = input[:maxShownInput]+"…", min(marker, maxShownInput)
	}
	return fmt.Sprintf("headgate: invalid limit %q: column %d: %s\n\t%s\n\t%s%s", input, e.Offset+1, e.Reason,
		printable(input), strings.Repeat(" ", marker), strings.Repeat("^", max(1, min(e.Length, maxShownInput-marker))))
}

// Is reports whether target is [ErrInvalidLimit].
func (e *SyntaxError) Is(target error) bool { return target == ErrInvalidLimit }

// printable replaces the characters of s that are not printable, such as characters that
// move the cursor or change the text direction. The marker below the text then stays in
// the right column.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, s)
}
