package httplimit

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
)

// charge is a [Charge] made ready.
type charge struct {
	policy string // its name, for observers
	key    *part
	cost   func(*http.Request) int64
	when   func(*http.Request) bool
	settle func(Outcome) int64
	limits []limit
	scopes []string // whose state the limits are, but for the key
	leaky  bool
}

// limit is one limit of a charge.
type limit struct {
	bound  headgate.Bound
	fields httpfields.Limit
}

// bindAll makes charges ready, and refuses those that contradict each other.
func bindAll(store headgate.Store, charges []Charge) ([]charge, error) {
	if len(charges) == 0 {
		return nil, fmt.Errorf("%w: no charges; one at least, such as Charge{Policy: headgate.MustPolicy(\"100/1m\")}", ErrInvalidOptions)
	}
	bound, limits, unnamed := make([]charge, len(charges)), 0, 0
	for i := range charges {
		c, err := bindOne(store, &charges[i], &unnamed)
		if err != nil {
			return nil, fmt.Errorf("httplimit: charge %d: %w", i+1, err)
		}
		if limits += len(c.limits); limits > headgate.MaxLimits {
			return nil, fmt.Errorf("%w: more than %d limits in all charges together", ErrInvalidOptions, headgate.MaxLimits)
		}
		if j := slices.IndexFunc(bound[:i], c.mixes); j >= 0 {
			return nil, fmt.Errorf("%w: the policies of charges %d and %d are the same and their keys are not, so the keys of one could"+
				" spend the budgets of the other; give each policy a name of its own", ErrInvalidOptions, j+1, i+1)
		}
		bound[i] = c
	}
	return bound, nil
}

// mixes reports whether texts that mean different things would name the same state.
func (c *charge) mixes(other charge) bool {
	shared := slices.ContainsFunc(c.scopes, func(scope string) bool { return slices.Contains(other.scopes, scope) })
	return shared && !c.key.equal(other.key)
}

// bindOne makes one charge ready; unnamed counts the limits of policies without a name.
func bindOne(store headgate.Store, c *Charge, unnamed *int) (charge, error) {
	if err := c.Policy.Validate(); err != nil {
		return charge{}, err
	}
	ready := charge{
		policy: c.Policy.Name, key: c.Key.orAddress(), cost: c.Cost, when: c.When, settle: c.Settle,
		leaky: c.Policy.Algorithm == headgate.LeakyBucket,
	}
	if why := ready.key.wrong(); why != "" {
		return charge{}, fmt.Errorf("%w: key: %s", ErrInvalidOptions, why)
	}
	for _, rule := range c.Policy.Rules() {
		name := rule.Name
		if c.Policy.Name == "" {
			*unnamed++
			name = defaultName(*unnamed)
			rule.Scope += scopeOf(ready.key)
		}
		b, err := store.Bind(rule)
		if err != nil {
			return charge{}, err
		}
		told := httpfields.Limit{Name: name, Limit: rule.Limit, Algorithm: rule.Algorithm, AtOnce: b.Limit()}
		ready.limits, ready.scopes = append(ready.limits, limit{b, told}), append(ready.scopes, rule.Scope)
	}
	return ready, nil
}

// defaultName is what the n-th limit without a name is called, from 1.
func defaultName(n int) string {
	if n == 1 {
		return "default"
	}
	return "default-" + strconv.Itoa(n)
}

// scopeOf keeps the states of unnamed policies apart whose keys are not of one sort: or a header field's value that looks like an
// address would spend that address' budget. A limiter elsewhere whose keys are addresses shares the state of one here.
func scopeOf(key *part) string {
	if key.equal(address) {
		return ""
	}
	return " by " + key.shape()
}
