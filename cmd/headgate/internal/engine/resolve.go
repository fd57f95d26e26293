package engine

import (
	"fmt"

	"github.com/headgate/headgate"
)

// resolve adds the rules of all checks to a.
func (s *ActiveConfig) resolve(checks []Check, a *Answer) error {
	a.enforced.reset()
	a.shadowed.reset()
	return s.resolveFrom(0, checks, s.sent, a)
}

// resolveFrom adds the rules of all checks to a. The first of them has index i.
func (s *ActiveConfig) resolveFrom(i int, checks []Check, limits inputLimits, a *Answer) error {
	if n := len(checks); n < 1 || n > limits.checks && !checks[0].Composed {
		return &CheckError{Index: -1, Field: "checks", Err: fmt.Errorf("%w: the request has %d checks; must be 1 to %d",
			ErrInvalidRequest, n, limits.checks)}
	}
	for j := range checks {
		if field, err := s.resolveOne(i+j, &checks[j], limits.keyBytes, a); err != nil {
			return &CheckError{Index: i + j, Field: field, Err: err}
		}
	}
	return nil
}

// resolveOne adds the rules of check c, which has index i, to a. If it returns an
// error, field is the name of the invalid field.
func (s *ActiveConfig) resolveOne(i int, c *Check, maxKeyBytes int, a *Answer) (field string, err error) {
	if len(c.Key) > maxKeyBytes && !c.Composed {
		return "key", fmt.Errorf("%w: the key has %d bytes; must be at most %d", ErrInvalidRequest, len(c.Key), maxKeyBytes)
	}
	if c.Cost < 0 {
		return "cost", fmt.Errorf("%w: cost is %d; must be 0 or more (0 peeks)", headgate.ErrInvalidCost, c.Cost)
	}
	if c.Policy != "" {
		p, ok := s.policies[c.Policy]
		if !ok {
			return "policy", s.unknownPolicy(c.Policy)
		}
		to := s.chargesFor(i, p.name, p.enforces(c.Key), a)
		for _, r := range p.rulesFor(c.Key) {
			switch {
			case !r.isBan():
				to.add(i, r, c)
			case a.withBans:
				to.addBan(i, r, c)
			}
		}
		return "", nil
	}
	to := s.chargesFor(i, "", true, a)
	r, err := s.ruleOf(c, to, a)
	if err != nil {
		return inlineField(err), err
	}
	to.add(i, r, c)
	return "", nil
}

// chargesFor returns the charges to which the check with index i is to be added: either
// a.enforced or a.shadowed. If the check is in shadow mode, chargesFor also adds an
// element to a.Shadows.
func (s *ActiveConfig) chargesFor(i int, policy string, enforced bool, a *Answer) *charges {
	if s.enforcement == Off || enforced && s.enforcement != Shadow {
		return &a.enforced
	}
	a.Shadows = append(a.Shadows, ShadowResult{Check: i, Policy: policy})
	return &a.shadowed
}

// ruleOf returns the rule of a check without a policy. The parameter others holds the
// charges of the preceding checks in the request.
func (s *ActiveConfig) ruleOf(c *Check, others *charges, a *Answer) (*Rule, error) {
	if c.Inline != nil {
		return a.ruleOfValue(s, c.Inline)
	}
	first, err := s.ruleOfText(inlineKey{c.Limit, c.Algorithm, 0})
	if err != nil {
		return nil, err
	}
	if n := others.ordinalOf(first, c.Key); n > 0 {
		return s.ruleOfText(inlineKey{c.Limit, c.Algorithm, n})
	}
	return first, nil
}
