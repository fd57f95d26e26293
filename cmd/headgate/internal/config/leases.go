package config

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/lease"
)

// noLeases returns the error message for a lease of an algorithm without leases.
func noLeases(name headgate.Algorithm) string {
	if name.OnlyHolds() {
		return fmt.Sprintf("%s has no leases in the service, because any instance may end a hold; remove lease", name)
	}
	return fmt.Sprintf("%s has no leases; remove lease, or use another algorithm such as token_bucket", name)
}

// inMemory reports whether the store is in this process.
func (c *Config) inMemory() bool {
	return strings.HasPrefix(strings.ToLower(string(c.Store)), "memory")
}

// leaseError returns an error if limits with the algorithm cannot be leased from the
// configured store.
func (c *Config) leaseError(name headgate.Algorithm) error {
	store := strings.ToLower(string(c.Store))
	switch {
	case !name.CanLease():
		return errors.New(noLeases(name))
	case name == headgate.TokenBucketInterval && strings.Contains(store, "layout=guide"):
		return fmt.Errorf("%s has no leases in layout=guide; remove lease, or remove layout=guide from the store", name)
	}
	return nil
}

// CheckLease returns an error if a rule of Envoy's with the algorithm cannot be leased,
// and a warning if its lease has no effect.
func (c *Config) CheckLease(name headgate.Algorithm) (warning string, err error) {
	if err := c.leaseError(name); err != nil {
		return "", err
	}
	if c.Envoy.Charge == "each" {
		return "", errors.New("a rule cannot be leased with envoy.charge: each, because the store counts the hits above the limit; " +
			"remove lease, or set envoy.charge: all_or_none")
	}
	if c.inMemory() {
		return noEffect, nil
	}
	return "", nil
}

// noEffect is the warning about leases with a store in memory.
const noEffect = "lease has no effect with the store memory://, which decides in memory without leases"

// checkLeases returns an error for each policy that is leased although the store has no
// leases for it.
func (c *Config) checkLeases() (errs Errors) {
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		for _, l := range p.Limits {
			algorithm := p.Algorithm.For(l)
			err := c.leaseError(algorithm)
			if !p.Lease.On || err == nil || !algorithm.CanLease() { // checkLease has reported the algorithm
				continue
			}
			path := join(join("policies", plain(name)), "lease")
			at := c.parsed.at[path]
			errs = append(errs, &Error{Source: c.parsed.Source, Line: at.line, Column: at.column, Path: path, Message: err.Error()})
			break
		}
	}
	return errs
}

// warnOfLeases adds warnings about leases that have no effect.
func (c *Config) warnOfLeases() {
	var leased []string
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		p := c.Policies[name]
		if !p.Lease.On {
			continue
		}
		leased = append(leased, clip(name))
		if reason := p.whyNotLeased(); reason != "" && !c.inMemory() {
			c.Warnings = append(c.Warnings, "policies."+plain(name)+".lease has no effect, because "+reason+"; remove it")
		}
	}
	if len(leased) > 0 && c.inMemory() {
		c.Warnings = append(c.Warnings, noEffect+" (policies "+shorten(strings.Join(leased, ", "))+")")
	}
}

// whyNotLeased returns the reason why no limit of a policy is leased, or "" if one is.
func (p *Policy) whyNotLeased() (reason string) {
	for _, l := range p.allLimits() {
		if l.IsUnlimited() || l.IsBlocked() {
			continue
		}
		if reason = lease.EffectOf(headgate.Rule{Limit: l, Algorithm: p.Algorithm.For(l), Lease: p.Lease.settings()}).Reason; reason == "" {
			return ""
		}
	}
	return reason
}
