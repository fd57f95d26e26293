package config

import (
	"maps"
	"net"
	"slices"
	"strings"
)

// usesStatsd reports whether envoyproxy/ratelimit would send its statistics to statsd.
// There, USE_STATSD is true by default, and must be false for USE_PROMETHEUS.
func (r *ratelimitEnv) usesStatsd() bool {
	other := r.yes("USE_PROMETHEUS", false)
	return !r.yes("DISABLE_STATS", false) && (r.yes("USE_DOG_STATSD", false) || r.yes("USE_STATSD", !other))
}

// statsd sets the address of statsd, if envoyproxy/ratelimit would use it. There, it is
// TCP port 8125 of localhost by default, and UDP for DogStatsD.
func (r *ratelimitEnv) statsd() {
	if !r.usesStatsd() {
		return
	}
	const host, port = "STATSD_HOST", "STATSD_PORT"
	r.set("statsd.addr", host+", "+port, net.JoinHostPort(r.text(host, "localhost"), r.text(port, "8125")),
		"USE_STATSD", "USE_DOG_STATSD", host, port)
	if r.yes("USE_DOG_STATSD", false) {
		r.set("statsd.protocol", "USE_DOG_STATSD", "udp", "USE_DOG_STATSD")
		r.set("statsd.tag_format", "USE_DOG_STATSD", "dogstatsd", "USE_DOG_STATSD")
	} else {
		r.statsdProtocol()
	}
	r.set("statsd.interval", "STATS_FLUSH_INTERVAL", r.text("STATS_FLUSH_INTERVAL", "10s"), "STATS_FLUSH_INTERVAL")
	r.extraTags()
}

func (r *ratelimitEnv) statsdProtocol() {
	const name = "STATSD_PROTOCOL"
	protocol := strings.TrimRight(r.text(name, "tcp"), "46")
	if protocol != "udp" && protocol != "tcp" {
		r.fail(name, "%s is not supported; must be udp or tcp", clip(r.text(name, "")))
		return
	}
	r.set("statsd.protocol", name, protocol, name)
}

// extraTags sets the tags of all metrics, which are written as name:value,name:value.
func (r *ratelimitEnv) extraTags() {
	const name = "EXTRA_TAGS"
	text, ok := r.lookup(name)
	if !ok {
		return
	}
	var tags []string
	for tag := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(tag, ":")
		if !found {
			r.fail(name, "%s is not a tag; must be name:value, separated by commas", clip(tag))
			return
		}
		tags = append(tags, key+"="+value)
	}
	r.set("statsd.tags", name, strings.Join(tags, ","), name)
}

// tracing sets the export of traces, which is off by default in envoyproxy/ratelimit.
// Metrics are exported over OTLP only if that is requested: envoyproxy/ratelimit exports
// none.
func (r *ratelimitEnv) tracing() {
	const enabled = "TRACING_ENABLED"
	on := r.yes(enabled, false)
	r.set("otlp.traces", enabled, map[bool]string{true: "true", false: "false"}[on], enabled)
	if !r.any("OTEL_METRICS_EXPORTER") {
		r.values["otlp.metrics"] = envValue{ratelimitDefault, "false", false}
	}
	if !on {
		return
	}
	protocol := r.tracingProtocol()
	if !r.any("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") {
		endpoint := map[string]string{"grpc": "http://localhost:4317"}[protocol]
		if endpoint == "" {
			endpoint = "http://localhost:4318"
		}
		r.values["otlp.endpoint"] = envValue{ratelimitDefault, endpoint, false}
	}
	r.set("otlp.service_name", "TRACING_SERVICE_NAME", r.text("TRACING_SERVICE_NAME", "RateLimit"), "TRACING_SERVICE_NAME")
	r.ratio("otlp.sample", "TRACING_SAMPLING_RATE")
	r.tracingAttributes()
}

func (r *ratelimitEnv) tracingProtocol() string {
	const name = "TRACING_EXPORTER_PROTOCOL"
	protocol, ok := map[string]string{"http": "http/protobuf", "grpc": "grpc"}[r.text(name, "http")]
	if !ok {
		r.fail(name, "%s is not supported; must be http or grpc", clip(r.text(name, "")))
		return ""
	}
	r.set("otlp.protocol", name, protocol, name)
	return protocol
}

// tracingAttributes sets the namespace and the instance in the resource of spans.
func (r *ratelimitEnv) tracingAttributes() {
	names := map[string]string{"service.namespace": "TRACING_SERVICE_NAMESPACE", "service.instance.id": "TRACING_SERVICE_INSTANCE_ID"}
	var attributes, variables []string
	for _, attribute := range slices.Sorted(maps.Keys(names)) {
		if value, ok := r.lookup(names[attribute]); ok {
			attributes, variables = append(attributes, attribute+"="+value), append(variables, names[attribute])
		}
	}
	if len(variables) > 0 {
		r.set("otlp.resource_attributes", strings.Join(variables, ", "), strings.Join(attributes, ","), variables...)
	}
}

// telemetryWarnings returns a warning for each variable about statistics or traces that
// has no effect.
func (r *ratelimitEnv) telemetryWarnings() (all []string) {
	if name := "USE_DOG_STATSD_MOGRIFIERS"; r.any(name) {
		all = append(all, name+" has no effect: metrics have the names of statsd; rename them in the agent")
	}
	if !r.usesStatsd() {
		for _, name := range []string{"STATSD_HOST", "STATSD_PORT", "STATSD_PROTOCOL", "STATS_FLUSH_INTERVAL", "EXTRA_TAGS"} {
			if r.any(name) {
				all = append(all, name+" has no effect: USE_STATSD, USE_PROMETHEUS or DISABLE_STATS turns statsd off")
			}
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		if r.any(name) && !r.yes("TRACING_ENABLED", false) && !r.any("OTEL_METRICS_EXPORTER") {
			all = append(all, name+" has no effect: set TRACING_ENABLED for traces, or OTEL_METRICS_EXPORTER=otlp for metrics")
		}
	}
	return all
}
