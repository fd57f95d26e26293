package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"syscall"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/memstore"
)

// observe makes what hears of every request.
func (s *service) observe() {
	c := s.config
	s.denials = metrics.NewDenials(&metrics.DenialOptions{
		Log: s.log, PerSecond: c.Log.Denials, LogKeys: c.Log.Keys, TopKeys: c.Admin.Keys, Secret: string(c.Log.HashSecret),
	})
	s.metrics = metrics.New(&metrics.Options{
		Version: version(), Store: storeopen.Name(string(c.Store)), Networked: storeopen.Networked(string(c.Store)), Denials: s.denials,
	})
	s.metrics.Log(s.lines.Dropped)
	s.metrics.Config(s.configState)
	s.metrics.Envoy(s.envoyState)
}

// at is the engine as one door asks it.
func (s *service) at(door string) *engine.Engine { return s.metrics.Observed(s.engine, door) }

// measureStore has the metrics tell what a store in memory holds.
func (s *service) measureStore(store headgate.Store) {
	if memory, ok := store.(*memstore.Store); ok {
		s.metrics.Store(func() metrics.StoreState {
			held := memory.Stats()
			return metrics.StoreState{Keys: held.Keys, Bytes: held.Bytes, Overflowed: held.Overflowed}
		})
	}
}

func (s *service) configState() metrics.ConfigState {
	if s.live == nil {
		return metrics.ConfigState{}
	}
	now := s.live.Status()
	return metrics.ConfigState{Generation: now.Generation, Since: now.Since, Loads: now.Loads, Refused: now.Refused, Wrong: now.Err != nil}
}

func (s *service) envoyState() metrics.EnvoyState {
	counted := s.envoy.handler.Snapshot()
	state := metrics.EnvoyState{
		Rules: make(map[string]metrics.EnvoyCounts, len(counted.Rules)), DomainNotFound: counted.DomainNotFound,
		ConfigLoads: counted.ConfigLoads, ConfigErrors: counted.ConfigErrors, StoreErrors: counted.StoreErrors,
		ServiceErrors: counted.ServiceErrors, GlobalShadow: counted.GlobalShadow, Times: metrics.EnvoyTimes(counted.Times),
		Milliseconds: s.config.Envoy.ResponseMS,
	}
	for path, c := range counted.Rules {
		state.Rules[path] = metrics.EnvoyCounts(c)
	}
	return state
}

// openAdmin opens the doors for operators and for Prometheus, behind all others.
func (s *service) openAdmin(ctx context.Context) (all []door, err error) {
	c := s.config
	if c.Admin.Addr != config.Off {
		ln, err := listen(ctx, "operators", string(c.Admin.Addr), "admin-addr")
		switch {
		case err == nil:
			all = append(all, door{"admin", ln, admin.NewServer(s.adminHandler(), s.log)})
		case c.Origins["admin.addr"] == "default" && errors.Is(err, syscall.EADDRINUSE): // nobody asked for this door
			s.log.Warn("the door for operators is closed", "cause", err)
		default:
			return all, err
		}
	}
	if c.Metrics.Addr != config.Off {
		ln, err := listen(ctx, "metrics", string(c.Metrics.Addr), "metrics-addr")
		if err != nil {
			return all, err
		}
		all = append(all, door{"metrics", ln, admin.NewServer(s.metrics.Handler(), s.log)})
	}
	return all, nil
}

func (s *service) adminHandler() *admin.Handler {
	if s.health == nil {
		s.health = httpapi.NewHealth(s.engine, s.healthOptions())
	}
	return admin.New(&admin.Options{
		Token:   string(s.config.Admin.Token),
		Health:  s.health,
		Metrics: s.metrics.Handler(),
		Config:  func(w io.Writer) error { return s.live.Config().Print(w) },
		Top:     func(n int) any { return s.denials.Top(n) },
		Hash:    s.denials.Hash,
		Lines:   map[string]func() []string{"/rlconfig": s.envoy.handler.Dump, "/stats": s.envoyStats},
	})
}

// envoyStats are the counters of Envoy's door by envoyproxy/ratelimit's names, as its /stats has them.
func (s *service) envoyStats() []string {
	counted := s.envoy.handler.Snapshot()
	values := map[string]uint64{
		"ratelimit_server.ShouldRateLimit.total_requests":        counted.Times.Count,
		"ratelimit.service.config_load_success":                  counted.ConfigLoads,
		"ratelimit.service.config_load_error":                    counted.ConfigErrors,
		"ratelimit.service.global_shadow_mode":                   counted.GlobalShadow,
		"ratelimit.service.call.should_rate_limit.redis_error":   counted.StoreErrors,
		"ratelimit.service.call.should_rate_limit.service_error": counted.ServiceErrors,
	}
	for domain, n := range counted.DomainNotFound {
		values["ratelimit.service.rate_limit."+domain+".domain_not_found"] = n
	}
	for path, c := range counted.Rules {
		addStats(values, "ratelimit.service.rate_limit."+path+".", c)
	}
	lines := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s: %d", strings.NewReplacer("\n", "_", "\r", "_").Replace(name), values[name]))
	}
	return lines
}

func addStats(to map[string]uint64, prefix string, c rlsapi.Counts) {
	for name, n := range map[string]uint64{
		"total_hits": c.TotalHits, "over_limit": c.OverLimit, "near_limit": c.NearLimit, "within_limit": c.WithinLimit, "shadow_mode": c.ShadowMode,
		"total_negative_hits": c.TotalNegativeHits, "over_limit_with_local_cache": 0, // there is no such cache
	} {
		to[prefix+name] = n
	}
}

// forOperators reports whether a door stays open until all requests are answered.
func (d door) forOperators() bool { return d.name == "admin" || d.name == "metrics" }

// storeObservers hear of the store one after the other.
type storeObservers []headgate.StoreObserver

// ObserveStore tells all of them.
func (all storeObservers) ObserveStore(e headgate.StoreEvent) {
	for _, o := range all {
		o.ObserveStore(e)
	}
}

// servesTLS reports whether a door speaks TLS.
func servesTLS(ln net.Listener) bool { _, ok := ln.(*tlsListener); return ok }

func scheme(ln net.Listener) string {
	if servesTLS(ln) {
		return "https"
	}
	return "http"
}
