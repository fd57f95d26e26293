package headgate

import (
	"fmt"
	"strconv"
)

// Policy is a name, one or more limits and the algorithm of the limits. A request is
// allowed if all limits allow it. A request that is denied spends nothing.
//
// The name identifies the state. Two limiters on one store share the state of a key if
// their policies have the same name and algorithm. If the limits of a policy are
// changed, units spent before the change stay spent, as long as the name, the algorithm
// and the order of the limits stay the same. A policy without a name is identified by
// its limits, so after a change of a limit all keys are unused.
type Policy struct {
	// Name identifies the policy in state, logs and metrics; at most 256 bytes.
	Name string
	// Limits are 1 to 32 limits. A request must be allowed by all of them. [Unlimited]
	// and [Blocked] must be the only limit.
	Limits []Limit
	// Algorithm is the algorithm of all limits. The zero value selects one for each
	// limit: [CalendarWindow] for a limit with a calendar and no period, [Concurrency]
	// for a limit such as “16 concurrent”, and [TokenBucket] for all others.
	Algorithm Algorithm
	// OnStoreError is the failure mode, which decides requests while the store cannot.
	// The zero value means [FailClosed]. The other modes require a store in this
	// process or a store wrapped by package fallback.
	OnStoreError OnStoreError
	// Holds are the settings for holds; see [Limiter.Hold].
	Holds HoldSettings
	// Lease are the settings for leases. The zero value means that the policy is not
	// leased. Leases require a store wrapped by package lease, or a store in this
	// process, which does not need them.
	Lease LeaseSettings
}

// Maximum sizes of a policy.
const (
	MaxLimits     = 32  // maximum of limits in one policy, and of checks in one request
	maxNameLength = 256 // maximum length of a policy's name in bytes
)

// MustPolicy returns a policy without a name and with the default algorithm for each
// limit, with the limits in the texts. It panics if [ParsePolicyLimit] returns an
// error: use it for limits that are constants in the source code. See also
// [MustNamedPolicy].
func MustPolicy(limits ...string) Policy {
	p := Policy{Limits: make([]Limit, len(limits))}
	for i, text := range limits {
		l, err := ParsePolicyLimit(text)
		if err != nil {
			panic(err)
		}
		p.Limits[i] = l
	}
	return p
}

// MustNamedPolicy is like [MustPolicy], and the policy has a name:
// MustNamedPolicy("api", "100/1m", "5000/24h").
func MustNamedPolicy(name string, limits ...string) Policy {
	p := MustPolicy(limits...)
	p.Name = name
	return p
}

// Validate returns the first error in the policy, or nil. It does not check the
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
	if err := p.Holds.Validate(); err != nil {
		return err
	}
	if err := p.Lease.Validate(); err != nil {
		return err
	}
	for i := range p.Limits {
		if err := p.validateLimit(i); err != nil {
			return err
		}
	}
	return nil
}

// rules returns the rules that a limiter binds to its store, one for each limit. The
// policy must be valid.
func (p Policy) rules() []Rule {
	rules := make([]Rule, len(p.Limits))
	for i, l := range p.Limits {
		rules[i] = Rule{Scope: p.scope(i), Name: p.ruleName(i), Limit: l, Algorithm: p.Algorithm.For(l), OnStoreError: p.OnStoreError, Holds: p.Holds, Lease: p.Lease}
	}
	return rules
}

// scope returns the scope of the i-th limit, which identifies the limit's state. The
// scopes of different limits and different policies differ. The prefix “policy:” or
// “limit:” distinguishes a name from the text of a limit.
func (p Policy) scope(i int) string {
	if p.Name == "" {
		return "limit:" + strconv.Itoa(i) + ":" + p.Limits[i].String()
	}
	return "policy:" + strconv.Itoa(i) + ":" + p.Name
}

// nameOrLimits returns the name of the policy, or the text of its first limit.
func (p Policy) nameOrLimits() string {
	if p.Name == "" {
		return p.Limits[0].String()
	}
	return p.Name
}

// ruleName returns the name that [Decision.DeniedBy] contains if the i-th limit denies.
func (p Policy) ruleName(i int) string {
	switch {
	case p.Name == "":
		return p.Limits[i].String()
	case len(p.Limits) == 1:
		return p.Name
	default:
		return p.Name + ":" + p.Limits[i].String()
	}
}
