package headgate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The errors of this package. Test for them with [errors.Is]. A denial is not an error.
var (
	// ErrInvalidLimit: the limit is outside the accepted domain, or its text cannot be
	// parsed. See [LimitError] and [SyntaxError].
	ErrInvalidLimit = errors.New("headgate: invalid limit")
	// ErrInvalidCost: the cost is below 0.
	ErrInvalidCost = errors.New("headgate: invalid cost")
	// ErrInvalidInstant: the time is before 1970 or after [MaxInstant].
	ErrInvalidInstant = errors.New("headgate: invalid instant")
	// ErrInvalidPolicy: the policy has no limits, too many limits or contradictory
	// settings.
	ErrInvalidPolicy = errors.New("headgate: invalid policy")
	// ErrUnknownAlgorithm: package algo has no algorithm of this name.
	ErrUnknownAlgorithm = errors.New("headgate: unknown algorithm")
	// ErrUnsupported: the algorithm cannot do this operation exactly, or the store does
	// not support the algorithm.
	ErrUnsupported = errors.New("headgate: unsupported")
	// ErrNeverAllowed: the cost given to Wait is above the limit, so waiting does not
	// help.
	ErrNeverAllowed = errors.New("headgate: cost is above the limit and can never be allowed")
	// ErrWouldExceedDeadline: the wait would exceed the context's deadline, so Wait
	// returned without waiting.
	ErrWouldExceedDeadline = errors.New("headgate: waiting would exceed the context's deadline")
	// ErrStoreUnavailable: the store could not decide. Every [StoreError] matches it,
	// whatever its reason.
	ErrStoreUnavailable = errors.New("headgate: store unavailable")
	// ErrStoreFull: the store has reached its size limit, and every key in it is partly
	// spent.
	ErrStoreFull = errors.New("headgate: store full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("headgate: store is closed")
)

// LimitError reports which field of a limit is outside the accepted domain. It matches
// [ErrInvalidLimit].
type LimitError struct {
	Field string // field of [Limit] in lower case: rate, period, burst or queue; or fill time
	Value string // the value
	Bound string // what the value must be
}

// Error returns the field, its value and what it must be.
func (e *LimitError) Error() string {
	return fmt.Sprintf("headgate: invalid limit: %s is %s; %s", e.Field, e.Value, e.Bound)
}

// Is reports whether target is [ErrInvalidLimit].
func (e *LimitError) Is(target error) bool { return target == ErrInvalidLimit }

// SyntaxError points at the part of a text that could not be parsed as a limit. It
// matches [ErrInvalidLimit].
type SyntaxError struct {
	Input  string // the whole text
	Offset int    // where the wrong part begins, in bytes
	Length int    // length of the wrong part in bytes; 0 at the end of the text
	Reason string // what was expected, and often what to write
}

// maxShownInput bounds how many bytes of the input an error repeats.
const maxShownInput = 80

// Error returns the column (1 for the first byte) and what was expected there. It
// repeats the text and marks the wrong part.
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

// printable replaces characters that move a cursor or change the text direction, so
// that the marker stays below the wrong part.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, s)
}
