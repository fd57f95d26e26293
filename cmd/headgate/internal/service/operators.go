package service

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"syscall"

	"github.com/headgate/headgate/cmd/headgate/internal/admin"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/dashboard"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// openOperators opens the admin listener and the metrics listener, unless they are off.
// If the default port of the admin listener is in use, that is only logged, because the
// user did not choose the port.
func openOperators(ctx context.Context, p *parts) (all []listener, err error) {
	c := p.config
	if c.Admin.Addr != config.Off {
		ln, err := Listen(ctx, "operators", string(c.Admin.Addr), "admin-addr")
		switch {
		case err == nil:
			all = append(all, listener{"admin", ln, admin.NewServer(newAdminHandler(p), p.log.With("listener", "admin"))})
		case c.Origins["admin.addr"] == "default" && errors.Is(err, syscall.EADDRINUSE):
			p.log.Warn("admin listener not started", "error", err)
		default:
			return all, err
		}
	}
	if c.Metrics.Addr != config.Off {
		ln, err := Listen(ctx, "metrics", string(c.Metrics.Addr), "metrics-addr")
		if err != nil {
			return all, err
		}
		all = append(all, listener{"metrics", ln, admin.NewServer(p.observers.Handler(), p.log.With("listener", "metrics"))})
	}
	return all, nil
}

// forOperators reports whether a listener is for operators. Such a listener stays open
// until the requests on all other listeners have completed.
func (l listener) forOperators() bool { return l.name == "admin" || l.name == "metrics" }

// dashboardPath is the path of the dashboard on the admin listener.
const dashboardPath = "/ui"

func newAdminHandler(p *parts) *admin.Handler {
	return admin.New(&admin.Options{
		Gate:    p.gates.admin,
		API:     newAdminAPI(p),
		Pages:   map[string]http.Handler{"GET " + dashboardPath + "/": http.StripPrefix(dashboardPath, dashboard.New())},
		Health:  p.health,
		Metrics: p.observers.Handler(),
		Config:  func(w io.Writer) error { return p.live.Config().Print(w) },
		Top:     func(n int) any { return p.observers.denials.Top(n) },
		Hash:    p.observers.denials.Hash,
		Lines: map[string]func() []string{
			"/rlconfig": p.envoy.handler.Dump,
			"/stats":    func() []string { return envoyStats(p.envoy.handler.Stats()) },
		},
	})
}

// envoyStats returns the counters of Envoy's rate limit service, with the names that
// envoyproxy/ratelimit uses in /stats.
func envoyStats(counted rlsapi.Stats) []string {
	values := envoyCounters(counted)
	lines := make([]string, 0, len(values))
	for _, name := range slices.Sorted(maps.Keys(values)) {
		lines = append(lines, fmt.Sprintf("%s: %d", strings.NewReplacer("\n", "_", "\r", "_").Replace(name), values[name]))
	}
	return lines
}

// envoyCounters returns the counters of Envoy's rate limit service under the names that
// envoyproxy/ratelimit uses.
func envoyCounters(counted rlsapi.Stats) map[string]uint64 {
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
	return values
}

func addStats(to map[string]uint64, prefix string, c rlsapi.Counts) {
	for name, n := range map[string]uint64{
		"total_hits": c.TotalHits, "over_limit": c.OverLimit, "near_limit": c.NearLimit, "within_limit": c.WithinLimit, "shadow_mode": c.ShadowMode,
		"total_negative_hits": c.TotalNegativeHits, "over_limit_with_local_cache": c.OverLimitWithLocalCache,
	} {
		to[prefix+name] = n
	}
}
