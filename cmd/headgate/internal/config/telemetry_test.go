package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// The standard variables of OpenTelemetry set the settings of OTLP. A variable without an
// effect is reported.
func TestOpenTelemetryVariables(t *testing.T) {
	t.Parallel()
	const endpoint = "OTEL_EXPORTER_OTLP_ENDPOINT"
	for _, c := range []struct {
		env  map[string]string
		path string
		want string // value of the setting; after "warning: ", a part of a warning; after "error: ", of the error
	}{
		{map[string]string{endpoint: "http://c:4318"}, "otlp.endpoint", "http://c:4318"},
		{map[string]string{endpoint: "c:4317", "OTEL_EXPORTER_OTLP_INSECURE": "true"}, "otlp.endpoint", "http://c:4317"},
		{map[string]string{endpoint: "c:4317"}, "otlp.endpoint", "https://c:4317"},
		{map[string]string{endpoint: "ftp://c"}, "", "error: OTEL_EXPORTER_OTLP_ENDPOINT"},
		{map[string]string{endpoint: "http://c", "OTEL_SDK_DISABLED": "true"}, "otlp.endpoint", ""},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://c/x"}, "otlp.traces_endpoint", "http://c/x"},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://c/y"}, "otlp.metrics_endpoint", "http://c/y"},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp.protocol", "grpc"},
		{map[string]string{"OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"}, "", "error: OTEL_EXPORTER_OTLP_PROTOCOL"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b%20c, d=e"}, "otlp.headers", "a: ***,d: ***"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "a=b%2Cc"}, "", "error: contains a comma"},
		{map[string]string{"OTEL_EXPORTER_OTLP_HEADERS": "secret"}, "", "error: OTEL_EXPORTER_OTLP_HEADERS: an entry is not name=value"},
		{map[string]string{"OTEL_EXPORTER_OTLP_COMPRESSION": "gzip"}, "otlp.compression", "gzip"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "2500"}, "otlp.timeout", "2.5s"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TIMEOUT": "2s"}, "", "error: must be a number of milliseconds"},
		{map[string]string{"OTEL_METRIC_EXPORT_INTERVAL": "5000"}, "otlp.metrics_interval", "5s"},
		{map[string]string{"OTEL_EXPORTER_OTLP_CERTIFICATE": "/ca"}, "otlp.server_ca", "/ca"},
		{map[string]string{"OTEL_SERVICE_NAME": "limits"}, "otlp.service_name", "limits"},
		{map[string]string{"OTEL_RESOURCE_ATTRIBUTES": "zone=a,team=x%20y"}, "otlp.resource_attributes", "zone=a,team=x y"},
		{map[string]string{"OTEL_TRACES_EXPORTER": "none"}, "otlp.traces", "false"},
		{map[string]string{"OTEL_METRICS_EXPORTER": "otlp"}, "otlp.metrics", "true"},
		{map[string]string{"OTEL_METRICS_EXPORTER": "prometheus"}, "", "warning: OTEL_METRICS_EXPORTER"},
		{map[string]string{"OTEL_TRACES_SAMPLER": "always_off"}, "otlp.sampler", "always_off"},
		{map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0.25"}, "otlp.sample", "25%"},
		{map[string]string{"OTEL_TRACES_SAMPLER_ARG": "0.25"}, "otlp.sample", "100%"},
		{map[string]string{"OTEL_TRACES_SAMPLER_ARG": "0.25"}, "", "warning: OTEL_TRACES_SAMPLER_ARG has no effect"},
		{map[string]string{"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "2"}, "", "error: OTEL_TRACES_SAMPLER_ARG"},
		{map[string]string{"OTEL_TRACES_SAMPLER": "jaeger_remote"}, "", "error: OTEL_TRACES_SAMPLER"},
		{map[string]string{"OTEL_PROPAGATORS": "b3"}, "", "warning: OTEL_PROPAGATORS"},
		{map[string]string{"OTEL_EXPORTER_OTLP_TRACES_HEADERS": "a=b"}, "", "warning: OTEL_EXPORTER_OTLP_TRACES_HEADERS"},
		{map[string]string{"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "delta"}, "", "warning: cumulative"},
	} {
		from := config.Sources{Lookup: lookupOf(c.env)}
		loaded, err := from.Load()
		expectEffect(t, c.env, loaded, err, c.path, c.want)
	}
}

// expectEffect checks the value of a setting, a warning or an error.
func expectEffect(t *testing.T, env map[string]string, c *config.Config, err error, path, want string) {
	t.Helper()
	switch text, isError := strings.CutPrefix(want, "error: "); {
	case isError:
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v: got error %v, want one with %q", env, err, text)
		}
		return
	case err != nil:
		t.Errorf("%v: %v", env, err)
		return
	}
	if text, isWarning := strings.CutPrefix(want, "warning: "); isWarning {
		if !slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.Contains(w, text) }) {
			t.Errorf("%v: got warnings %q, want one with %q", env, c.Warnings, text)
		}
		return
	}
	if got := settingOf(c, path); got != want {
		t.Errorf("%v: %s is %q, want %q", env, path, got, want)
	}
}

// Variables of envoyproxy/ratelimit mean what they mean there: statsd is on by default,
// over TCP, and off with Prometheus; traces are off by default.
func TestRatelimitTelemetry(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  map[string]string
		path string
		want string // as in TestOpenTelemetryVariables
	}{
		{nil, "statsd.addr", "localhost:8125"},
		{nil, "statsd.protocol", "tcp"},
		{nil, "statsd.interval", "10s"},
		{nil, "otlp.endpoint", ""},
		{map[string]string{"USE_STATSD": "false"}, "statsd.addr", "off"},
		{map[string]string{"USE_PROMETHEUS": "true"}, "statsd.addr", "off"},
		{map[string]string{"USE_PROMETHEUS": "true", "USE_STATSD": "true", "STATSD_HOST": "s", "STATSD_PORT": "1"}, "statsd.addr", "s:1"},
		{map[string]string{"DISABLE_STATS": "true", "USE_STATSD": "true"}, "statsd.addr", "off"},
		{map[string]string{"DISABLE_STATS": "true", "STATSD_HOST": "s"}, "", "warning: STATSD_HOST has no effect"},
		{map[string]string{"USE_STATSD": "false", "EXTRA_TAGS": "a:b"}, "", "warning: EXTRA_TAGS has no effect"},
		{map[string]string{"STATSD_PROTOCOL": "udp"}, "statsd.protocol", "udp"},
		{map[string]string{"STATSD_PROTOCOL": "unix"}, "", "error: STATSD_PROTOCOL"},
		{map[string]string{"EXTRA_TAGS": "a:b,c:d:e"}, "statsd.tags", "a=b,c=d:e"},
		{map[string]string{"EXTRA_TAGS": "a"}, "", "error: EXTRA_TAGS"},
		{map[string]string{"USE_DOG_STATSD": "true"}, "statsd.protocol", "udp"},
		{map[string]string{"USE_DOG_STATSD": "true"}, "statsd.tag_format", "dogstatsd"},
		{map[string]string{"TRACING_ENABLED": "true"}, "otlp.endpoint", "http://localhost:4318"},
		{map[string]string{"TRACING_ENABLED": "true"}, "otlp.service_name", "RateLimit"},
		{map[string]string{"TRACING_ENABLED": "true"}, "otlp.metrics", "false"},
		{map[string]string{"TRACING_ENABLED": "true", "TRACING_EXPORTER_PROTOCOL": "grpc"}, "otlp.endpoint", "http://localhost:4317"},
		{map[string]string{"TRACING_ENABLED": "true", "TRACING_EXPORTER_PROTOCOL": "zipkin"}, "", "error: TRACING_EXPORTER_PROTOCOL"},
		{map[string]string{"TRACING_ENABLED": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "otlp.endpoint", "http://c"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "otlp.traces", "false"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c"}, "", "warning: OTEL_EXPORTER_OTLP_ENDPOINT has no effect"},
		{map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c", "OTEL_METRICS_EXPORTER": "otlp"}, "otlp.metrics", "true"},
	} {
		loaded, err := loadRatelimit(c.env)
		expectEffect(t, c.env, loaded, err, c.path, c.want)
	}
}

// The path of a signal is added to the common endpoint, but not over gRPC.
func TestOTLPEndpoints(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ flags, want string }{
		{"", " "},
		{"otlp.endpoint=http://c:1", "http://c:1/v1/traces http://c:1/v1/metrics"},
		{"otlp.endpoint=http://c:1/base/ otlp.metrics=false", "http://c:1/base/v1/traces "},
		{"otlp.endpoint=http://c:1 otlp.protocol=grpc otlp.traces=false", " http://c:1"},
		{"otlp.endpoint=http://c:1 otlp.traces_endpoint=https://d/t", "https://d/t http://c:1/v1/metrics"},
		{"otlp.metrics_endpoint=https://d/m", " https://d/m"},
	} {
		flags := make(map[string]string)
		for flag := range strings.FieldsSeq(c.flags) {
			name, value, _ := strings.Cut(flag, "=")
			flags[name] = value
		}
		from := config.Sources{Flags: maps.Clone(flags)}
		loaded, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		if got := loaded.OTLP.TracesURL() + " " + loaded.OTLP.MetricsURL(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.flags, got, c.want)
		}
	}
}

func TestOTLPFilesNeedTLS(t *testing.T) {
	t.Parallel()
	from := config.Sources{Flags: map[string]string{"otlp.endpoint": "http://c", "otlp.server_ca": "/ca"}}
	if _, err := from.Load(); err == nil || !strings.Contains(err.Error(), "plain text") {
		t.Errorf("got error %v, want one about plain text", err)
	}
}
