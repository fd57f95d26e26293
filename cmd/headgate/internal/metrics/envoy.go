package metrics

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// EnvoyCounts are the hits of one rule of envoyproxy/ratelimit's files.
type EnvoyCounts struct {
	TotalHits, OverLimit, NearLimit, WithinLimit, ShadowMode, TotalNegativeHits uint64
}

// EnvoyTimes are how long all requests took, over gRPC and at /json.
type EnvoyTimes struct {
	Count uint64
	Sum   time.Duration
	UpTo  map[time.Duration]uint64 // how many took at most so long
}

// EnvoyState is what the door for Envoy has counted.
type EnvoyState struct {
	Rules                      map[string]EnvoyCounts // by domain.key_value.key
	DomainNotFound             map[string]uint64      // by domain
	ConfigLoads, ConfigErrors  uint64
	Times                      EnvoyTimes
	Milliseconds               bool // in which times are shown, and not in seconds as their name says
	StoreErrors, ServiceErrors uint64
	GlobalShadow               uint64
}

// Envoy adds what the door for Envoy counts, by the names that envoyproxy/ratelimit's metrics have in Prometheus, so that dashboards and
// alerts go on. As there, only the first two levels of a rule are labels: rules below are counted together. State is asked at each
// scrape.
func (m *Metrics) Envoy(state func() EnvoyState) { m.add(envoyCollector(state)) }

type envoyCollector func() EnvoyState

// envoyHit is one metric of rules: of those on the first level, and of those below.
type envoyHit struct {
	flat, nested *prometheus.Desc
	of           func(EnvoyCounts) uint64
}

var envoyHits = []envoyHit{
	newEnvoyHit("total_hits", "Hits of requests that the rule was found for.", func(c EnvoyCounts) uint64 { return c.TotalHits }),
	newEnvoyHit("over_limit", "Hits beyond the limit.", func(c EnvoyCounts) uint64 { return c.OverLimit }),
	newEnvoyHit("near_limit", "Hits near the limit, and not beyond.", func(c EnvoyCounts) uint64 { return c.NearLimit }),
	newEnvoyHit("within_limit", "Hits of requests that were not over.", func(c EnvoyCounts) uint64 { return c.WithinLimit }),
	newEnvoyHit("shadow_mode", "Hits of requests that would have been over.", func(c EnvoyCounts) uint64 { return c.ShadowMode }),
	newEnvoyHit("total_negative_hits", "Hits that were given back.", func(c EnvoyCounts) uint64 { return c.TotalNegativeHits }),
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
		"Requests for domains that are not configured.", []string{"domain"}, nil)
	envoyError    = prometheus.NewDesc("ratelimit_service_should_rate_limit_error", "Requests that were answered with an error.", []string{"err_type"}, nil)
	envoyRequests = prometheus.NewDesc("ratelimit_service_total_requests", "Requests, over gRPC and at /json.", []string{"grpc_method"}, nil)
	envoyTimes    = prometheus.NewDesc("ratelimit_service_response_time_seconds",
		"Time of a request, over gRPC and at /json, without its transport. Of those below 0.1 ms one in 8 is measured.", []string{"grpc_method"}, nil)
	envoyLoaded  = prometheus.NewDesc("ratelimit_service_config_load_success", "Configurations that took effect.", nil, nil)
	envoyRefused = prometheus.NewDesc("ratelimit_service_config_load_error", "Configurations that were refused.", nil, nil)
	envoyShadow  = prometheus.NewDesc("ratelimit_service_global_shadow_mode",
		"Requests that were over, and told OK because all answers are.", nil, nil)
)

// Describe says nothing: one name has series of two levels and of one.
func (c envoyCollector) Describe(chan<- *prometheus.Desc) {}

func (c envoyCollector) Collect(to chan<- prometheus.Metric) {
	state := c()
	count := func(desc *prometheus.Desc, n uint64, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(n), labels...)
	}
	rules := folded(state.Rules)
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
}

// histogram is the metric of times.
func (t *EnvoyTimes) histogram(unit time.Duration) prometheus.Metric {
	buckets := make(map[float64]uint64, len(t.UpTo))
	for d, n := range t.UpTo {
		buckets[float64(d)/float64(unit)] = n
	}
	return prometheus.MustNewConstHistogram(envoyTimes, t.Count, float64(t.Sum)/float64(unit), buckets, "ShouldRateLimit")
}

// folded adds up rules that are of one domain and the same first two levels.
func folded(rules map[string]EnvoyCounts) map[string]EnvoyCounts {
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
		sums[path] = sum
	}
	return sums
}
