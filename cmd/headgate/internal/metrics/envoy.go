package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EnvoyCounts are the numbers of hits of one rule in an Envoy configuration.
type EnvoyCounts struct {
	TotalHits, OverLimit, NearLimit, WithinLimit, ShadowMode, TotalNegativeHits, OverLimitWithLocalCache uint64
}

// EnvoyTimes is a histogram of the durations of all requests, over gRPC and at /json.
type EnvoyTimes struct {
	Count uint64
	Sum   time.Duration
	UpTo  map[time.Duration]uint64 // number of requests that took at most the duration in the key
}

// EnvoyState is the set of counts of the Envoy rate limit service.
type EnvoyState struct {
	Rules                     map[string]EnvoyCounts // by the name of the rule, domain.key_value.key
	DomainNotFound            map[string]uint64      // number of requests, by domain
	ConfigLoads, ConfigErrors uint64
	Times                     EnvoyTimes
	// Whether durations are in milliseconds, although the metric's name ends with
	// seconds.
	Milliseconds               bool
	StoreErrors, ServiceErrors uint64
	GlobalShadow               uint64
	Quotas                     EnvoyQuotas
}

// EnvoyQuotas are the counts of the rate limit quota service.
type EnvoyQuotas struct {
	Streams, Buckets int64             // open streams, and their buckets
	Assignments      map[string]uint64 // assignments that were sent, by their kind
}

// Envoy adds the metrics of the Envoy rate limit service. They have the names that
// envoyproxy/ratelimit's metrics have in Prometheus, so that dashboards and alerts keep
// working. As in envoyproxy/ratelimit, only the first two levels of a rule are labels,
// and rules below the same two levels are counted together. The function state is
// called at each scrape.
func (m *Metrics) Envoy(state func() EnvoyState) { m.add(envoyCollector(state)) }

type envoyCollector func() EnvoyState

// envoyHit is one metric of rules. Its series for rules on the first level have the
// description flat, and its series for deeper rules the description nested.
type envoyHit struct {
	flat, nested *prometheus.Desc
	of           func(EnvoyCounts) uint64
}

var envoyHits = []envoyHit{
	newEnvoyHit("total_hits", "Hits of requests that matched the rule.", func(c EnvoyCounts) uint64 { return c.TotalHits }),
	newEnvoyHit("over_limit", "Hits above the limit.", func(c EnvoyCounts) uint64 { return c.OverLimit }),
	newEnvoyHit("near_limit", "Hits near the limit but not above it.", func(c EnvoyCounts) uint64 { return c.NearLimit }),
	newEnvoyHit("within_limit", "Hits of requests that were within the limit.", func(c EnvoyCounts) uint64 { return c.WithinLimit }),
	newEnvoyHit("shadow_mode", "Hits above the limit of a rule in shadow mode, which were allowed.", func(c EnvoyCounts) uint64 { return c.ShadowMode }),
	newEnvoyHit("over_limit_with_local_cache", "Hits above the limit that were not counted in the window, because of envoy.local_denials.",
		func(c EnvoyCounts) uint64 { return c.OverLimitWithLocalCache }),
	newEnvoyHit("total_negative_hits", "Hits that were refunded.", func(c EnvoyCounts) uint64 { return c.TotalNegativeHits }),
}

func newEnvoyHit(name, help string, of func(EnvoyCounts) uint64) envoyHit {
	name = "ratelimit_service_rate_limit_" + name
	return envoyHit{
		prometheus.NewDesc(name, help, []string{"domain", "key1"}, nil),
		prometheus.NewDesc(name, help, []string{"domain", "key1", "key2"}, nil),
		of,
	}
}

var (
	envoyDomain = prometheus.NewDesc("ratelimit_service_rate_limit_domain_not_found",
		"Descriptors of requests for domains that are not configured.", []string{"domain"}, nil)
	envoyError    = prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Requests that failed with an error.", []string{"err_type"}, nil)
	envoyRequests = prometheus.NewDesc("ratelimit_service_total_requests", "Requests, over gRPC and at /json.", []string{"grpc_method"}, nil)
	envoyTimes    = prometheus.NewDesc("ratelimit_service_response_time_seconds",
		"Duration of a request, over gRPC and at /json, without transport. One in 8 requests below 0.1 ms is measured.", []string{"grpc_method"}, nil)
	envoyLoaded  = prometheus.NewDesc("ratelimit_service_config_load_success", "Configurations that were loaded.", nil, nil)
	envoyRefused = prometheus.NewDesc("ratelimit_service_config_load_error", "Configurations that were rejected.", nil, nil)
	envoyShadow  = prometheus.NewDesc("ratelimit_service_global_shadow_mode",
		"Requests that were over the limit and answered OK because of global shadow mode.", nil, nil)
	envoyStreams     = prometheus.NewDesc("headgate_envoy_quota_streams", "Open streams of the rate limit quota service.", nil, nil)
	envoyBuckets     = prometheus.NewDesc("headgate_envoy_quota_buckets", "Buckets of all open streams of the rate limit quota service.", nil, nil)
	envoyAssignments = prometheus.NewDesc("headgate_envoy_quota_assignments_total", "Assignments that the rate limit quota service has sent.", []string{"strategy"}, nil)
)

// Describe sends no description, because Prometheus does not accept two descriptions
// with different labels under one name.
func (c envoyCollector) Describe(chan<- *prometheus.Desc) {}

func (c envoyCollector) Collect(to chan<- prometheus.Metric) {
	state := c()
	count := func(desc *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	rules := foldRules(state.Rules)
	for _, path := range slices.Sorted(maps.Keys(rules)) {
		labels := strings.Split(path, ".")
		for _, hits := range envoyHits {
			if len(labels) == 2 {
				count(hits.flat, hits.of(rules[path]), labels...)
			} else {
				count(hits.nested, hits.of(rules[path]), labels...)
			}
		}
	}
	for domain, n := range state.DomainNotFound {
		count(envoyDomain, n, strings.ToValidUTF8(domain, "_"))
	}
	count(envoyError, state.StoreErrors, "redis_error")
	count(envoyError, state.ServiceErrors, "service_error")
	count(envoyRequests, state.Times.Count, "ShouldRateLimit")
	unit := time.Second
	if state.Milliseconds {
		unit = time.Millisecond
	}
	to <- state.Times.histogram(unit)
	count(envoyLoaded, state.ConfigLoads)
	count(envoyRefused, state.ConfigErrors)
	count(envoyShadow, state.GlobalShadow)
	to <- prometheus.MustNewConstMetric(envoyStreams, prometheus.GaugeValue, float64(state.Quotas.Streams))
	to <- prometheus.MustNewConstMetric(envoyBuckets, prometheus.GaugeValue, float64(state.Quotas.Buckets))
	for strategy, n := range state.Quotas.Assignments {
		count(envoyAssignments, n, strategy)
	}
}

// histogram returns the durations as a Prometheus histogram in the given unit.
func (t *EnvoyTimes) histogram(unit time.Duration) prometheus.Metric {
	buckets := make(map[float64]uint64, len(t.UpTo))
	for d, n := range t.UpTo {
		buckets[float64(d)/float64(unit)] = n
	}
	return prometheus.MustNewConstHistogram(envoyTimes, t.Count, float64(t.Sum)/float64(unit), buckets, "ShouldRateLimit")
}

// foldRules adds up the counts of rules that have the same domain and the same first
// two levels.
func foldRules(rules map[string]EnvoyCounts) map[string]EnvoyCounts {
	sums := make(map[string]EnvoyCounts, len(rules))
	for path, c := range rules {
		parts := strings.SplitN(strings.ToValidUTF8(path, "_"), ".", 4)
		if len(parts) == 1 {
			parts = append(parts, "")
		}
		path = strings.Join(parts[:min(3, len(parts))], ".")
		sum := sums[path]
		sum.TotalHits += c.TotalHits
		sum.OverLimit += c.OverLimit
		sum.NearLimit += c.NearLimit
		sum.WithinLimit += c.WithinLimit
		sum.ShadowMode += c.ShadowMode
		sum.TotalNegativeHits += c.TotalNegativeHits
		sum.OverLimitWithLocalCache += c.OverLimitWithLocalCache
		sums[path] = sum
	}
	return sums
}
