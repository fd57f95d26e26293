package grpclimit

import (
	"slices"

	"github.com/headgate/headgate"
)

// rules are what the store is asked to keep for the charge. On a server a policy without a name counts apart for each sort of key,
// or a metadata value that looks like an address would spend that address' budget; only that of addresses is known by its limits
// alone, so that other doors share it. A client's keys are its own program's.
func (c *Charge) rules(client bool) []headgate.Rule {
	rules := c.Policy.Rules()
	if client || c.Policy.Name != "" || c.Key.ready.Sort() == "" {
		return rules
	}
	for i := range rules {
		rules[i].Scope += " by " + c.Key.ready.Sort()
	}
	return rules
}

// mixes reports whether texts that mean different things would name the same state.
func (c *Charge) mixes(other *Charge, client bool) bool {
	theirs := other.rules(client)
	return !c.Key.ready.Equal(other.Key.ready) && slices.ContainsFunc(c.rules(client), func(ours headgate.Rule) bool {
		return slices.ContainsFunc(theirs, func(r headgate.Rule) bool { return r.Scope == ours.Scope })
	})
}
