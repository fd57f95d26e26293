package service_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"github.com/redis/go-redis/v9"
	traces "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/headgate/headgate/cmd/headgate/internal/collector"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/internal/testserver"
)

const telemetryConfig = `
policies:
  login: {limits: [2/1h]}
  seen: {limits: [1/1h], shadow: true}
  bans: {limits: [1/1h], ban: {after: 2, within: 1m, for: 1m}}
routes:
  - match: {path: /**}
    policies: [login]
`

const telemetryRules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: hour, requests_per_unit: 1}
`

// tracedService is a running service that exports to a collector.
type tracedService struct {
	t      *testing.T
	log    *testserver.Log
	stop   func()
	traces int
}

// startTraced starts a service with all APIs and the flags.
func startTraced(t *testing.T, flags map[string]string) *tracedService {
	t.Helper()
	return startWith(t, telemetryRules, flags, nil)
}

// startWith starts a service with all APIs, Envoy rules, flags, and variables of
// envoyproxy/ratelimit if env is not nil.
func startWith(t *testing.T, rules string, flags, env map[string]string) *tracedService {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "headgate.yaml")
	for name, text := range map[string]string{"headgate.yaml": telemetryConfig, "rules/shop.yaml": rules} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o755), os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{
		"http.addr": "127.0.0.1:0", "resp.addr": "127.0.0.1:0", "grpc.addr": "127.0.0.1:0", "admin.addr": "off", "metrics.addr": "127.0.0.1:0",
		"envoy.config": filepath.Join(folder, "rules"), "trusted_proxies": "127.0.0.1", "store_budget": "10s",
	}
	for name, value := range flags {
		all[name] = value
	}
	lookup := func(name string) (string, bool) { value, ok := env[name]; return value, ok }
	sources := config.Sources{Path: file, Flags: all, Ratelimit: env != nil, Lookup: lookup}
	c, err := sources.Load()
	if err != nil {
		t.Fatal(err)
	}
	s := &tracedService{t: t, log: new(testserver.Log)}
	running, err := service.New(&service.Options{Config: c, Sources: sources, Version: "test", Log: s.log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- running.Run(ctx) }()
	stopped := false
	s.stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := errors.Join(<-ended, running.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(s.stop)
	return s
}

func (s *tracedService) addr(listener string) string {
	return awaitLog(s.t, s.log, `msg="listener started" listener=`+listener+` address=(\S+)`)
}

// traceparent returns the field for a new trace, and the trace's ID.
func (s *tracedService) traceparent() (field, id string) {
	s.traces++
	id = fmt.Sprintf("%032x", s.traces)
	return "00-" + id + "-00f067aa0ba902b7-01", id
}

// post sends a request within a trace and returns the ID of the trace.
func (s *tracedService) post(path, body string, fields ...string) (id string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, "http://"+s.addr("http")+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	parent, id := s.traceparent()
	req.Header.Set("Traceparent", parent)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Set(fields[i], fields[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	return id
}

// envoy sends a request of Envoy within a trace.
func (s *tracedService) envoy(user string) (id string) {
	s.t.Helper()
	conn, err := grpc.NewClient(s.addr("grpc"), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	parent, id := s.traceparent()
	_, err = pb.NewRateLimitServiceClient(conn).ShouldRateLimit(metadata.AppendToOutgoingContext(s.t.Context(), "traceparent", parent), &pb.RateLimitRequest{
		Domain: "shop", Descriptors: []*common.RateLimitDescriptor{{Entries: []*common.RateLimitDescriptor_Entry{{Key: "user", Value: user}}}},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return id
}

// commands sends pipelined commands, each within a trace of its own.
func (s *tracedService) commands(all ...[]any) (ids []string) {
	s.t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.addr("resp"), DisableIdentity: true})
	defer client.Close()
	_, err := client.Pipelined(s.t.Context(), func(p redis.Pipeliner) error {
		for _, command := range all {
			parent, id := s.traceparent()
			ids = append(ids, id)
			p.Do(s.t.Context(), "HG.TRACE", parent)
			p.Do(s.t.Context(), command...)
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return ids
}

// scrape returns the metrics of the service.
func (s *tracedService) scrape() []byte {
	s.t.Helper()
	resp, err := http.Get("http://" + s.addr("metrics") + "/metrics") //nolint:noctx // it answers immediately
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// describe returns a span as text: its name and attributes.
func describe(span *traces.Span) string {
	var all []string
	for name, value := range collector.Attributes(span.GetAttributes()) {
		all = append(all, name+"="+value)
	}
	slices.Sort(all)
	text := span.GetName() + " " + strings.Join(all, " ")
	return regexp.MustCompile(`retry_after_ms=\d+`).ReplaceAllString(text, "retry_after_ms=N")
}

// Every API has a span for each request, with the parent that the client has sent, and
// the calls of the store are its children. No span contains a key.
func TestSpans(t *testing.T) {
	t.Parallel()
	for _, protocol := range []string{"grpc", "http/protobuf"} {
		t.Run(protocol, func(t *testing.T) {
			t.Parallel()
			c := collector.Start(t, protocol)
			s := startTraced(t, map[string]string{
				"store": "redis://" + testserver.Redis(t).Addr(), "otlp.endpoint": c.URL(), "otlp.protocol": protocol, "otlp.compression": "gzip",
				"otlp.headers": "x-api-key: hunter2", "otlp.service_name": "limits", "otlp.resource_attributes": "zone=a", "otlp.sampler": "parentbased_always_off",
			})
			want := map[string]string{}
			expect := func(id, span string) { want[id] = span }
			const check = `{"policy":"login","key":"secret-key","cost":2}`
			login := "headgate.limit=2/h headgate.operation=take headgate.outcome="
			expect(s.post("/v1/check", check), "POST /v1/check headgate.api=http "+login+"allowed headgate.policy=login headgate.remaining=0 "+
				"http.request.method=POST http.response.status_code=200 http.route=/v1/check")
			expect(s.post("/v1/check", check), "POST /v1/check headgate.api=http "+login+"denied headgate.policy=login headgate.remaining=0 "+
				"headgate.retry_after_ms=N http.request.method=POST http.response.status_code=429 http.route=/v1/check")
			expect(s.post("/v1/check", `{"policy":"none","key":"secret-key"}`), "POST /v1/check error.type=unknown_policy headgate.api=http "+
				"headgate.operation=take headgate.outcome=refused http.request.method=POST http.response.status_code=404 http.route=/v1/check")
			expect(s.post("/v1/forward-auth", "", "X-Forwarded-Method", "GET", "X-Forwarded-Uri", "/", "X-Forwarded-For", "192.0.2.9"),
				"POST /v1/forward-auth headgate.api=forward_auth "+login+"allowed headgate.policy=login headgate.remaining=1 "+
					"http.request.method=POST http.response.status_code=200 http.route=/v1/forward-auth")
			rule := "headgate.limit=1/h headgate.operation=take headgate.outcome=%s headgate.remaining=0 %sheadgate.rule=shop.user "
			allowed, denied := fmt.Sprintf(rule, "allowed", ""), fmt.Sprintf(rule, "denied", "headgate.retry_after_ms=N ")
			const method = "envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit"
			rpc := "rpc.method=" + method + " rpc.response.status_code=OK rpc.system.name=grpc"
			expect(s.envoy("secret-key"), method+" headgate.api=grpc "+allowed+rpc)
			expect(s.envoy("secret-key"), method+" headgate.api=grpc "+denied+rpc)
			expect(s.post("/json", `{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"secret-key"}]}]}`),
				"POST /json headgate.api=grpc "+denied+"http.request.method=POST http.response.status_code=429 http.route=/json")
			ids := s.commands([]any{"HG.CHECK", "seen", "secret-key"}, []any{"HG.CHECK", "seen", "secret-key"}, []any{"CL.THROTTLE", "secret-key", 4, 5, 60})
			expect(ids[0], "HG.CHECK headgate.api=resp headgate.operation=take headgate.outcome=allowed")
			expect(ids[1], "HG.CHECK headgate.api=resp headgate.limit=1/h headgate.operation=take headgate.outcome=shadow headgate.policy=seen")
			expect(ids[2], "CL.THROTTLE headgate.api=resp headgate.limit=5/m burst 5 headgate.operation=take headgate.outcome=allowed headgate.remaining=4")
			s.stop()
			checkSpans(t, c, want)
			attributes, key := c.Resource("x-api-key")
			if attributes["service.name"] != "limits" || attributes["zone"] != "a" || attributes["service.version"] != "test" || key != "hunter2" {
				t.Errorf("got resource %v and key %q, want limits, zone a and version test, with the key hunter2", attributes, key)
			}
			if strings.Contains(s.log.String(), "hunter2") {
				t.Error("the log contains the value of a header field")
			}
		})
	}
}

// checkSpans compares the spans of the requests by trace, and requires a child for each
// call of the store.
func checkSpans(t *testing.T, c *collector.Collector, want map[string]string) {
	t.Helper()
	got, calls := map[string]string{}, 0
	spans := c.Spans()
	kinds := map[string]traces.Span_SpanKind{}
	for _, span := range spans {
		kinds[string(span.GetSpanId())] = span.GetKind()
	}
	for _, span := range spans {
		if bytes.Contains([]byte(span.String()), []byte("secret-key")) || strings.Contains(span.String(), "192.0.2.9") {
			t.Errorf("a span contains a key: %v", span)
		}
		if span.GetKind() == traces.Span_SPAN_KIND_SERVER {
			got[hex.EncodeToString(span.GetTraceId())] = describe(span)
			continue
		}
		calls++
		if kinds[string(span.GetParentSpanId())] != traces.Span_SPAN_KIND_SERVER || describe(span) != "store take db.operation.name=take db.system.name=redis headgate.store.keys=1" {
			t.Errorf("got %s, want a child of a request", describe(span))
		}
	}
	for id, text := range want {
		if got[id] != text {
			t.Errorf("trace %s: got\n%s\nwant\n%s", id, got[id], text)
		}
	}
	if len(got) != len(want) || calls != len(want)-1 { // the unknown policy needs no call
		t.Errorf("got %d requests with %d calls, want %d with %d", len(got), calls, len(want), len(want)-1)
	}
}

// The metrics over OTLP are those of Prometheus.
func TestMetricsOverOTLP(t *testing.T) {
	t.Parallel()
	c := collector.Start(t, "http/protobuf")
	s := startTraced(t, map[string]string{"otlp.endpoint": c.URL(), "otlp.traces": "false"})
	s.post("/v1/check", `{"policy":"login","key":"k"}`)
	text := s.scrape()
	s.stop()
	received, names := c.Metrics(), 0
	for _, m := range regexp.MustCompile(`(?m)^# TYPE (\S+) `).FindAllSubmatch(text, -1) {
		names++
		if received[string(m[1])] == nil {
			t.Errorf("%s was not exported", m[1])
		}
	}
	if names == 0 || len(received) != names {
		t.Errorf("got %d metrics over OTLP, want %d", len(received), names)
	}
	found := false
	for _, p := range received["headgate_decisions_total"].GetSum().GetDataPoints() {
		a := collector.Attributes(p.GetAttributes())
		found = found || a["api"] == "http" && a["policy"] == "login" && a["outcome"] == "allowed" && p.GetAsDouble() == 1
	}
	if !found {
		t.Errorf("got %v, want one allowed decision of login", received["headgate_decisions_total"])
	}
	if n := len(c.Spans()); n > 0 {
		t.Errorf("got %d spans, want none", n)
	}
}

// A collector that is unavailable delays no request, and its failures are counted and
// logged once.
func TestCollectorUnavailable(t *testing.T) {
	t.Parallel()
	s := startTraced(t, map[string]string{"otlp.endpoint": "http://" + testserver.FreeAddr(t), "otlp.metrics": "false", "otlp.timeout": "50ms"})
	s.post("/v1/check", `{"policy":"login","key":"k"}`)
	awaitLog(t, s.log, `msg="OTLP export failed; data is dropped until the collector recovers" signal=traces`)
	text := s.scrape()
	if !regexp.MustCompile(`headgate_exports_failed_total\{exporter="otlp_traces"\} [1-9]`).Match(text) ||
		!bytes.Contains(text, []byte("headgate_spans_total 1\n")) || !bytes.Contains(text, []byte("headgate_spans_exported_total 0\n")) {
		t.Error("the failure is not in the metrics")
	}
}

const statsdRules = `
domain: shop
descriptors:
  - key: user
    rate_limit: {unit: year, requests_per_unit: 5}
  - key: plan
    value: free
    shadow_mode: true
    rate_limit: {unit: year, requests_per_unit: 1}
    descriptors:
      - key: address
        detailed_metric: true
        rate_limit: {unit: year, requests_per_unit: 9}
`

// A real statsd server receives the counters and the timer of envoyproxy/ratelimit, each
// hit once, over both protocols. The variables are those of envoyproxy/ratelimit.
func TestStatsd(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("downloads packages from the npm registry")
	}
	server := testserver.Statsd(t)
	host, port, _ := strings.Cut(server.Addr(), ":")
	for _, protocol := range []string{"tcp", "udp"} {
		s := startWith(t, statsdRules, nil, map[string]string{
			"USE_STATSD": "true", "STATSD_HOST": host, "STATSD_PORT": port, "STATSD_PROTOCOL": protocol, "STATS_FLUSH_INTERVAL": "200ms",
			"EXTRA_TAGS": "protocol:" + protocol, "LOCAL_CACHE_SIZE_IN_BYTES": "1", "NEAR_LIMIT_RATIO": "0.6",
		})
		send := func(domain string, entries ...string) {
			var list []string
			for i := 0; i < len(entries); i += 2 {
				list = append(list, fmt.Sprintf(`{"key":%q,"value":%q}`, entries[i], entries[i+1]))
			}
			s.post("/json", fmt.Sprintf(`{"domain":%q,"descriptors":[{"entries":[%s]}]}`, domain, strings.Join(list, ",")))
		}
		for range 7 {
			send("shop", "user", "anna")
		}
		for range 3 {
			send("shop", "plan", "free")
		}
		send("shop", "plan", "free", "address", "192.0.2.9")
		send("other", "user", "anna")
		s.stop()
		checkStatsd(t, server, protocol)
	}
}

// checkStatsd waits for the counters of a service with a tag.
func checkStatsd(t *testing.T, server *testserver.StatsdServer, protocol string) {
	t.Helper()
	const rules = "ratelimit.service.rate_limit.shop."
	want := map[string]float64{
		rules + "user.total_hits": 7, rules + "user.within_limit": 5, rules + "user.near_limit": 2, rules + "user.over_limit": 2,
		rules + "user.over_limit_with_local_cache": 1,
		rules + "plan_free.total_hits":             3, rules + "plan_free.shadow_mode": 2, rules + "plan_free.over_limit": 2,
		rules + "plan_free.address_192_0_2_9.total_hits":      1,
		"ratelimit.service.rate_limit.other.domain_not_found": 1,
		"ratelimit.service.config_load_success":               1,
		"ratelimit_server.ShouldRateLimit.total_requests":     12,
	}
	tag := ".__protocol=" + protocol
	var wrong []string
	for late := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		counters, timers := server.Received()
		wrong = nil
		for name, n := range want {
			if counters[name+tag] != n {
				wrong = append(wrong, fmt.Sprintf("%s is %v, want %v", name, counters[name+tag], n))
			}
		}
		if n := len(timers["ratelimit_server.ShouldRateLimit.response_time"+tag]); n != 12 {
			wrong = append(wrong, fmt.Sprintf("%d response times, want 12", n))
		}
		if len(wrong) == 0 || time.Now().After(late) {
			break
		}
	}
	if len(wrong) > 0 {
		slices.Sort(wrong)
		t.Errorf("over %s:\n%s", protocol, strings.Join(wrong, "\n"))
	}
	if counters, _ := server.Received(); counters["statsd.bad_lines_seen"] > 0 {
		t.Errorf("the server has rejected %v lines", counters["statsd.bad_lines_seen"])
	}
}
