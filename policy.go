package headgate

import (
	"fmt"
	"strconv"
)

// Policy is one or more limits under one algorithm, and a name. With several limits a request is admitted by all or spends
// nothing.
//
// The name says whose state it is: two limiters over one store share a key's state when their policies have the same name and
// algorithm, and a policy whose limits change keeps what was spent when its name, its algorithm and the order of its limits
// stay. A policy without a name is known by its limits instead, so a changed limit starts afresh.
type Policy struct {
	// Name is what state, logs and metrics know the policy by; at most 256 bytes.
	Name string
	// Limits holds 1 to 32 limits, all or none.
	Limits []Limit
	// Algorithm is the arithmetic; the zero value means [TokenBucket].
	Algorithm Algorithm
	// OnStoreError is what holds while the store cannot decide; the zero value means [FailClosed]. Others need a store that can
	// do it: one in this process, or one from package fallback.
	OnStoreError OnStoreError
}

// Bounds on a policy.
const (
	MaxLimits     = 32  // limits in one policy, and checks in one request
	maxNameLength = 256 // bytes in a policy's name
)

// MustPolicy is an unnamed token bucket policy from the text of its limits, for limits written in the program: it panics where
// [ParseLimit] returns an error.
func MustPolicy(limits ...string) Policy {
	p := Policy{Limits: make([]Limit, len(limits))}
	for i, text := range limits {
		p.Limits[i] = MustParseLimit(text)
	}
	return p
}

// Validate reports what is wrong with the policy, or nil. Whether the algorithm is known is for a store to say.
func (p Policy) Validate() error {
	if n := len(p.Limits); n < 1 || n > MaxLimits {
		return fmt.Errorf("%w: it has %d limits; accepted are 1 to %d", ErrInvalidPolicy, n, MaxLimits)
	}
	if len(p.Name) > maxNameLength {
		return fmt.Errorf("%w: its name has %d bytes; accepted are at most %d", ErrInvalidPolicy, len(p.Name), maxNameLength)
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

// rules returns the rules that a store binds for this policy, one for each limit. The policy
// must be valid.
func (p Policy) rules() []Rule {
	rules := make([]Rule, len(p.Limits))
	for i, l := range p.Limits {
		rules[i] = Rule{Scope: p.scope(i), Name: p.label(i), Limit: l, Algorithm: p.Algorithm, OnStoreError: p.OnStoreError}
	}
	return rules
}

// scope tells the states of one policy's limits, and of different policies, apart. The first byte keeps a name from passing
// for a limit's text.
func (p Policy) scope(i int) string {
	if p.Name == "" {
		return "limit:" + strconv.Itoa(i) + ":" + p.Limits[i].String()
	}
	return "policy:" + strconv.Itoa(i) + ":" + p.Name
}

// label is how a decision names the i-th limit when it denies.
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
