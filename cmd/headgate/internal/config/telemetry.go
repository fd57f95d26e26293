package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// OTLP has the settings for the export of traces and metrics over OTLP, the protocol of
// OpenTelemetry.
type OTLP struct {
	Endpoint        URL            `yaml:"endpoint" restart:"yes"`
	TracesEndpoint  URL            `yaml:"traces_endpoint" restart:"yes"`
	MetricsEndpoint URL            `yaml:"metrics_endpoint" restart:"yes"`
	Protocol        string         `yaml:"protocol" default:"http/protobuf" oneof:"http/protobuf grpc" restart:"yes"`
	Headers         []Header       `yaml:"headers" count:"0 32" restart:"yes"`
	Compression     string         `yaml:"compression" default:"none" oneof:"none gzip" restart:"yes"`
	Timeout         time.Duration  `yaml:"timeout" default:"10s" range:"1ms 1m" restart:"yes"`
	TLS             TLS            `yaml:",inline" peer:"server"`
	ServiceName     string         `yaml:"service_name" default:"headgate" restart:"yes"`
	Attributes      []Label        `yaml:"resource_attributes" count:"0 64" restart:"yes"`
	Traces          bool           `yaml:"traces" default:"true" restart:"yes"`
	Sampler         string         `yaml:"sampler" default:"parentbased_traceidratio" oneof:"always_on always_off traceidratio parentbased_always_on parentbased_always_off parentbased_traceidratio" restart:"yes"`
	Sample          engine.Percent `yaml:"sample" default:"100%" restart:"yes"`
	Metrics         bool           `yaml:"metrics" default:"true" restart:"yes"`
	MetricsInterval time.Duration  `yaml:"metrics_interval" default:"1m" range:"1s 1h" restart:"yes"`
}

// TracesURL returns the URL to which traces are exported; empty if they are not.
func (o *OTLP) TracesURL() string { return o.url(o.Traces, o.TracesEndpoint, "v1/traces") }

// MetricsURL returns the URL to which metrics are exported; empty if they are not.
func (o *OTLP) MetricsURL() string { return o.url(o.Metrics, o.MetricsEndpoint, "v1/metrics") }

// url returns the URL of a signal: its own endpoint, or else the common endpoint. Over
// HTTP, the path of the signal is added to the common endpoint.
func (o *OTLP) url(on bool, own URL, path string) string {
	switch {
	case !on || own == "" && o.Endpoint == "":
		return ""
	case own != "":
		return string(own)
	case o.Protocol == "grpc":
		return string(o.Endpoint)
	}
	return strings.TrimSuffix(string(o.Endpoint), "/") + "/" + path
}

// Statsd has the settings for sending the counters of Envoy's rate limit service to a
// statsd server, under the names of envoyproxy/ratelimit.
type Statsd struct {
	Addr      Address       `yaml:"addr" default:"off" restart:"yes"`
	Protocol  string        `yaml:"protocol" default:"udp" oneof:"udp tcp" restart:"yes"`
	Interval  time.Duration `yaml:"interval" default:"10s" range:"100ms 1h" restart:"yes"`
	Tags      []Label       `yaml:"tags" count:"0 64" restart:"yes"`
	TagFormat string        `yaml:"tag_format" default:"name" oneof:"name dogstatsd" restart:"yes"`
}

// StatsdIsDefault reports whether statsd is on only because that is the default of
// envoyproxy/ratelimit.
func (c *Config) StatsdIsDefault() bool {
	return c.Statsd.Addr != Off && c.Origins["statsd.addr"] == ratelimitDefault
}

// URL is the URL of a collector. It begins with http:// or https:// and has no user.
type URL string

func parseURL(s string) (URL, error) {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", fmt.Errorf("%s is not a URL of a collector; must be like http://127.0.0.1:4318, without user and query", clip(s))
	}
	return URL(s), nil
}

// checkTelemetry returns errors for settings of OTLP and statsd that have no effect.
func (c *Config) checkTelemetry() (errs Errors) {
	o := &c.OTLP
	secure := strings.HasPrefix(o.TracesURL(), "https:") || strings.HasPrefix(o.MetricsURL(), "https:")
	for path, file := range map[string]Path{"otlp.tls_cert": o.TLS.Cert, "otlp.tls_key": o.TLS.Key, "otlp.server_ca": o.TLS.CA} {
		if file != "" && !secure && o.TracesURL()+o.MetricsURL() != "" {
			errs = append(errs, c.wrong(path, "has no effect while otlp.endpoint begins with http (plain text); use https, or remove it"))
		}
	}
	for _, h := range o.Headers {
		if _, value := h.Split(); value == masked {
			c.Warnings = append(c.Warnings, maskedWarning("otlp.headers"))
		}
	}
	return errs
}
