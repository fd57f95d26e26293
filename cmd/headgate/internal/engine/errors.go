package engine

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/suggest"
)

// The errors that only the engine returns. All other errors are from package headgate
// or from the store.
var (
	// ErrUnknownPolicy is the error if a check names a policy that is not configured.
	ErrUnknownPolicy = errors.New("unknown policy")
	// ErrInvalidRequest is the error if the request has no checks or exceeds an input
	// limit.
	ErrInvalidRequest = errors.New("invalid request")
)

// CheckError is an error in one check of a request, or in the request as a whole. It
// never contains a key.
type CheckError struct {
	Index int    // index of the check in the request, from 0; -1 for the request as a whole
	Field string // policy, limit, algorithm, key or cost; for the request as a whole checks, holds, id, ttl or actual
	Err   error
}

// Error returns the text of the cause. If the error is in a check, its number (from 1)
// comes first.
func (e *CheckError) Error() string {
	if e.Index < 0 {
		return withoutPrefix(e.Err)
	}
	return fmt.Sprintf("check %d: %s", e.Index+1, withoutPrefix(e.Err))
}

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// PolicyError is the reason why the store can't enforce a policy. Its text never
// contains the key of an override. [New] and [Engine.Apply] join one PolicyError for
// each reason, so that all reasons are reported together.
type PolicyError struct {
	Policy   string // name of the policy
	Field    string // limits, algorithm or on_store_error; empty for the policy as a whole
	Override string // override whose limits have the error, such as key:acme; empty if none
	Limit    int    // index of the limit, from 0; undefined if Err is not about a single limit
	Err      error
}

// Error returns the policy's name and the cause.
func (e *PolicyError) Error() string {
	override := ""
	if e.Override != "" {
		override = "override: "
	}
	return fmt.Sprintf("policy %q: %s%s", e.Policy, override, withoutPrefix(e.Err))
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// withoutPrefix returns the text of an error without the prefixes of the store and of
// package headgate.
func withoutPrefix(err error) string {
	text := err.Error()
	if store, rest, ok := strings.Cut(text, "headgate: "); ok && strings.IndexByte(store, ' ') == len(store)-1 {
		return rest
	}
	return text
}

// policyField returns the name of the policy field that caused err, an error from
// binding a rule. It returns an empty string if no single field did.
func policyField(err error) string {
	switch {
	case errors.Is(err, headgate.ErrInvalidLimit):
		return "limits"
	case errors.Is(err, headgate.ErrUnknownAlgorithm), errors.Is(err, headgate.ErrUnsupported):
		return "algorithm"
	}
	return ""
}

// ErrorKind classifies errors by what a caller can do about them. Each API maps the
// kinds to status codes of its protocol.
type ErrorKind uint8

// The kinds of errors.
const (
	StoreFailure   ErrorKind = iota // the store failed to decide; the request may be valid
	InvalidRequest                  // the client must change the request
	UnknownPolicy                   // the named policy is not configured
	UnknownHold                     // the store has no such hold
	ExpiredHold                     // the hold has expired
	HoldConflict                    // another hold has the same id
	TooManyHolds                    // the key has the maximum number of open holds
)

// String returns the kind in words.
func (k ErrorKind) String() string {
	return [...]string{
		"could not decide", "invalid request", "unknown policy", "unknown hold", "expired hold", "conflict", "too many holds",
	}[k]
}

// HoldError returns the name of an error about a hold, as in the decisions of headgate
// replay, or an empty string for any other kind.
func (k ErrorKind) HoldError() string {
	switch k {
	case UnknownHold:
		return "unknown_hold"
	case ExpiredHold:
		return "expired_hold"
	case HoldConflict:
		return "conflict"
	case TooManyHolds:
		return "too_many_holds"
	default:
		return ""
	}
}

// kinds maps causes of errors to kinds. The kind of any other cause is StoreFailure.
var kinds = [...]struct {
	cause error
	kind  ErrorKind
}{
	{ErrNoHold, StoreFailure}, // first, because the error also matches its cause
	{ErrUnknownPolicy, UnknownPolicy},
	{ErrInvalidRequest, InvalidRequest},
	{headgate.ErrInvalidLimit, InvalidRequest},
	{headgate.ErrInvalidCost, InvalidRequest},
	{headgate.ErrUnknownAlgorithm, InvalidRequest},
	{headgate.ErrUnsupported, InvalidRequest},
	{headgate.ErrInvalidHold, InvalidRequest},
	{headgate.ErrUnknownHold, UnknownHold},
	{headgate.ErrExpiredHold, ExpiredHold},
	{headgate.ErrHoldConflict, HoldConflict},
	{headgate.ErrTooManyHolds, TooManyHolds},
}

// ErrorKindOf returns the kind of an error of an operation of the engine.
func ErrorKindOf(err error) ErrorKind {
	for _, k := range kinds {
		if errors.Is(err, k.cause) {
			return k.kind
		}
	}
	return StoreFailure
}

// Reason returns the text of an error of an operation as one line for a client. The line
// does not contain the store's address or details of its protocol, which are only
// logged.
func Reason(err error) string {
	if check := (*CheckError)(nil); errors.As(err, &check) {
		err = check.Err
	}
	if errors.As(err, new(*headgate.StoreError)) {
		return "the store could not decide: " + StoreErrorReason(err)
	}
	line, _, _ := strings.Cut(withoutPrefix(err), "\n") // further lines are for terminals
	return line
}

// StoreErrorReason returns the reason of a store error as text. If the cause is an open
// circuit breaker, it returns the reason of the failure that opened the breaker.
func StoreErrorReason(err error) string {
	reason := StoreFailure.String()
	for cause := (*headgate.StoreError)(nil); errors.As(err, &cause); err = cause.Err {
		reason = cause.Reason.String()
	}
	return reason
}

// maxSuggestions is the maximum number of policies with which an error suggests a name.
// It bounds the time that a client can use with an unknown name.
const maxSuggestions = 100

// unknownPolicy returns the error for a name that no policy has. It suggests the most
// similar name, which a client could use as well.
func (s *ActiveConfig) unknownPolicy(name string) error {
	shown := name
	if len(shown) > 64 {
		shown = shown[:64] + "…"
	}
	if len(s.policies) == 0 {
		return fmt.Errorf("%w %q: no policies are configured; send a limit such as 10/s instead", ErrUnknownPolicy, shown)
	}
	if len(s.policies) <= maxSuggestions {
		if meant := suggest.Nearest(name, slices.Sorted(maps.Keys(s.policies))); meant != "" {
			return fmt.Errorf("%w %q; did you mean %q?", ErrUnknownPolicy, shown, meant)
		}
	}
	return fmt.Errorf("%w %q", ErrUnknownPolicy, shown)
}

// inlineField returns the name of the field that caused err, an error in a check
// without a policy.
func inlineField(err error) string {
	if errors.Is(err, headgate.ErrInvalidLimit) {
		return "limit"
	}
	return "algorithm"
}

// reasonOf returns the reason of a store error, or ReasonNone for any other error.
func reasonOf(err error) headgate.StoreErrorReason {
	if cause := (*headgate.StoreError)(nil); errors.As(err, &cause) {
		return cause.Reason
	}
	return headgate.ReasonNone
}
