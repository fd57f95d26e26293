package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

// dryRun decides requests of logs under one configuration, with a store in memory.
type dryRun struct {
	path   string
	config *config.Config
	store  headgate.Store
	active *engine.ActiveConfig
	checks []engine.Check
	answer engine.Answer
}

// dryDecision is the decision on one request.
type dryDecision struct {
	denied, shadow, failed bool
	policies               []string // that denied it, or would have in shadow mode
}

// newDryRun loads the configuration file at path. If policy is not empty, the file must
// have this policy.
func newDryRun(path, policy string, memory int64) (*dryRun, error) {
	sources := config.Sources{Path: path, CheckStore: checkStoreURL, MaxOpenHolds: maxOpenHolds}
	c, err := sources.Load()
	if err != nil {
		return nil, reported(err)
	}
	x := explaining{policy: policy}
	if err := x.checkPolicy(c); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	d := &dryRun{path: path, config: c}
	if d.store, err = openReplayStore("memory://", memory); err != nil {
		return nil, err
	}
	opts := c.Engine()
	opts.OnStoreError = ""
	for name, p := range opts.Policies { // the store in memory is always available
		p.OnStoreError, p.Lease = "", headgate.LeaseSettings{}
		opts.Policies[name] = p
	}
	e, err := engine.New(d.store, opts)
	if err != nil {
		return nil, errors.Join(reported(c.Refused(err)), d.store.Close())
	}
	d.active = e.ActiveConfig()
	return d, nil
}

func (d *dryRun) close() error { return d.store.Close() }

// overflowed is how many decisions had to share the state of several keys, because the
// store was full.
func (d *dryRun) overflowed() uint64 { return d.store.(*memstore.Store).Stats().Overflowed }

// decide decides a request. An invalid request is a denial, as in the service.
func (d *dryRun) decide(ctx context.Context, diff *configDiff, q *replay.Request) (result dryDecision, err error) {
	if d.checks, err = diff.checks(d.checks[:0], d.active, q); err != nil {
		return dryDecision{failed: true}, nil
	}
	if len(d.checks) == 0 {
		return result, nil
	}
	err = d.active.DecideAt(ctx, headgate.Instant(q.At), headgate.Take, d.checks, &d.answer)
	if check := (*engine.CheckError)(nil); errors.As(err, &check) { // such as a limit that only holds take
		return dryDecision{failed: true}, nil
	}
	if err != nil {
		return result, err
	}
	a := &d.answer
	result.denied = !a.Allowed
	for i := range a.Decisions {
		if !a.Decisions[i].Allowed {
			result.policies = appendNew(result.policies, a.Rules[i].Policy)
		}
	}
	for i := range a.Shadows {
		if s := &a.Shadows[i]; s.DeniedBy != nil {
			result.shadow = true
			if !result.denied {
				result.policies = appendNew(result.policies, s.Policy)
			}
		}
	}
	return result, nil
}

func appendNew(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// missing returns warnings about what routes and keys need and logs do not contain.
func (d *dryRun) missing(host string) (warnings []string) {
	for _, name := range slices.Sorted(maps.Keys(d.config.Policies)) {
		key := d.config.Policies[name].Key.String()
		if strings.Contains(key, "header:") || host == "" && strings.Contains(key, "host") {
			warnings = append(warnings, fmt.Sprintf("the key of policy %q is %s, which logs do not contain; --policy %s --key user makes it from the log",
				name, key, name))
		}
	}
	unmatched := 0
	for i := range d.config.Routes {
		if m := &d.config.Routes[i].Match; len(m.Header) > 0 || host == "" && m.Host != (routing.Host{}) {
			unmatched++
		}
	}
	if unmatched > 0 {
		warnings = append(warnings, fmt.Sprintf("%s a host or header fields, which logs do not contain; --host sets the host",
			counted(unmatched, "route matches", "routes match")))
	}
	return warnings
}
