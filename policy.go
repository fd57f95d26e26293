package headgate

import (
	"fmt"
	"strconv"
)

// Policy is a name, one or more limits and their algorithm. A request is allowed if all
// limits allow it; otherwise it spends nothing.
//
// The name identifies the state. Two limiters on one store share the state of a key if
// their policies have the same name and algorithm. A policy whose limits change keeps
// what was spent, as long as its name, its algorithm and the order of its limits stay
// the same. A policy without a name is identified by its limits, so a changed limit
// starts with unused keys.
type Policy struct {
	// Name identifies the policy in state, logs and metrics; at most 256 bytes.
	Name string
	// Limits are 1 to 32 limits. A request needs all of them.
	Limits []Limit
	// Algorithm is the arithmetic. The zero value means [TokenBucket].
	Algorithm Algorithm
	// OnStoreError is the failure mode: what decides while the store cannot. The zero
	// value means [FailClosed]. The other modes need a store in this process or one of
	// package fallback.
	OnStoreError OnStoreError
}

// Bounds of a policy.
const (
	MaxLimits     = 32  // most limits in one policy, and most checks in one request
	maxNameLength = 256 // bytes
)

// MustPolicy returns an unnamed token bucket policy with the limits in the texts. It is
// for limits in the source code: it panics if [ParseLimit] returns an error.
func MustPolicy(limits ...string) Policy {
	p := Policy{Limits: make([]Limit, len(limits))}
	for i, text := range limits {
		p.Limits[i] = MustParseLimit(text)
	}
	return p
}

// Validate returns the first error of the policy, or nil. It does not check the
// algorithm: the store does.
func (p Policy) Validate() error {
	if n := len(p.Limits); n < 1 || n > MaxLimits {
		return fmt.Errorf("%w: it has %d limits; must be 1 to %d", ErrInvalidPolicy, n, MaxLimits)
	}
	if len(p.Name) > maxNameLength {
		return fmt.Errorf("%w: its name has %d bytes; must be at most %d", ErrInvalidPolicy, len(p.Name), maxNameLength)
	}
	if err := p.OnStoreError.Validate(); err != nil {
		return err
	}
	for i, l := range p.Limits {
		if err := l.Validate(); err != nil {
			return fmt.Errorf("limit %d of policy %q: %w", i+1, p.Name, err)
		}
	}
	return nil
}

// rules returns the rules that a store binds for this policy, one for each limit. The
// policy must be valid.
func (p Policy) rules() []Rule {
	rules := make([]Rule, len(p.Limits))
	for i, l := range p.Limits {
		rules[i] = Rule{Scope: p.scope(i), Name: p.label(i), Limit: l, Algorithm: p.Algorithm, OnStoreError: p.OnStoreError}
	}
	return rules
}

// scope returns the scope of the i-th limit. It differs between the limits of a policy
// and between policies. The prefix keeps a name from being read as the text of a limit.
func (p Policy) scope(i int) string {
	if p.Name == "" {
		return "limit:" + strconv.Itoa(i) + ":" + p.Limits[i].String()
	}
	return "policy:" + strconv.Itoa(i) + ":" + p.Name
}

// label returns the name of the i-th limit in a denial.
func (p Policy) label(i int) string {
	switch {
	case p.Name == "":
		return p.Limits[i].String()
	case len(p.Limits) == 1:
		return p.Name
	default:
		return p.Name + ":" + p.Limits[i].String()
	}
}
