package engine

import (
	"errors"
	"fmt"
	"strings"

	"github.com/headgate/headgate"
)

// The errors that are the engine's own. All others are those of package headgate and of the store.
var (
	// ErrUnknownPolicy: a check names a policy that this engine does not have.
	ErrUnknownPolicy = errors.New("unknown policy")
	// ErrInvalidRequest: more than the limits on input accept, or nothing at all.
	ErrInvalidRequest = errors.New("invalid request")
)

// CheckError says which check and which of its fields cannot be decided as it stands. It never holds a key.
type CheckError struct {
	Index int    // the check's place in the request, from 0; -1 for the request itself
	Field string // policy, limit, algorithm, key, cost; or checks
	Err   error
}

// Error names the place and the cause.
func (e *CheckError) Error() string {
	if e.Index < 0 {
		return fmt.Sprintf("engine: %s: %v", e.Field, e.Err)
	}
	return fmt.Sprintf("engine: check %d: %s: %v", e.Index+1, e.Field, e.Err)
}

// Unwrap is the cause.
func (e *CheckError) Unwrap() error { return e.Err }

// PolicyError says which policy cannot work over this store, and what of it. The text never holds the key of an override. [New] and
// [Engine.Use] join one for each place, so that all can be told at once.
type PolicyError struct {
	Policy     string // its name
	Field      string // limits, algorithm, on_store_error; or empty for the policy itself
	Overridden bool   // the limits are those of an override
	Key        string // of the override
	Limit      int    // the limit's place, from 0; of no meaning for other fields
	Err        error
}

// Error names the policy and the cause.
func (e *PolicyError) Error() string {
	override := ""
	if e.Overridden {
		override = "an override: "
	}
	return fmt.Sprintf("engine: policy %q: %s%v", e.Policy, override, e.Err)
}

// Unwrap is the cause.
func (e *PolicyError) Unwrap() error { return e.Err }

// policyField is the field of a policy that a store's refusal of a rule is about.
func policyField(err error) string {
	switch {
	case errors.Is(err, headgate.ErrInvalidLimit):
		return "limits"
	case errors.Is(err, headgate.ErrUnknownAlgorithm), errors.Is(err, headgate.ErrUnsupported):
		return "algorithm"
	}
	return ""
}

// Kind sorts errors by what a caller can do about them. Each door has its own word for each kind.
type ErrorKind uint8

// The kinds of error.
const (
	StoreFailure   ErrorKind = iota // nothing could be decided: the store's trouble, not the caller's
	InvalidRequest                  // the request must change
	UnknownPolicy                   // the request must name another policy, or the service must learn this one
)

// String is the kind in words.
func (k ErrorKind) String() string {
	return [...]string{"could not decide", "bad input", "unknown policy"}[k]
}

// kinds is the one table from causes to kinds; what it does not list is Undecided.
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

// KindOf sorts an error of [Engine.Decide].
func ErrorKindOf(err error) ErrorKind {
	for _, k := range kinds {
		if errors.Is(err, k.cause) {
			return k.kind
		}
	}
	return StoreFailure
}

// Reason is an error of [Engine.Decide] in one line for a client. Where the store is, and how it is asked, is not a client's to know: the
// log has that.
func Reason(err error) string {
	if check := (*CheckError)(nil); errors.As(err, &check) {
		err = check.Err
	}
	if errors.As(err, new(*headgate.StoreError)) {
		return "the store could not decide: " + StoreErrorReason(err)
	}
	line, _, _ := strings.Cut(strings.TrimPrefix(err.Error(), "headgate: "), "\n") // the rest is for terminals
	return line
}

// Trouble is the store's trouble in words: where it is not asked because it failed before, what it failed of.
func StoreErrorReason(err error) string {
	trouble := StoreFailure.String()
	for cause := (*headgate.StoreError)(nil); errors.As(err, &cause); err = cause.Err {
		trouble = cause.Reason.String()
	}
	return trouble
}

func (s *ActiveConfig) unknownPolicy(name string) error {
	if len(name) > 64 {
		name = name[:64] + "…"
	}
	if len(s.policies) == 0 {
		return fmt.Errorf("%w %q: this service has no policies; send a limit, such as 10/s, instead", ErrUnknownPolicy, name)
	}
	return fmt.Errorf("%w %q", ErrUnknownPolicy, name)
}

// inlineField is the field of a check without a policy that err is about.
func inlineField(err error) string {
	if errors.Is(err, headgate.ErrInvalidLimit) {
		return "limit"
	}
	return "algorithm"
}
