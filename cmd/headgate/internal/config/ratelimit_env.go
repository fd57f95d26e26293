package config

import (
	"cmp"
	"fmt"
	"net"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// ratelimitDefault is the origin of a setting whose value is a default of
// envoyproxy/ratelimit.
const ratelimitDefault = "default of envoyproxy/ratelimit"

// envValue is the value of a setting that is read from environment variables of
// envoyproxy/ratelimit.
type envValue struct {
	name  string // names of the variables; empty if there is no value
	value string
	set   bool // whether a variable is set; otherwise value is a default that the file overrides
}

// ratelimitEnv reads the environment variables of envoyproxy/ratelimit.
type ratelimitEnv struct {
	*Sources
	values map[string]envValue
	errs   Errors
}

// ratelimitSettings returns the settings that the environment variables of
// envoyproxy/ratelimit specify, by path, or nil if compatibility is not enabled. If a
// variable enables an unsupported feature, ratelimitSettings returns an error if
// responses would differ without the feature; otherwise it adds a warning to c.
func (s *Sources) ratelimitSettings(c *Config) (map[string]envValue, Errors) {
	if !s.Ratelimit && !s.any("RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "CONFIG_GRPC_XDS_SERVER_URL") {
		return nil, nil
	}
	r := &ratelimitEnv{Sources: s, values: make(map[string]envValue)}
	r.listeners()
	r.source()
	for path, name := range map[string]string{
		"envoy.merge_domains": "MERGE_DOMAIN_CONFIG", "envoy.need_domains": "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
		"envoy.start_anyway": "FORCE_START_WITHOUT_INITIAL_CONFIG", "envoy.shadow": "SHADOW_MODE", "envoy.quota": "QUOTA_MODE",
		"envoy.metadata": "RESPONSE_DYNAMIC_METADATA", "envoy.headers": "LIMIT_RESPONSE_HEADERS_ENABLED",
		"envoy.calendar_months": "USE_CALENDAR_MONTH_RATE_LIMIT", "envoy.response_ms": "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
	} {
		r.set(path, name, strconv.FormatBool(r.yes(name, false)), name)
	}
	r.copyValues(map[string]string{
		"envoy.header_limit": "LIMIT_LIMIT_HEADER", "envoy.header_remaining": "LIMIT_REMAINING_HEADER", "envoy.header_reset": "LIMIT_RESET_HEADER",
		"grpc.max_connection_age": "GRPC_MAX_CONNECTION_AGE", "grpc.max_connection_age_grace": "GRPC_MAX_CONNECTION_AGE_GRACE",
	})
	r.ratio("envoy.near_limit", "NEAR_LIMIT_RATIO")
	r.charge()
	r.operations()
	r.statsd()
	r.tracing()
	r.tls()
	r.store()
	c.Warnings = append(c.Warnings, r.warnings()...)
	return r.values, r.errs
}

// any reports whether at least one of the variables is set.
func (s *Sources) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := s.lookup(name)
		return ok
	})
}

// set sets the setting at path to a value that was computed from the named variables.
// The parameter label is the text for their names in errors.
func (r *ratelimitEnv) set(path, label, value string, names ...string) {
	set := r.any(names...)
	if !set {
		label = ratelimitDefault
	}
	r.values[path] = envValue{label, value, set}
}

// text returns the value of a variable, or otherwise if it is not set.
func (r *ratelimitEnv) text(name, otherwise string) string {
	value, _ := r.lookup(name)
	return cmp.Or(value, otherwise)
}

// yes returns the value of a boolean variable, or otherwise if it is not set.
func (r *ratelimitEnv) yes(name string, otherwise bool) bool {
	text, ok := r.lookup(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.fail(name, "%s is not a boolean; must be true or false", clip(text))
	}
	return value
}

func (r *ratelimitEnv) fail(name, format string, args ...any) {
	r.errs = append(r.errs, &Error{Source: name, Message: fmt.Sprintf(format, args...)})
}

// charge sets whether a denied request charges its other descriptors, and whether it is
// counted in a window that is over its limit. In envoyproxy/ratelimit the first variable
// has no effect on memcached, and a local cache answers the requests on such windows.
func (r *ratelimitEnv) charge() {
	name, mode := "STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "each"
	if r.yes(name, false) && r.text("BACKEND_TYPE", "redis") != "memcache" {
		mode = "all_or_none"
	}
	r.set("envoy.charge", name, mode, name)
	cache := "LOCAL_CACHE_SIZE_IN_BYTES"
	size, err := strconv.Atoi(r.text(cache, "0"))
	if err != nil {
		r.fail(cache, "%s is not a number; must be a number of bytes, or 0", clip(r.text(cache, "")))
	}
	r.set("envoy.local_denials", cache, strconv.FormatBool(size > 0), cache)
}

// listeners sets the addresses for HTTP and gRPC. The listener for Redis clients is off
// because envoyproxy/ratelimit has none, and its port may be that of a Redis server.
func (r *ratelimitEnv) listeners() {
	r.set("resp.addr", "", "off")
	r.set("http.addr", "HOST, PORT", net.JoinHostPort(r.text("HOST", "0.0.0.0"), r.text("PORT", "8080")), "HOST", "PORT")
	if socket, ok := r.lookup("GRPC_UDS"); ok {
		r.set("grpc.addr", "GRPC_UDS", "unix:"+socket, "GRPC_UDS")
		return
	}
	addr := net.JoinHostPort(r.text("GRPC_HOST", "0.0.0.0"), r.text("GRPC_PORT", "8081"))
	r.set("grpc.addr", "GRPC_HOST, GRPC_PORT", addr, "GRPC_HOST", "GRPC_PORT")
}

func (r *ratelimitEnv) files() {
	names := []string{"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"}
	folder := filepath.Join(r.text(names[0], "/srv/runtime_data/current"), r.text(names[1], ""), r.text(names[2], "config"))
	r.set("envoy.config", strings.Join(names, ", "), folder, names...)
	r.set("envoy.all_files", "", "true")
	r.set("envoy.dot_files", "RUNTIME_IGNOREDOTFILES", strconv.FormatBool(!r.yes("RUNTIME_IGNOREDOTFILES", false)), "RUNTIME_IGNOREDOTFILES")
}

// operations sets the admin and metrics addresses, and the format and level of the log.
// The admin listener is bound to loopback, because only operators need it.
func (r *ratelimitEnv) operations() {
	if r.yes("USE_PROMETHEUS", false) && !r.yes("DISABLE_STATS", false) {
		r.set("metrics.addr", "PROMETHEUS_ADDR", r.text("PROMETHEUS_ADDR", ":9090"), "USE_PROMETHEUS")
	}
	if port, ok := r.lookup("DEBUG_PORT"); ok {
		r.set("admin.addr", "DEBUG_PORT", net.JoinHostPort("127.0.0.1", port), "DEBUG_PORT")
	}
	if format, ok := r.lookup("LOG_FORMAT"); ok {
		r.set("log.format", "LOG_FORMAT", logFormatOf(format), "LOG_FORMAT")
	}
	if level, ok := r.lookup("LOG_LEVEL"); ok {
		r.set("log.level", "LOG_LEVEL", levelOf(level), "LOG_LEVEL")
	}
}

// logFormatOf converts a log format of envoyproxy/ratelimit, where every text except json
// means text.
func logFormatOf(text string) string {
	if strings.EqualFold(text, "json") {
		return "json"
	}
	return "text"
}

// levelOf converts a log level of envoyproxy/ratelimit to the nearest level of
// log.level.
func levelOf(text string) string {
	switch level := strings.ToLower(text); level {
	case "trace":
		return "debug"
	case "warning":
		return "warn"
	case "fatal", "panic":
		return "error"
	default:
		return level
	}
}

func (r *ratelimitEnv) tls() {
	if !r.yes("GRPC_SERVER_USE_TLS", false) {
		return
	}
	r.copyValues(map[string]string{
		"grpc.tls_cert": "GRPC_SERVER_TLS_CERT", "grpc.tls_key": "GRPC_SERVER_TLS_KEY", "grpc.client_ca": "GRPC_CLIENT_TLS_CACERT",
		"grpc.client_name": "GRPC_CLIENT_TLS_SAN",
	})
}

// source sets where the rules come from: files or a control plane.
func (r *ratelimitEnv) source() {
	switch kind := r.text("CONFIG_TYPE", "FILE"); kind {
	case "FILE":
		r.files()
	case "GRPC_XDS_SOTW":
		r.xds()
	default:
		r.fail("CONFIG_TYPE", "%s is not supported; must be FILE or GRPC_XDS_SOTW", clip(kind))
	}
}

func (r *ratelimitEnv) xds() {
	server := "CONFIG_GRPC_XDS_SERVER_URL"
	r.set("envoy.xds.server", "CONFIG_TYPE, "+server, r.text(server, "localhost:18000"), "CONFIG_TYPE")
	names := map[string]string{
		"envoy.xds.node_id": "CONFIG_GRPC_XDS_NODE_ID", "envoy.xds.headers": "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS",
		"envoy.xds.connect_retry":   "CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL",
		"envoy.xds.backoff_initial": "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "envoy.xds.backoff_max": "XDS_CLIENT_BACKOFF_MAX_INTERVAL",
	}
	if size := "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES"; r.text(size, "0") != "0" {
		names["envoy.xds.max_message_bytes"] = size
	}
	tls := "CONFIG_GRPC_XDS_SERVER_USE_TLS"
	if r.yes(tls, false) {
		r.set("envoy.xds.tls", tls, "true", tls)
		names["envoy.xds.tls_cert"], names["envoy.xds.tls_key"] = "CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY"
		names["envoy.xds.server_ca"], names["envoy.xds.server_name"] = "CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "CONFIG_GRPC_XDS_SERVER_TLS_SAN"
	}
	r.copyValues(names)
	r.ratio("envoy.xds.backoff_random", "XDS_CLIENT_BACKOFF_RANDOM_FACTOR")
	if jitter := "XDS_CLIENT_BACKOFF_JITTER"; !r.yes(jitter, true) {
		r.set("envoy.xds.backoff_random", jitter, "0%", jitter)
	}
	r.nodeMetadata()
}

// nodeMetadata sets the node metadata. It ignores entries without a name or without
// “=”.
func (r *ratelimitEnv) nodeMetadata() {
	name := "CONFIG_GRPC_XDS_NODE_METADATA"
	var valid []string
	for entry := range strings.SplitSeq(r.text(name, ""), ",") {
		if name, _, ok := strings.Cut(entry, "="); ok && strings.TrimSpace(name) != "" {
			valid = append(valid, entry)
		}
	}
	if len(valid) > 0 {
		r.set("envoy.xds.node_metadata", name, strings.Join(valid, ","), name)
	}
}

// copyValues sets each setting, by its path in names, to the value of its variable if
// that is set.
func (r *ratelimitEnv) copyValues(names map[string]string) {
	for path, name := range names {
		if value, ok := r.lookup(name); ok {
			r.set(path, name, value, name)
		}
	}
}

// ratio converts a variable with a number from 0 to 1 to a setting in percent.
func (r *ratelimitEnv) ratio(path, name string) {
	text, ok := r.lookup(name)
	if !ok {
		return
	}
	percent, err := percentOf(text)
	if err != nil {
		r.fail(name, "%s", err)
		return
	}
	r.set(path, name, percent, name)
}
