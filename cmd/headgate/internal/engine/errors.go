package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
)

// The errors that only the engine returns. All others are errors of package headgate or
// of the store.
var (
	// ErrUnknownPolicy: a check names a policy that is not configured.
	ErrUnknownPolicy = errors.New("unknown policy")
	// ErrInvalidRequest: the request has no checks, or exceeds a limit on input.
	ErrInvalidRequest = errors.New("invalid request")
)

// CheckError is an error in one check of a request, or in the request. It never contains
// a key.
type CheckError struct {
	Index int    // the check's index in the request, from 0; -1 for the request
	Field string // policy, limit, algorithm, key or cost; checks for the request
	Err   error
}

// Error returns the cause, after the check's number from 1.
func (e *CheckError) Error() string {
	if e.Index < 0 {
		return withoutPrefix(e.Err)
	}
	return fmt.Sprintf("check %d: %s", e.Index+1, withoutPrefix(e.Err))
}

// Unwrap returns the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// PolicyError is a policy that the store cannot enforce, and the reason. Its text never
// contains the key of an override. [New] and [Engine.Apply] join one error for each
// reason, so that all are reported together.
type PolicyError struct {
	Policy     string // its name
	Field      string // limits, algorithm or on_store_error; empty for the policy itself
	Overridden bool   // the limits are those of an override
	Key        string // of the override
	Limit      int    // the limit's index, from 0; undefined for other fields
	Err        error
}

// Error returns the policy's name and the cause.
func (e *PolicyError) Error() string {
	override := ""
	if e.Overridden {
		override = "override: "
	}
	return fmt.Sprintf("policy %q: %s%s", e.Policy, override, withoutPrefix(e.Err))
}

// Unwrap returns the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// withoutPrefix returns the text of an error without the prefix of package headgate.
func withoutPrefix(err error) string { return strings.TrimPrefix(err.Error(), "headgate: ") }

// policyField returns the field of a policy that an error of binding a rule is about.
func policyField(err error) string {
	switch {
	case errors.Is(err, headgate.ErrInvalidLimit):
		return "limits"
	case errors.Is(err, headgate.ErrUnknownAlgorithm), errors.Is(err, headgate.ErrUnsupported):
		return "algorithm"
	}
	return ""
}

// ErrorKind classifies errors by what a caller can do about them. Each API maps the kinds
// to its own statuses.
type ErrorKind uint8

// The kinds of error.
const (
	StoreFailure   ErrorKind = iota // the store could not decide; the request may be valid
	InvalidRequest                  // the request must change
	UnknownPolicy                   // the policy is not configured
)

// String returns the kind in words.
func (k ErrorKind) String() string {
	return [...]string{"could not decide", "invalid request", "unknown policy"}[k]
}

// kinds maps causes to kinds. Any other cause is a StoreFailure.
var kinds = [...]struct {
	cause error
	kind  ErrorKind
}{
	{ErrUnknownPolicy, UnknownPolicy},
	{ErrInvalidRequest, InvalidRequest},
	{headgate.ErrInvalidLimit, InvalidRequest},
	{headgate.ErrInvalidCost, InvalidRequest},
	{headgate.ErrUnknownAlgorithm, InvalidRequest},
	{headgate.ErrUnsupported, InvalidRequest},
}

// ErrorKindOf returns the kind of an error of [Engine.Decide].
func ErrorKindOf(err error) ErrorKind {
	for _, k := range kinds {
		if errors.Is(err, k.cause) {
			return k.kind
		}
	}
	return StoreFailure
}

// Reason returns an error of [Engine.Decide] as one line for a client. It does not
// contain the address of the store or details of its protocol; those are only logged.
func Reason(err error) string {
	if check := (*CheckError)(nil); errors.As(err, &check) {
		err = check.Err
	}
	if errors.As(err, new(*headgate.StoreError)) {
		return "the store could not decide: " + StoreErrorReason(err)
	}
	line, _, _ := strings.Cut(withoutPrefix(err), "\n") // later lines are for terminals
	return line
}

// StoreErrorReason returns the reason of a store error in words. If a circuit breaker is
// open, it is the reason of the failure that opened it.
func StoreErrorReason(err error) string {
	reason := StoreFailure.String()
	for cause := (*headgate.StoreError)(nil); errors.As(err, &cause); err = cause.Err {
		reason = cause.Reason.String()
	}
	return reason
}

func (s *ActiveConfig) unknownPolicy(name string) error {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	if len(s.policies) == 0 {
		return fmt.Errorf("%w %q: no policies are configured; send a limit such as 10/s instead", ErrUnknownPolicy, name)
	}
	return fmt.Errorf("%w %q", ErrUnknownPolicy, name)
}

// inlineField returns the field of a check without a policy that err is about.
func inlineField(err error) string {
	if errors.Is(err, headgate.ErrInvalidLimit) {
		return "limit"
	}
	return "algorithm"
}
