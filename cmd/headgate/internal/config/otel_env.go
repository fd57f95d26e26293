package config

import (
	"cmp"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// otelEnv reads the standard environment variables of OpenTelemetry.
type otelEnv struct {
	*Sources
	values   map[string]envValue
	warnings []string
	errs     Errors
}

// otelSettings returns the settings that the standard environment variables of
// OpenTelemetry specify, by path. It adds a warning to c for a variable that has no
// effect.
func (s *Sources) otelSettings(c *Config) (map[string]envValue, Errors) {
	o := &otelEnv{Sources: s, values: make(map[string]envValue)}
	o.endpoints()
	for path, name := range map[string]string{
		"otlp.protocol": "OTEL_EXPORTER_OTLP_PROTOCOL", "otlp.compression": "OTEL_EXPORTER_OTLP_COMPRESSION",
		"otlp.server_ca": "OTEL_EXPORTER_OTLP_CERTIFICATE", "otlp.tls_cert": "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE",
		"otlp.tls_key": "OTEL_EXPORTER_OTLP_CLIENT_KEY", "otlp.service_name": "OTEL_SERVICE_NAME",
	} {
		if value, ok := s.lookup(name); ok {
			o.set(path, name, value)
		}
	}
	o.milliseconds("otlp.timeout", "OTEL_EXPORTER_OTLP_TIMEOUT")
	o.milliseconds("otlp.metrics_interval", "OTEL_METRIC_EXPORT_INTERVAL")
	o.pairs("otlp.headers", "OTEL_EXPORTER_OTLP_HEADERS", ":")
	o.pairs("otlp.resource_attributes", "OTEL_RESOURCE_ATTRIBUTES", "=")
	o.sampler()
	o.exporter("otlp.traces", "OTEL_TRACES_EXPORTER")
	o.exporter("otlp.metrics", "OTEL_METRICS_EXPORTER")
	o.warnOfOthers()
	if off, _ := s.lookup("OTEL_SDK_DISABLED"); strings.EqualFold(off, "true") {
		o.values = map[string]envValue{}
		for _, path := range []string{"otlp.endpoint", "otlp.traces_endpoint", "otlp.metrics_endpoint"} {
			o.set(path, "OTEL_SDK_DISABLED", "")
		}
	}
	slices.Sort(o.warnings)
	c.Warnings = append(c.Warnings, o.warnings...)
	return o.values, o.errs
}

func (o *otelEnv) set(path, name, value string) { o.values[path] = envValue{name, value, true} }

func (o *otelEnv) fail(name, format string, args ...any) {
	o.errs = append(o.errs, &Error{Source: name, Message: fmt.Sprintf(format, args...)})
}

// endpoints sets the endpoints. For gRPC, the variables also accept host:port.
func (o *otelEnv) endpoints() {
	for path, name := range map[string]string{
		"otlp.endpoint": "OTEL_EXPORTER_OTLP_ENDPOINT", "otlp.traces_endpoint": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
		"otlp.metrics_endpoint": "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
	} {
		value, ok := o.lookup(name)
		if ok && !strings.Contains(value, "://") {
			value = o.scheme() + value
		}
		if ok {
			o.set(path, name, value)
		}
	}
}

// scheme returns the scheme of an endpoint without one.
func (s *Sources) scheme() string {
	if insecure, _ := s.lookup("OTEL_EXPORTER_OTLP_INSECURE"); strings.EqualFold(insecure, "true") {
		return "http://"
	}
	return "https://"
}

// milliseconds sets a duration to a variable in milliseconds.
func (o *otelEnv) milliseconds(path, name string) {
	text, ok := o.lookup(name)
	if !ok {
		return
	}
	if n, err := strconv.Atoi(text); err != nil || n < 0 {
		o.fail(name, "%s is not a number; must be a number of milliseconds", clip(text))
		return
	}
	o.set(path, name, text+"ms")
}

// pairs sets a list to a variable of the form name=value,name=value, in which values are
// encoded as in a URL. separator separates name and value in the setting.
func (o *otelEnv) pairs(path, name, separator string) {
	text, ok := o.lookup(name)
	if !ok {
		return
	}
	var list []string
	for pair := range strings.SplitSeq(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		switch {
		case !found || err != nil:
			o.fail(name, "an entry is not name=value; values are encoded as in a URL")
			return
		case strings.Contains(value, ","):
			o.fail(name, "the value of %s contains a comma; set %s in the configuration file instead", clip(key), path)
			return
		}
		list = append(list, strings.TrimSpace(key)+separator+value)
	}
	if len(list) > 0 {
		o.set(path, name, strings.Join(list, ","))
	}
}

// sampler sets the sampler and its ratio.
func (o *otelEnv) sampler() {
	const name, argument = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
	sampler, ok := o.lookup(name)
	if ok {
		o.set("otlp.sampler", name, sampler)
	}
	text, given := o.lookup(argument)
	if !given {
		return
	}
	if !strings.HasSuffix(sampler, "traceidratio") {
		o.warnings = append(o.warnings, argument+" has no effect: "+name+" is "+cmp.Or(sampler, "not set")+
			"; must be traceidratio or parentbased_traceidratio")
		return
	}
	percent, err := percentOf(text)
	if err != nil {
		o.fail(argument, "%s", err)
		return
	}
	o.set("otlp.sample", argument, percent)
}

// percentOf converts a number from 0 to 1 to a percentage.
func percentOf(text string) (string, error) {
	ratio, err := strconv.ParseFloat(text, 64)
	if err != nil || !(ratio >= 0 && ratio <= 1) {
		return "", fmt.Errorf("%s is not a ratio; must be a number from 0 to 1", clip(text))
	}
	return strconv.FormatFloat(100*ratio, 'f', 4, 64) + "%", nil
}

// exporter sets whether a signal is exported.
func (o *otelEnv) exporter(path, name string) {
	switch value, ok := o.lookup(name); {
	case !ok:
	case value == "otlp" || value == "none":
		o.set(path, name, strconv.FormatBool(value == "otlp"))
	default:
		o.warnings = append(o.warnings, name+" is "+clip(value)+" and has no effect: the only exporter is otlp; must be otlp or none")
	}
}

// unsupportedOtel are the variables of OpenTelemetry that have no effect and are
// reported if they are set, with the reason.
var unsupportedOtel = func() map[string]string {
	all := map[string]string{
		"OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE": "metrics are cumulative, as in Prometheus; a collector can convert them",
	}
	for _, signal := range []string{"TRACES", "METRICS"} {
		for _, what := range []string{"PROTOCOL", "HEADERS", "COMPRESSION", "TIMEOUT", "CERTIFICATE", "CLIENT_CERTIFICATE", "CLIENT_KEY", "INSECURE"} {
			all["OTEL_EXPORTER_OTLP_"+signal+"_"+what] = "traces and metrics share this setting; set OTEL_EXPORTER_OTLP_" + what
		}
	}
	return all
}()

// warnOfOthers adds a warning for each variable that is set and has no effect.
func (o *otelEnv) warnOfOthers() {
	for _, name := range slices.Sorted(maps.Keys(unsupportedOtel)) {
		value, ok := o.lookup(name)
		if ok && !strings.EqualFold(value, "cumulative") {
			o.warnings = append(o.warnings, name+" has no effect: "+unsupportedOtel[name])
		}
	}
	if value, ok := o.lookup("OTEL_PROPAGATORS"); ok && !slices.Contains(strings.Split(value, ","), "tracecontext") {
		o.warnings = append(o.warnings, "OTEL_PROPAGATORS has no effect: only the field traceparent of W3C Trace Context is read")
	}
}
