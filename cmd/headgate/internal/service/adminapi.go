package service

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/cmd/headgate/internal/audit"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// maxListedOverrides is the maximum number of overrides of a policy in the admin API.
const maxListedOverrides = 100

// instanceName returns the name of this process in the audit.
func instanceName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	return fmt.Sprintf("%.200s-%d", host, os.Getpid())
}

// newAdminAPI creates the content of the JSON API of the admin listener.
func newAdminAPI(p *parts) *admin.API {
	instance, started := instanceName(), time.Now()
	return &admin.API{
		Engine: p.engine, Overrides: p.overrides, Audit: audit.New(p.store, instance, p.log),
		Status:   func(ctx context.Context) *admin.Status { return p.status(ctx, instance, started) },
		Policies: p.policies, Config: p.effectiveConfig, History: p.configHistory,
		Hash: p.observers.denials.Hash, ShowKeys: p.config.Admin.Keys,
		Admitted: p.observers.Admitted, Denied: p.observers.denials.Denied, Denials: p.observers.denials.Recent,
		Timeline: p.observers.timeline,
	}
}

// checkTimeout is the timeout of the check of the store in a status.
const checkTimeout = time.Second

// status returns the state of the instance and of its store.
func (p *parts) status(ctx context.Context, instance string, started time.Time) *admin.Status {
	now, live := time.Now(), p.live.Status()
	s := &admin.Status{
		Version: p.version, Instance: instance, StartedAt: started.UTC(), Now: now.UTC(),
		Enforcement: string(cmp.Or(p.engine.ActiveConfig().Enforcement(), engine.On)),
		Config:      admin.ConfigState{Generation: live.Generation, Since: live.Since.UTC(), File: live.Path, Restart: live.Restart},
		Store:       admin.StoreState{Name: storeopen.Name(string(p.config.Store)), Shared: headgate.Shared(p.store), Nodes: []admin.Node{}},
		Outages:     []admin.Outage{},
	}
	if live.Err != nil {
		s.Config.Error = shorten(live.Err.Error())
	}
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	err := p.engine.Health(ctx)
	s.Store.Available, s.Store.CheckMS = err == nil, float64(time.Since(now).Microseconds())/1e3
	if err != nil {
		s.Store.Reason = engine.StoreErrorReason(err)
	}
	for _, n := range p.observers.outages.Unavailable() {
		s.Store.Nodes = append(s.Store.Nodes, admin.Node{Node: n.Node, Reason: n.Reason, Since: n.Since.UTC()})
	}
	for _, e := range p.observers.outages.Events() {
		s.Outages = append(s.Outages, admin.Outage{Time: e.Time.UTC(), Node: e.Node, Available: e.Available, Reason: e.Reason})
	}
	p.addStoreStats(s)
	return s
}

// addStoreStats adds the counts of a store in memory or with leases.
func (p *parts) addStoreStats(s *admin.Status) {
	switch store := p.store.(type) {
	case *memstore.Store:
		stats := store.Stats()
		s.Memory = &admin.MemoryState{Keys: stats.Keys, Bytes: stats.Bytes, Overflowed: stats.Overflowed}
	case *lease.Store:
		stats := store.Stats()
		s.Leases = &admin.LeaseState{
			Keys: stats.Keys, Units: stats.UnspentUnits, Stranded: stats.Stranded, Decisions: stats.Decisions,
			StoreCalls: stats.Calls, Failed: stats.Failed, Waits: stats.Waited,
		}
	}
}

// policies returns the policies in effect.
func (p *parts) policies() *admin.Policies {
	c, active := p.live.Config(), p.engine.ActiveConfig()
	out := &admin.Policies{Generation: p.live.Status().Generation, Policies: []admin.Policy{}}
	for _, name := range slices.Sorted(maps.Keys(c.Policies)) {
		from := c.Policies[name]
		out.Policies = append(out.Policies, policyView(c, active, name, &from))
	}
	return out
}

func policyView(c *config.Config, active *engine.ActiveConfig, name string, from *config.Policy) admin.Policy {
	one := admin.Policy{
		Name: name, Limits: []admin.PolicyLimit{}, Key: from.Key.String(), OnStoreError: string(from.OnStoreError), Mode: "on",
		Enforce: from.Enforce.String(), Overrides: []admin.NamedOverride{}, OverridesTotal: len(from.Overrides), Routes: []int{},
	}
	switch {
	case from.Shadow || from.Enforce == 0 || c.Enforcement == engine.Shadow:
		one.Mode = "shadow"
	case from.Enforce != engine.All:
		one.Mode = "partial"
	}
	if from.Lease.On {
		one.Lease = &admin.PolicyLease{Share: from.Lease.Share.String(), TTL: from.Lease.TTL.Milliseconds()}
	}
	rules, replaced := active.PolicyRules(name)
	one.Replaced = replaced
	for _, r := range rules {
		one.Limits = append(one.Limits, admin.PolicyLimit{Limit: r.Text(), Algorithm: string(r.Algorithm), Capacity: r.Capacity()})
	}
	for _, target := range slices.Sorted(maps.Keys(from.Overrides)) {
		if len(one.Overrides) == maxListedOverrides {
			break
		}
		override := admin.NamedOverride{Target: target}
		for _, l := range from.Overrides[target] {
			override.Limits = append(override.Limits, l.String())
		}
		one.Overrides = append(one.Overrides, override)
	}
	for i := range c.Routes {
		if slices.Contains(c.Routes[i].Policies, name) {
			one.Routes = append(one.Routes, i)
		}
	}
	return one
}

// effectiveConfig returns the configuration in effect, without secrets.
func (p *parts) effectiveConfig() (*admin.Config, error) {
	c, status := p.live.Config(), p.live.Status()
	var text bytes.Buffer
	if err := c.Print(&text); err != nil {
		return nil, err
	}
	out := &admin.Config{Generation: status.Generation, Since: status.Since.UTC(), File: status.Path, Text: text.String(), Settings: []admin.Setting{}}
	for _, s := range config.Settings() {
		out.Settings = append(out.Settings, admin.Setting{Path: s.Path, Value: s.Text(&c.File), Origin: c.Origins[s.Path]})
	}
	return out, nil
}

// configHistory returns the last configurations that took effect.
func (p *parts) configHistory() *admin.History {
	out := &admin.History{Configurations: []admin.Applied{}}
	for _, a := range p.history.All() {
		one := admin.Applied{Generation: a.Generation, Since: a.Since.UTC(), Diff: []admin.DiffLine{}}
		for _, line := range a.Diff {
			one.Diff = append(one.Diff, admin.DiffLine{Op: string(line.Op), Line: line.Line})
		}
		out.Configurations = append(out.Configurations, one)
	}
	return out
}
