package headgate

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// The reasons why nothing could be decided, or a policy could not be built. Test with [errors.Is]; a denial is none of them.
var (
	// ErrInvalidLimit: a limit outside the accepted domain, or text that is no limit. See [LimitError] and [SyntaxError].
	ErrInvalidLimit = errors.New("headgate: invalid limit")
	// ErrInvalidCost: a cost below zero.
	ErrInvalidCost = errors.New("headgate: invalid cost")
	// ErrInvalidInstant: an instant before 1970 or after [MaxInstant].
	ErrInvalidInstant = errors.New("headgate: invalid instant")
	// ErrInvalidPolicy: a policy that says nothing, too much or contradicts itself.
	ErrInvalidPolicy = errors.New("headgate: invalid policy")
	// ErrUnknownAlgorithm: an algorithm name that package algo does not know.
	ErrUnknownAlgorithm = errors.New("headgate: unknown algorithm")
	// ErrUnsupported: a verb that this algorithm cannot do exactly, or an algorithm that this store cannot hold.
	ErrUnsupported = errors.New("headgate: unsupported")
	// ErrNeverAllowed: Wait was asked for more than the limit holds; no wait helps.
	ErrNeverAllowed = errors.New("headgate: cost is above the limit and can never be admitted")
	// ErrWouldExceedDeadline: Wait would outlive its context's deadline, so it did not start.
	ErrWouldExceedDeadline = errors.New("headgate: waiting would exceed the context's deadline")
	// ErrStoreUnavailable: the store could not decide. Every [StoreError] matches it, whatever its trouble.
	ErrStoreUnavailable = errors.New("headgate: store unavailable")
	// ErrStoreFull: the store's bound is reached and no state can be dropped without forgetting a debt.
	ErrStoreFull = errors.New("headgate: store full")
	// ErrClosed: the store was closed.
	ErrClosed = errors.New("headgate: store is closed")
)

// LimitError says which field of a limit is outside the accepted domain. It matches [ErrInvalidLimit].
type LimitError struct {
	Field string // the field's name as in [Limit], lower case: rate, period, burst, queue; or fill time
	Value string // what it was
	Bound string // what is accepted
}

// Error names the field, its value and the bound.
func (e *LimitError) Error() string {
	return fmt.Sprintf("headgate: invalid limit: %s is %s; %s", e.Field, e.Value, e.Bound)
}

// Is reports whether target is [ErrInvalidLimit].
func (e *LimitError) Is(target error) bool { return target == ErrInvalidLimit }

// SyntaxError points at the part of a limit's text that could not be read. It matches [ErrInvalidLimit].
type SyntaxError struct {
	Input  string // the whole text, as given
	Offset int    // where the offending part begins, in bytes
	Length int    // how many bytes it has; 0 at the end of the text
	Reason string // what was expected there
}

// maxShownInput bounds how much of a hostile text an error repeats, in bytes.
const maxShownInput = 80

// Error says what was expected and at which column (1 for the first byte), and repeats the text with the place marked.
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

// printable replaces what would move a terminal's cursor or turn the text around, so that the marker stays below its place.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '.'
		}
		return r
	}, s)
}
