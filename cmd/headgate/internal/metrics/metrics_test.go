package metrics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/memstore"
)

var policies = &engine.Options{
	Policies: map[string]headgate.Policy{
		"login":  {Limits: []headgate.Limit{headgate.MustParseLimit("2/1h"), headgate.MustParseLimit("3/24h")}},
		"api":    {Limits: []headgate.Limit{headgate.MustParseLimit("1000000000/1s")}},
		"strict": {Limits: []headgate.Limit{headgate.MustParseLimit("1/24h")}},
		"seen":   {Limits: []headgate.Limit{headgate.MustParseLimit("1/1h")}},
	},
	PolicyOptions: map[string]engine.PolicyOptions{"seen": {Shadow: engine.All}},
}

func newEngine(t testing.TB) *engine.Engine {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(store, policies)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// decide decides checks, and fails the test for an error.
func decide(t testing.TB, e *engine.Engine, verb headgate.Verb, checks ...engine.Check) {
	t.Helper()
	var a engine.Answer
	if err := e.Decide(t.Context(), verb, checks, &a); err != nil {
		t.Fatal(err)
	}
}

func check(policy, key string) engine.Check { return engine.Check{Policy: policy, Key: key, Cost: 1} }

// scrape returns the scraped lines that begin with prefix.
func scrape(t testing.TB, m *metrics.Metrics, prefix string) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	var lines []string
	for line := range strings.Lines(w.Body.String()) {
		if strings.HasPrefix(line, prefix) {
			lines = append(lines, strings.TrimSpace(line))
		}
	}
	return lines
}

func requireMetrics(t testing.TB, m *metrics.Metrics, prefix string, want ...string) {
	t.Helper()
	var got []string
	for _, line := range scrape(t, m, prefix) {
		if !strings.HasSuffix(line, " 0") {
			got = append(got, line)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", prefix, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestOutcomesCountedPerAPI(t *testing.T) {
	t.Parallel()
	e, m := newEngine(t), metrics.New(nil)
	http, resp := m.WithObserver(e, "http"), m.WithObserver(e, "resp")
	for range 3 {
		decide(t, http, headgate.Take, check("login", "k"))
	}
	decide(t, resp, headgate.Take, check("api", "a"), check("login", "k"), check("seen", "s"))
	decide(t, resp, headgate.Take, check("seen", "s"))
	decide(t, resp, headgate.Take, check("seen", "s"))
	decide(t, resp, headgate.Take, engine.Check{Limit: "1/1h", Key: "k", Cost: 1})
	decide(t, resp, headgate.Peek, check("login", "k"))
	decide(t, resp, headgate.Reset, check("login", "k"))
	var a engine.Answer
	_ = http.Decide(t.Context(), headgate.Take, []engine.Check{check("none", "k")}, &a)
	_ = http.Decide(t.Context(), headgate.Peek, []engine.Check{{Limit: "x"}}, &a)
	requireMetrics(t, m, "headgate_decisions_total",
		`headgate_decisions_total{api="http",outcome="allowed",policy="login"} 2`,
		`headgate_decisions_total{api="http",outcome="denied",policy="login"} 1`,
		`headgate_decisions_total{api="resp",outcome="allowed",policy=""} 1`,
		`headgate_decisions_total{api="resp",outcome="allowed",policy="api"} 1`,
		`headgate_decisions_total{api="resp",outcome="allowed",policy="seen"} 2`,
		`headgate_decisions_total{api="resp",outcome="denied",policy="login"} 1`,
		`headgate_decisions_total{api="resp",outcome="shadow",policy="seen"} 1`,
	)
	requireMetrics(t, m, "headgate_operations_total",
		`headgate_operations_total{api="resp",verb="peek"} 1`, `headgate_operations_total{api="resp",verb="reset"} 1`)
	requireMetrics(t, m, "headgate_refused_total",
		`headgate_refused_total{api="http",reason="bad_input"} 1`, `headgate_refused_total{api="http",reason="unknown_policy"} 1`)
}

func TestStoreOutageCounted(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	m.ObserveStore(headgate.StoreEvent{Unavailable: true, Reason: headgate.ReasonTimedOut, Err: errors.New("x")})
	requireMetrics(t, m, "headgate_store_up")
	m.ObserveStore(headgate.StoreEvent{})
	requireMetrics(t, m, "headgate_store", `headgate_store_outages_total{reason="timed out"} 1`, `headgate_store_up 1`)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = ln.Close() // a port without a listener
	store, err := storeopen.Open("redis://"+ln.Addr().String(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	limits := []headgate.Limit{headgate.MustParseLimit("1/1h")}
	e, err := engine.New(store, &engine.Options{Policies: map[string]headgate.Policy{
		"open": {Limits: limits, OnStoreError: headgate.FailOpen}, "closed": {Limits: limits}, "seen": {Limits: limits},
		"open seen": {Limits: limits, OnStoreError: headgate.FailOpen},
	}, PolicyOptions: map[string]engine.PolicyOptions{"seen": {Shadow: engine.All}, "open seen": {Shadow: engine.All}}})
	if err != nil {
		t.Fatal(err)
	}
	e = m.WithObserver(e, "http")
	decide(t, e, headgate.Take, check("open", "k"), check("open seen", "k"))
	var a engine.Answer
	if err := e.Decide(t.Context(), headgate.Take, []engine.Check{check("closed", "k"), check("seen", "k")}, &a); err == nil {
		t.Fatal("an unavailable store decided")
	}
	requireMetrics(t, m, "headgate_decisions_total", `headgate_decisions_total{api="http",outcome="degraded",policy="open"} 1`,
		`headgate_decisions_total{api="http",outcome="degraded",policy="open seen"} 1`,
		`headgate_decisions_total{api="http",outcome="undecided",policy="closed"} 1`,
		`headgate_decisions_total{api="http",outcome="undecided",policy="seen"} 1`)
}

// Each node of the store has its own series, up to a maximum number.
func TestNodeOutageCounted(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	down := func(node string) headgate.StoreEvent {
		return headgate.StoreEvent{Node: node, Unavailable: true, Reason: headgate.ReasonTimedOut, Err: errors.New("x")}
	}
	m.ObserveStore(down("a:1"))
	m.ObserveStore(down("b:1"))
	m.ObserveStore(headgate.StoreEvent{Node: "a:1"})
	requireMetrics(t, m, "headgate_store_up")
	requireMetrics(t, m, "headgate_store_node", `headgate_store_node_unavailable{node="b:1"} 1`)
	if got := m.NodesUnavailable(); got != 1 {
		t.Errorf("got %d unavailable nodes want 1", got)
	}
	m.ObserveStore(headgate.StoreEvent{Node: "b:1"})
	requireMetrics(t, m, "headgate_store_up", `headgate_store_up 1`)
	for i := range 1000 {
		m.ObserveStore(down(fmt.Sprint("node:", i)))
	}
	if got := len(scrape(t, m, "headgate_store_node_unavailable")); got != 101 {
		t.Errorf("1002 nodes: got %d series want 101", got)
	}
}

func TestDecisionDurationSampling(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		networked   bool
		least, most float64
	}{{true, 4000, 4000}, {false, 150, 350}} { // 250 ± 15
		m := metrics.New(&metrics.Options{Networked: c.networked})
		e := m.WithObserver(newEngine(t), "http")
		for range 4000 {
			decide(t, e, headgate.Take, check("api", "k"))
		}
		var n float64
		line := strings.Join(scrape(t, m, "headgate_decision_duration_seconds_count"), "")
		if _, err := fmt.Sscanf(line, `headgate_decision_duration_seconds_count{api="http"} %g`, &n); err != nil || n < c.least || n > c.most {
			t.Errorf("networked %v: %s, want between %g and %g", c.networked, line, c.least, c.most)
		}
	}
}

// newUsedMetrics returns metrics of which every one has a value.
func newUsedMetrics(t *testing.T) *metrics.Metrics {
	t.Helper()
	m := metrics.New(&metrics.Options{
		Version: "v1", Store: "memory",
		Denials: metrics.NewDenials(&metrics.DenialOptions{Log: slog.New(slog.DiscardHandler), PerSecond: 1}),
	})
	e := m.WithObserver(newEngine(t), "http")
	for range 3 {
		decide(t, e, headgate.Take, check("strict", "k"))
	}
	m.ObserveStore(headgate.StoreEvent{Node: "a:1", Unavailable: true, Reason: headgate.ReasonRefused})
	m.ObserveClockSkew(-time.Second)
	m.ObserveClockSkew(time.Second)
	m.ObserveClockSkew(time.Second)
	m.Config(func() metrics.ConfigState {
		return metrics.ConfigState{Generation: 2, Since: time.UnixMilli(1500), Loads: 2, Refused: 1}
	})
	m.Log(func() uint64 { return 4 })
	m.Store(func() metrics.StoreState { return metrics.StoreState{Keys: 1, Bytes: 2, Overflowed: 3} })
	m.Envoy(func() metrics.EnvoyState {
		return metrics.EnvoyState{
			Rules:          map[string]metrics.EnvoyCounts{"d.a": {TotalHits: 1}, "d.b.c.x": {OverLimit: 2}, "d.b.c.y": {OverLimit: 3}, "others": {}},
			DomainNotFound: map[string]uint64{"x": 1},
			ConfigLoads:    1, ConfigErrors: 2, StoreErrors: 3, ServiceErrors: 4, GlobalShadow: 5,
			Quotas: metrics.EnvoyQuotas{Streams: 7, Buckets: 8, Assignments: map[string]uint64{"tokens": 9}},
			Times:  metrics.EnvoyTimes{Count: 6, Sum: 30 * time.Millisecond, UpTo: map[time.Duration]uint64{5 * time.Millisecond: 4, time.Second: 6}},
		}
	})
	m.Leases(func() metrics.LeaseState {
		return metrics.LeaseState{Keys: 1, Units: 2, Stranded: 3, Memory: 4, Calls: 5, Failed: 6, Waits: 7}
	})
	m.Overrides(func() metrics.OverridesState {
		return metrics.OverridesState{Entries: 1, Ignored: 2, Revision: 3, Checked: time.UnixMilli(4500), Polls: 5, Failed: 6, Restored: 7}
	})
	m.Bans(func() metrics.BanState {
		return metrics.BanState{Begun: map[string]uint64{"p": 1}, Counted: 2, Dropped: 3, Failed: 4}
	})
	m.Events(func() metrics.EventState {
		return metrics.EventState{Reported: map[string]uint64{"limit.near": 1}, Dropped: 2, Sent: 3, Failed: 4, Retries: 5}
	})
	m.Folder(func() metrics.FolderState {
		return metrics.FolderState{Bytes: 9, LastSync: time.Now(), Syncs: 8, Failures: 7, Failing: true}
	})
	m.XDS(func() metrics.XDSState { return metrics.XDSState{Connected: true, Failures: 7} })
	m.Exports("otlp_traces", "statsd")("statsd", errors.New("x"))
	m.Spans(func() (recorded, exported uint64) { return 9, 8 })
	m.Draining()
	return m
}

func TestStateMetrics(t *testing.T) {
	t.Parallel()
	m := newUsedMetrics(t)
	requireMetrics(t, m, "headgate_config", `headgate_config_generation 2`, `headgate_config_last_reload_success_timestamp_seconds 1.5`,
		`headgate_config_last_reload_successful 1`, `headgate_config_loads_total 2`, `headgate_config_refused_total 1`)
	requireMetrics(t, m, "headgate_draining", `headgate_draining 1`)
	requireMetrics(t, m, "headgate_envoy_quota", `headgate_envoy_quota_assignments_total{strategy="tokens"} 9`,
		`headgate_envoy_quota_buckets 8`, `headgate_envoy_quota_streams 7`)
	requireMetrics(t, m, "headgate_lease", `headgate_lease_decisions_total 4`, `headgate_lease_keys 1`, `headgate_lease_store_calls_failed_total 6`,
		`headgate_lease_store_calls_total 5`, `headgate_lease_stranded_units_total 3`, `headgate_lease_units 2`, `headgate_lease_waits_total 7`)
	requireMetrics(t, m, "headgate_overrides", `headgate_overrides 1`, `headgate_overrides_checked_timestamp_seconds 4.5`,
		`headgate_overrides_polls_failed_total 6`, `headgate_overrides_polls_total 5`, `headgate_overrides_restored_total 7`,
		`headgate_overrides_revision 3`, `headgate_overrides_without_effect 2`)
	requireMetrics(t, m, "headgate_ban", `headgate_ban_denials_total{result="counted"} 2`, `headgate_ban_denials_total{result="dropped"} 3`,
		`headgate_ban_denials_total{result="failed"} 4`, `headgate_bans_total{policy="p"} 1`)
	requireMetrics(t, m, "headgate_events", `headgate_events_dropped_total 2`, `headgate_events_total{type="limit.near"} 1`)
	requireMetrics(t, m, "headgate_webhook", `headgate_webhook_retries_total 5`, `headgate_webhooks_total{result="failed"} 4`,
		`headgate_webhooks_total{result="sent"} 3`)
	requireMetrics(t, m, "headgate_exports", `headgate_exports_failed_total{exporter="statsd"} 1`)
	requireMetrics(t, m, "headgate_spans", `headgate_spans_exported_total 8`, `headgate_spans_total 9`)
	requireMetrics(t, m, "headgate_store_file", `headgate_store_file_bytes 9`)
	requireMetrics(t, m, "headgate_store_sync_failures", `headgate_store_sync_failures_total 7`)
	requireMetrics(t, m, "headgate_store_syncs", `headgate_store_syncs_total 8`)
	requireMetrics(t, m, "headgate_log_lines", `headgate_log_lines_dropped_total 4`)
	requireMetrics(t, m, "headgate_store_bytes", `headgate_store_bytes 2`)
	requireMetrics(t, m, "headgate_store_clock", `headgate_store_clock_skew_total{direction="ahead"} 2`,
		`headgate_store_clock_skew_total{direction="behind"} 1`)
	requireMetrics(t, m, "headgate_store_keys", `headgate_store_keys 1`)
	requireMetrics(t, m, "headgate_store_node", `headgate_store_node_unavailable{node="a:1"} 1`)
	requireMetrics(t, m, "headgate_store_o", `headgate_store_outages_total{reason="refused"} 1`, `headgate_store_overflowed_total 3`)
}

func TestEnvoyMetricsKeepEnvoyproxyNames(t *testing.T) {
	t.Parallel()
	requireMetrics(t, newUsedMetrics(t), "ratelimit_",
		`ratelimit_service_config_load_error 2`,
		`ratelimit_service_config_load_success 1`,
		`ratelimit_service_global_shadow_mode 5`,
		`ratelimit_service_rate_limit_domain_not_found{domain="x"} 1`,
		`ratelimit_service_rate_limit_over_limit{domain="d",key1="b",key2="c"} 5`,
		`ratelimit_service_rate_limit_total_hits{domain="d",key1="a"} 1`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.005"} 4`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="1"} 6`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"} 6`,
		`ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"} 0.03`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 6`,
		`ratelimit_service_should_rate_limit_error{err_type="redis_error"} 3`,
		`ratelimit_service_should_rate_limit_error{err_type="service_error"} 4`,
		`ratelimit_service_total_requests{grpc_method="ShouldRateLimit"} 6`,
	)
}

func TestXDSMetrics(t *testing.T) {
	t.Parallel()
	requireMetrics(t, newUsedMetrics(t), "headgate_envoy_xds", `headgate_envoy_xds_connected 1`, `headgate_envoy_xds_failures_total 7`)
}

func TestEnvoyResponseTimeInMilliseconds(t *testing.T) {
	t.Parallel()
	m := metrics.New(nil)
	m.Envoy(func() metrics.EnvoyState {
		times := metrics.EnvoyTimes{Count: 2, Sum: 7 * time.Millisecond, UpTo: map[time.Duration]uint64{25 * time.Microsecond: 1}}
		return metrics.EnvoyState{Times: times, Milliseconds: true}
	})
	requireMetrics(t, m, "ratelimit_service_response",
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="0.025"} 1`,
		`ratelimit_service_response_time_seconds_bucket{grpc_method="ShouldRateLimit",le="+Inf"} 2`,
		`ratelimit_service_response_time_seconds_sum{grpc_method="ShouldRateLimit"} 7`,
		`ratelimit_service_response_time_seconds_count{grpc_method="ShouldRateLimit"} 2`,
	)
}

func TestMetricNamesPassLint(t *testing.T) {
	t.Parallel()
	problems, err := testutil.GatherAndLint(newUsedMetrics(t).Gatherer())
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "ratelimit_") { // those names are envoyproxy/ratelimit's
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
}

// The table in docs/reference/metrics.md lists name, type, labels and help of every
// metric.
func TestMetricsDocumented(t *testing.T) {
	t.Parallel()
	families, err := newUsedMetrics(t).Gatherer().Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want []string
	for _, f := range families {
		if name := f.GetName(); strings.HasPrefix(name, "headgate_") || strings.HasPrefix(name, "ratelimit_") {
			want = append(want, row(f))
		}
	}
	doc, err := os.ReadFile("../../../../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	got := regexp.MustCompile("(?m)^\\| `(headgate|ratelimit)_[a-z_0-9]+` \\| (counter|gauge|histogram) .*$").FindAllString(string(doc), -1)
	if !slices.Equal(got, want) {
		t.Errorf("docs/reference/metrics.md has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// row returns the row of a metric in that table.
func row(f *dto.MetricFamily) string {
	var labels []string
	for _, one := range f.GetMetric() {
		for _, l := range one.GetLabel() {
			if !slices.Contains(labels, "`"+l.GetName()+"`") {
				labels = append(labels, "`"+l.GetName()+"`")
			}
		}
	}
	slices.Sort(labels)
	return fmt.Sprintf("| `%s` | %s | %s | %s |", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(labels, " "), f.GetHelp())
}

func TestConcurrentScrapesBounded(t *testing.T) {
	t.Parallel()
	m, proceed, begun := metrics.New(nil), make(chan struct{}), make(chan struct{}, 20)
	m.Log(func() uint64 { begun <- struct{}{}; <-proceed; return 0 })
	h := m.Handler()
	status := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		return w.Code
	}
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			if code := status(); code != http.StatusOK {
				t.Errorf("one of ten scrapes: %d, want 200", code)
			}
		})
	}
	for range 10 {
		<-begun
	}
	if code := status(); code != http.StatusServiceUnavailable {
		t.Errorf("the eleventh scrape: %d, want 503", code)
	}
	close(proceed)
	all.Wait()
}

// Counting continues during scrapes; nothing is lost or counted twice.
func TestConcurrentCounting(t *testing.T) {
	t.Parallel()
	d := metrics.NewDenials(nil)
	m := metrics.New(&metrics.Options{Denials: d})
	e := m.WithObserver(newEngine(t), "http")
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for range 500 {
				decide(t, e, headgate.Take, check("api", fmt.Sprint(i)), check("seen", "s"))
				decide(t, e, headgate.Take, check("strict", "k"))
			}
		})
		all.Go(func() {
			for before := -1; before < 3000; {
				now := 0
				for _, line := range scrape(t, m, `headgate_decisions_total{api="http",outcome="allowed",policy="api"}`) {
					_, _ = fmt.Sscan(line[strings.LastIndex(line, " "):], &now)
				}
				if now < before {
					t.Errorf("a counter went from %d to %d", before, now)
				}
				before = now
			}
			d.Top(5)
		})
	}
	all.Wait()
	requireMetrics(t, m, "headgate_decisions_total",
		`headgate_decisions_total{api="http",outcome="allowed",policy="api"} 4000`,
		`headgate_decisions_total{api="http",outcome="allowed",policy="seen"} 1`,
		`headgate_decisions_total{api="http",outcome="allowed",policy="strict"} 1`,
		`headgate_decisions_total{api="http",outcome="denied",policy="strict"} 3999`,
		`headgate_decisions_total{api="http",outcome="shadow",policy="seen"} 3999`)
	if top := d.Top(5); len(top) != 2 || top[0].Denials != 3999 || top[1].Denials != 3999 {
		t.Errorf("top is %+v, want two keys with 3999 denials", top)
	}
}

func TestMetricsContainNoKey(t *testing.T) {
	t.Parallel()
	m := metrics.New(&metrics.Options{Denials: metrics.NewDenials(nil)})
	e := m.WithObserver(newEngine(t), "http")
	for range 3 {
		decide(t, e, headgate.Take, check("strict", "203.0.113.9"))
	}
	if all := strings.Join(scrape(t, m, ""), "\n"); strings.Contains(all, "203.0.113.9") || strings.Contains(all, "h:") {
		t.Error("a key is in the metrics")
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	m := metrics.New(&metrics.Options{Networked: true, Denials: metrics.NewDenials(nil)})
	bare := newEngine(t)
	counted := m.WithObserver(bare, "http")
	ctx, long := context.Background(), strings.Repeat("k", 200)
	for _, checks := range [][]engine.Check{
		{check("api", "k")}, {check("strict", long)}, {check("api", "k"), check("strict", "k")}, {check("seen", "k")},
	} {
		var a engine.Answer
		allocations := func(e *engine.Engine) float64 {
			return testing.AllocsPerRun(1000, func() {
				if err := e.Decide(ctx, headgate.Take, checks, &a); err != nil {
					t.Fatal(err)
				}
			})
		}
		if without, with := allocations(bare), allocations(counted); with > without {
			t.Errorf("%+v: %v allocations, want %v as without an observer", checks, with, without)
		}
	}
}

// newDenying returns a function that denies a key under the policy strict.
func newDenying(t testing.TB, opts *metrics.DenialOptions) (*metrics.Denials, *metrics.Metrics, func(key string)) {
	d := metrics.NewDenials(opts)
	m := metrics.New(&metrics.Options{Denials: d})
	bare := newEngine(t)
	e := m.WithObserver(bare, "http")
	return d, m, func(key string) {
		decide(t, bare, headgate.Take, check("strict", key))
		decide(t, e, headgate.Take, check("strict", key))
	}
}

func TestDenialLogRateLimited(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		opts := &metrics.DenialOptions{Log: slog.New(slog.NewJSONHandler(&out, nil)), PerSecond: 2, Secret: "s"}
		_, m, deny := newDenying(t, opts)
		for range 5 {
			deny("203.0.113.9")
		}
		time.Sleep(time.Second + time.Microsecond)
		deny("203.0.113.9")
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 3 || strings.Contains(out.String(), "203.0.113.9") {
			t.Fatalf("logged\n%s\nwant three lines and no key", out.String())
		}
		var last map[string]any
		if err := json.Unmarshal([]byte(lines[2]), &last); err != nil {
			t.Fatal(err)
		}
		want := map[string]any{
			"msg": "request denied", "api": "http", "policy": "strict", "limit": headgate.MustParseLimit("1/24h").String(),
			"retry_after_ms": 86_399_000.0, "suppressed": 3.0, // the wait is rounded up
		}
		for name, value := range want {
			if last[name] != value {
				t.Errorf("%s is %v, want %v", name, last[name], value)
			}
		}
		if key := last["key"].(string); !regexp.MustCompile(`^h:[0-9a-f]{16}$`).MatchString(key) {
			t.Errorf("the key is %q, want a hash", key)
		}
		requireMetrics(t, m, "headgate_denials_not_logged_total", `headgate_denials_not_logged_total{policy="strict"} 3`)
	})
}

func TestKeysShownIfConfigured(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d, _, deny := newDenying(t, &metrics.DenialOptions{Log: slog.New(slog.NewTextHandler(&out, nil)), PerSecond: 1, LogKeys: true, TopKeys: true})
	deny(strings.Repeat("k", 300))
	if want := "key=" + strings.Repeat("k", 256) + "…"; !strings.Contains(out.String(), want) {
		t.Errorf("logged %s, want %s", out.String(), want)
	}
	if top := d.Top(1); len(top) != 1 || top[0].Key != strings.Repeat("k", 256)+"…" {
		t.Errorf("top is %v", top)
	}
}

func TestShadowDenialsLogged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := metrics.NewDenials(&metrics.DenialOptions{Log: slog.New(slog.NewTextHandler(&out, nil)), PerSecond: 10, LogKeys: true, TopKeys: true})
	e := metrics.New(&metrics.Options{Denials: d}).WithObserver(newEngine(t), "http")
	for range 3 {
		decide(t, e, headgate.Take, check("api", "a"), check("seen", "s"))
	}
	decide(t, e, headgate.Take, check("strict", "k"))
	decide(t, e, headgate.Take, check("strict", "k"))
	want := []metrics.TopKey{{Policy: "seen", Key: "s", Denials: 2, Shadow: true}, {Policy: "strict", Key: "k", Denials: 1}}
	if top := d.Top(9); !slices.Equal(top, want) {
		t.Errorf("top is %+v, want %+v", top, want)
	}
	if strings.Count(out.String(), `msg="request would be denied (shadow mode)" api=http policy=seen limit=1/h key=s`) != 2 ||
		strings.Count(out.String(), `msg="request denied" api=http policy=strict`) != 1 {
		t.Errorf("logged\n%s\nwant two denials in shadow mode, and one denial", out.String())
	}
}

// A denial of a limit without a policy is logged with the name of its rule.
func TestDenialLogNamesRule(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := metrics.NewDenials(&metrics.DenialOptions{Log: slog.New(slog.NewTextHandler(&out, nil)), PerSecond: 10, LogKeys: true})
	m := metrics.New(&metrics.Options{Denials: d})
	e := m.WithObserver(newEngine(t), "grpc")
	rule := func(name, limit string) engine.Check {
		return engine.Check{Inline: &engine.InlineLimit{Scope: name, Limit: headgate.MustParseLimit(limit)}, Rule: name, Key: "k", Cost: 1}
	}
	checks := []engine.Check{check("seen", "s"), check("login", "l"), rule("edge.path", "9/1h"), rule("edge.user_free", "1/1h")}
	decide(t, e, headgate.Take, checks...)
	decide(t, e, headgate.Take, checks...)
	if want := `msg="request denied" api=grpc rule=edge.user_free limit=1/h key=k`; !strings.Contains(out.String(), want) ||
		strings.Contains(out.String(), "rule=edge.path") {
		t.Errorf("logged\n%s\nwant %s", out.String(), want)
	}
	out.Reset()
	if err := e.Apply(&engine.Options{Enforcement: engine.Shadow}); err != nil {
		t.Fatal(err)
	}
	decide(t, e, headgate.Take, checks[2:]...)
	if want := `(shadow mode)" api=grpc rule=edge.user_free`; !strings.Contains(out.String(), want) {
		t.Errorf("logged\n%s\nwant %s", out.String(), want)
	}
}

func TestHashSeparatesPolicyAndKey(t *testing.T) {
	t.Parallel()
	d := metrics.NewDenials(nil)
	for _, other := range [][2]string{{"a\x00b", "c"}, {"", "a\x00b\x00c"}, {"a", "b\x00"}, {"a", "b\x00d"}} {
		if d.Hash("a", "b\x00c") == d.Hash(other[0], other[1]) {
			t.Errorf("%q has the hash of another policy and key", other)
		}
	}
}

func TestHashDependsOnSecret(t *testing.T) {
	t.Parallel()
	hash := func(secret string) string {
		d, _, deny := newDenying(t, &metrics.DenialOptions{Secret: secret})
		deny("k")
		return d.Top(1)[0].Key
	}
	again, unknown := hash("a"), hash("")
	if hash("a") != again || hash("a") == hash("b") || unknown == hash("") || unknown == again {
		t.Error("keys are not hashed with the secret, or without one not with a random secret")
	}
}

func TestTopDeniedInFlood(t *testing.T) {
	t.Parallel()
	d, _, deny := newDenying(t, &metrics.DenialOptions{TopKeys: true})
	for i := range 20_000 {
		deny(fmt.Sprint("client ", i))
		if i%20 == 0 {
			deny(fmt.Sprint("crawler ", i/20%5)) // each 200 times
		}
	}
	top := d.Top(5)
	for _, k := range top {
		if !strings.HasPrefix(k.Key, "crawler ") || k.Denials < 200 || k.Denials-k.Error > 200 {
			t.Fatalf("top is %+v, want the five crawlers, each with bounds that include 200", top)
		}
	}
	if len(top) != 5 || len(d.Top(1<<20)) > 2048 {
		t.Errorf("%d keys of 5, %d of all; want 5 and at most 2048", len(top), len(d.Top(1<<20)))
	}
}

func TestDenialsDecay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, _, deny := newDenying(t, nil)
		for range 40 {
			deny("k")
		}
		time.Sleep(20 * time.Minute)
		if top := d.Top(1); len(top) != 1 || top[0].Denials < 10 || top[0].Denials > 20 {
			t.Errorf("after two half-lives it is %+v, want 10 to 20", top)
		}
		time.Sleep(1000 * time.Minute)
		if top := d.Top(1); len(top) != 0 {
			t.Errorf("after a hundred more it is %+v, want nothing", top)
		}
	})
}

// BenchmarkDecide measures what an observer adds to an allowed and to a denied decision.
func BenchmarkDecide(b *testing.B) {
	for _, policy := range []string{"api", "strict"} {
		for _, observed := range []string{"bare", "observed", "over a network"} {
			b.Run(policy+"/"+observed, func(b *testing.B) {
				e := newEngine(b)
				if observed != "bare" {
					m := metrics.New(&metrics.Options{Networked: observed != "observed", Denials: metrics.NewDenials(nil)})
					e = m.WithObserver(e, "http")
				}
				checks, a := []engine.Check{check(policy, "203.0.113.9")}, engine.Answer{}
				for b.Loop() {
					if err := e.Decide(b.Context(), headgate.Take, checks, &a); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// The log of a denial by an inline limit has the text of the limit, and no policy.
func TestInlineDenialIsLoggedWithItsLimit(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	m := metrics.New(&metrics.Options{Denials: metrics.NewDenials(&metrics.DenialOptions{Log: slog.New(slog.NewTextHandler(&out, nil)), PerSecond: 10})})
	e := m.WithObserver(newEngine(t), "http")
	for range 2 {
		decide(t, e, headgate.Take, engine.Check{Limit: "1/15m", Key: "k", Cost: 1})
	}
	if want := `msg="request denied" api=http limit=1/15m key=h:`; !strings.Contains(out.String(), want) {
		t.Errorf("got %s, want %s", out.String(), want)
	}
}
