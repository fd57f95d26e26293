package overrides

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// Entry is one override in the store.
type Entry struct {
	// Policy is the name of the policy. A policy that is not configured is accepted: the
	// entry applies when the policy is added.
	Policy string `json:"policy"`
	// Target selects keys of the policy: key:TEXT, pattern:TEXT or network:PREFIX, as in
	// the configuration file, or [WholePolicy].
	Target string `json:"target"`
	// Limits are the texts of 1 to 32 limits that replace the policy's own limits. The
	// only limit can be “unlimited”, or “0/s” to block the keys.
	Limits []string `json:"limits"`
	// Until is the time at which the entry ends, in whole milliseconds. The zero time
	// means that it has no end.
	Until time.Time `json:"until,omitzero"`
	// Reason is why the entry was set, and Author is who set it. They are not used for
	// decisions.
	Reason string `json:"reason,omitempty"`
	Author string `json:"author,omitempty"`
	// Created is the time at which the entry was set. [Live.Set] sets it.
	Created time.Time `json:"created"`
}

// WholePolicy is the target of an entry that replaces the own limits of a policy, for all
// keys without an override.
const WholePolicy = engine.WholePolicy

// ID identifies an entry: there is at most one for each policy and target.
type ID struct {
	Policy string `json:"policy"`
	Target string `json:"target"`
}

// ID returns the id of the entry.
func (e *Entry) ID() ID { return ID{e.Policy, e.Target} }

// Change is who changes the overrides and why, for the log.
type Change struct {
	Author string
	Reason string
}

// Bounds of an entry.
const (
	// MaxEntries is the maximum number of entries in the store.
	MaxEntries = 20_000
	// MaxTextBytes is the maximum length of a reason and of an author, in bytes.
	MaxTextBytes   = 512
	maxPolicyBytes = 256  // maximum length of a policy's name
	maxTargetBytes = 1100 // maximum length of a target: a key and its prefix
)

// The errors of [Live.Set] and [Live.Remove].
var (
	// ErrInvalid means that an entry is not accepted. See [EntryError].
	ErrInvalid = errors.New("invalid override")
	// ErrTooMany means that there would be more than [MaxEntries] entries, or that they
	// would be larger than the store accepts. Nothing was changed.
	ErrTooMany = errors.New("too many overrides")
	// ErrUnsupported means that the store keeps no documents.
	ErrUnsupported = errors.New("the store does not support overrides")
)

// EntryError is the reason why an entry is not accepted. It matches [ErrInvalid], and its
// text contains no key.
type EntryError struct {
	Index int    // index of the entry in the call
	Field string // policy, target, limits, until, reason or author
	Err   error
}

// Error returns the number of the entry, the field and the cause.
func (e *EntryError) Error() string {
	return fmt.Sprintf("override %d: %s: %s", e.Index+1, e.Field, strings.TrimPrefix(e.Err.Error(), "headgate: "))
}

// Unwrap returns the cause.
func (e *EntryError) Unwrap() error { return e.Err }

// Is reports whether target is [ErrInvalid].
func (e *EntryError) Is(target error) bool { return target == ErrInvalid }

// validate returns the name of the first field that is not accepted, and why.
func (e *Entry) validate(now time.Time) (field string, err error) {
	if n := len(e.Policy); n < 1 || n > maxPolicyBytes {
		return "policy", fmt.Errorf("has %d bytes; must be 1 to %d", n, maxPolicyBytes)
	}
	if len(e.Target) > maxTargetBytes {
		return "target", fmt.Errorf("has %d bytes; must be at most %d", len(e.Target), maxTargetBytes)
	}
	if _, err := engine.ParseTarget(e.Target); err != nil {
		return "target", err
	}
	if len(e.Limits) == 0 {
		return "limits", errors.New("is empty; must be one or more limits, such as 10/m, or unlimited")
	}
	if _, err := parseLimits(e.Policy, e.Limits); err != nil {
		return "limits", err
	}
	if !e.Until.IsZero() && !e.Until.After(now) {
		return "until", fmt.Errorf("is %s, which has passed; must be in the future, or absent for no end", e.Until.UTC().Format(time.RFC3339))
	}
	if n := len(e.Reason); n > MaxTextBytes {
		return "reason", fmt.Errorf("has %d bytes; must be at most %d", n, MaxTextBytes)
	}
	if n := len(e.Author); n > MaxTextBytes {
		return "author", fmt.Errorf("has %d bytes; must be at most %d", n, MaxTextBytes)
	}
	return "", nil
}

// parseLimits parses the texts of limits of a policy, as they are written in the file.
func parseLimits(policy string, texts []string) ([]headgate.Limit, error) {
	limits := make([]headgate.Limit, len(texts))
	for i, text := range texts {
		var err error
		if limits[i], err = headgate.ParsePolicyLimit(text); err != nil {
			return nil, err
		}
	}
	return limits, headgate.Policy{Name: policy, Limits: limits}.Validate()
}

// ended reports whether the entry has ended at now.
func (e *Entry) ended(now time.Time) bool { return !e.Until.IsZero() && !now.Before(e.Until) }

// compareIDs orders entries by policy and target.
func compareIDs(a, b ID) int {
	if c := strings.Compare(a.Policy, b.Policy); c != 0 {
		return c
	}
	return strings.Compare(a.Target, b.Target)
}

// sortEntries sorts entries by their ids.
func sortEntries(all []Entry) {
	slices.SortStableFunc(all, func(a, b Entry) int { return compareIDs(a.ID(), b.ID()) })
}
