package service_test

import (
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate/internal/testserver"
)

// The dashboards, the alerts and the page about metrics use only metrics and labels that
// running services have: one with its state in memory, and one with Redis, which fails.
func TestNamesOfMetricsExist(t *testing.T) {
	t.Parallel()
	closed := testserver.FreeAddr(t)
	inMemory := startTraced(t, map[string]string{
		"otlp.endpoint": "http://" + closed, "statsd.addr": closed, "envoy.local_denials": "true", "store": "memory://" + t.TempDir(),
		"events.log": "true", "events.webhook": "http://" + closed, "events.webhook_secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
	})
	server := testserver.Redis(t)
	onRedis := startTraced(t, map[string]string{
		"store": "redis://" + server.Addr(), "envoy.xds.server": closed, "envoy.start_anyway": "true", "store_budget": "50ms",
	})
	inMemory.post("/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"anna"}]}]}`)
	inMemory.post("/json", `{"domain":"other","descriptors":[{"entries":[{"key":"user","value":"anna"}]}]}`)
	inMemory.post("/json", `{"domain":""}`)
	for _, s := range []*tracedService{inMemory, onRedis} {
		s.post("/v1/check", `{"policy":"login","key":"k"}`)
		s.post("/v1/peek", `{"policy":"login","key":"k"}`)
		s.post("/v1/check", `{"policy":"none","key":"k"}`)
	}
	for range 3 {
		inMemory.post("/v1/check", `{"policy":"bans","key":"k"}`)
	}
	awaitLog(t, inMemory.log, `msg="key banned"`)
	server.Kill()
	deadline := time.Now().Add(20 * time.Second)
	for !strings.Contains(onRedis.log.String(), `msg="store unavailable"`) {
		// The circuit breaker opens after the time of a budget.
		onRedis.post("/v1/check", `{"policy":"login","key":"k"}`)
		if time.Now().After(deadline) {
			t.Fatalf("the circuit breaker has not opened:\n%s", onRedis.log)
		}
	}
	series := string(inMemory.scrape()) + string(onRedis.scrape())
	for _, file := range []string{"packaging/grafana/headgate.json", "packaging/grafana/headgate-envoy.json", "packaging/prometheus-rules.yml", "docs/reference/metrics.md"} {
		text, err := os.ReadFile("../../../../" + file)
		if err != nil {
			t.Fatal(err)
		}
		checkNames(t, file, string(text), series)
	}
}

// notScraped are names that these services do not have: metrics of a store with several
// servers and of the quota service, a group of names, and labels of rules on the second
// level.
var notScraped = regexp.MustCompile(`^(headgate_store_node_unavailable|headgate_envoy_quota_assignments_total|ratelimit_redis_pool_|key2|node|strategy|direction|err_type)$`)

// checkNames requires that every metric and label of a text is in the series.
func checkNames(t *testing.T, file, text, series string) {
	t.Helper()
	names := 0
	for _, m := range regexp.MustCompile(`\b(?:headgate|ratelimit|process)_[a-z0-9]+_[a-z0-9_]*[a-z0-9]\b`).FindAllString(text, -1) {
		names++
		if !notScraped.MatchString(m) && !regexp.MustCompile(`(?m)^`+m+`(_bucket|_count)?[{ ]`).MatchString(series) {
			t.Errorf("%s: no service has the metric %s", file, m)
		}
	}
	labels := regexp.MustCompile(`(?:by|on) \(([a-z0-9_, ]+)\)`).FindAllStringSubmatch(text, -1)
	for _, list := range labels {
		for name := range strings.SplitSeq(list[1], ", ") {
			if name != "job" && name != "instance" && !notScraped.MatchString(name) && !regexp.MustCompile(`[{,]`+name+`="`).MatchString(series) {
				t.Errorf("%s: no service has the label %s", file, name)
			}
		}
	}
	if names < 10 {
		t.Errorf("%s has %d names, want more", file, names)
	}
}
