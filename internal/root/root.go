// Package root calls functions of the root package that are not part of its public API.
package root

import (
	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/hooks"
)

var (
	combine  = hooks.Combine.(func([]headgate.Decision) headgate.Decision)
	tightest = hooks.Tightest.(func([]headgate.Decision) int)
	rules    = hooks.Rules.(func(headgate.Policy) []headgate.Rule)
)

// Combine returns one decision for one or more decisions on the same request; see
// [headgate.AllowAll].
func Combine(ds []headgate.Decision) headgate.Decision { return combine(ds) }

// Tightest returns the index of the decision with the least Remaining, the first of
// equals, or 0 if there is none.
func Tightest(ds []headgate.Decision) int { return tightest(ds) }

// Rules returns the rules that a store binds for a policy, one for each limit. They use
// the same state as a [headgate.Limiter] of the policy. The policy must be valid.
func Rules(p headgate.Policy) []headgate.Rule { return rules(p) }
