package config

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// foreign is the value of a setting from the environment of envoyproxy/ratelimit.
type foreign struct {
	name  string // of the variables; empty if there is none
	value string
	given bool // one of them is there; else it is that service's default, and a file wins over it
}

// incumbent reads the environment of envoyproxy/ratelimit.
type incumbent struct {
	*Sources
	values map[string]foreign
	errs   Errors
}

// ratelimit are the settings that envoyproxy/ratelimit's environment stands for, by path, if this is one. What it asks for and is not there
// is an error if answers would be others without it, or else a warning in c.
func (s *Sources) ratelimit(c *Config) (map[string]foreign, Errors) {
	if !s.Ratelimit && !s.any("RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY", "CONFIG_GRPC_XDS_SERVER_URL") {
		return nil, nil
	}
	r := &incumbent{Sources: s, values: make(map[string]foreign)}
	r.listeners()
	r.source()
	for path, name := range map[string]string{
		"envoy.merge_domains": "MERGE_DOMAIN_CONFIG", "envoy.need_domains": "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
		"envoy.start_anyway": "FORCE_START_WITHOUT_INITIAL_CONFIG", "envoy.shadow": "SHADOW_MODE", "envoy.quota": "QUOTA_MODE",
		"envoy.metadata": "RESPONSE_DYNAMIC_METADATA", "envoy.headers": "LIMIT_RESPONSE_HEADERS_ENABLED",
		"envoy.response_ms": "PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS",
	} {
		r.set(path, name, strconv.FormatBool(r.yes(name, false)), name)
	}
	r.repeat(map[string]string{
		"envoy.header_limit": "LIMIT_LIMIT_HEADER", "envoy.header_remaining": "LIMIT_REMAINING_HEADER", "envoy.header_reset": "LIMIT_RESET_HEADER",
		"grpc.max_connection_age": "GRPC_MAX_CONNECTION_AGE", "grpc.max_connection_age_grace": "GRPC_MAX_CONNECTION_AGE_GRACE",
	})
	r.ratio("envoy.near_limit", "NEAR_LIMIT_RATIO")
	r.operations()
	r.tls()
	r.store()
	c.Warnings = append(c.Warnings, r.warnings()...)
	return r.values, r.errs
}

// any reports whether one of some variables is there.
func (s *Sources) any(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		_, ok := s.lookup(name)
		return ok
	})
}

// set gives a setting a value that one or several variables stand for.
func (r *incumbent) set(path, label, value string, names ...string) {
	given := r.any(names...)
	if !given {
		label = defaultOfIncumbent
	}
	r.values[path] = foreign{label, value, given}
}

func (r *incumbent) text(name, otherwise string) string {
	value, _ := r.lookup(name)
	return cmp.Or(value, otherwise)
}

func (r *incumbent) yes(name string, otherwise bool) bool {
	text, ok := r.lookup(name)
	if !ok {
		return otherwise
	}
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.fail(name, "%s is not true or false", clip(text))
	}
	return value
}

func (r *incumbent) fail(name, format string, args ...any) {
	r.errs = append(r.errs, &Error{Source: name, Message: fmt.Sprintf(format, args...)})
}

func (r *incumbent) listeners() {
	r.set("http.addr", "HOST, PORT", net.JoinHostPort(r.text("HOST", "0.0.0.0"), r.text("PORT", "8080")), "HOST", "PORT")
	if socket, ok := r.lookup("GRPC_UDS"); ok {
		r.set("grpc.addr", "GRPC_UDS", "unix:"+socket, "GRPC_UDS")
		return
	}
	addr := net.JoinHostPort(r.text("GRPC_HOST", "0.0.0.0"), r.text("GRPC_PORT", "8081"))
	r.set("grpc.addr", "GRPC_HOST, GRPC_PORT", addr, "GRPC_HOST", "GRPC_PORT")
}

func (r *incumbent) files() {
	names := []string{"RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "RUNTIME_APPDIRECTORY"}
	folder := filepath.Join(r.text(names[0], "/srv/runtime_data/current"), r.text(names[1], ""), r.text(names[2], "config"))
	r.set("envoy.config", strings.Join(names, ", "), folder, names...)
	r.set("envoy.dot_files", "RUNTIME_IGNOREDOTFILES", strconv.FormatBool(!r.yes("RUNTIME_IGNOREDOTFILES", false)), "RUNTIME_IGNOREDOTFILES")
}

// operations are where metrics are, and how lines are logged. The debug port stays on this machine: what is there is for operators.
func (r *incumbent) operations() {
	if r.yes("USE_PROMETHEUS", false) {
		r.set("metrics.addr", "PROMETHEUS_ADDR", r.text("PROMETHEUS_ADDR", ":9090"), "USE_PROMETHEUS")
	}
	if port, ok := r.lookup("DEBUG_PORT"); ok {
		r.set("admin.addr", "DEBUG_PORT", net.JoinHostPort("127.0.0.1", port), "DEBUG_PORT")
	}
	if format, ok := r.lookup("LOG_FORMAT"); ok {
		r.set("log.format", "LOG_FORMAT", strings.ToLower(format), "LOG_FORMAT")
	}
	if level, ok := r.lookup("LOG_LEVEL"); ok {
		r.set("log.level", "LOG_LEVEL", levelOf(level), "LOG_LEVEL")
	}
}

// levelOf is the level that is nearest to one of envoyproxy/ratelimit's.
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

func (r *incumbent) tls() {
	if !r.yes("GRPC_SERVER_USE_TLS", false) {
		return
	}
	r.repeat(map[string]string{
		"grpc.tls_cert": "GRPC_SERVER_TLS_CERT", "grpc.tls_key": "GRPC_SERVER_TLS_KEY", "grpc.client_ca": "GRPC_CLIENT_TLS_CACERT",
		"grpc.client_name": "GRPC_CLIENT_TLS_SAN",
	})
}

// store is the URL of the store that REDIS_URL and MEMCACHE_HOST_PORT name.
func (r *incumbent) store() {
	switch backend := r.text("BACKEND_TYPE", "redis"); backend {
	case "redis":
		if text, ok := r.lookup("REDIS_URL"); ok {
			r.set("store", "REDIS_URL", r.redis(text), "REDIS_URL")
		}
	case "memcache":
		if text, ok := r.lookup("MEMCACHE_HOST_PORT"); ok {
			r.set("store", "MEMCACHE_HOST_PORT", "memcached://"+text, "MEMCACHE_HOST_PORT")
		}
	default:
		r.fail("BACKEND_TYPE", "%s is not redis or memcache", clip(backend))
	}
}

// redis is the URL of a Redis.
func (r *incumbent) redis(text string) string {
	if strings.Contains(text, "://") {
		return text
	}
	u := url.URL{Scheme: "redis", Host: text}
	tls := r.yes("REDIS_TLS", false)
	kind := strings.ToUpper(r.text("REDIS_TYPE", "SINGLE"))
	switch {
	case tls && kind != "SINGLE":
		r.fail("REDIS_TLS", "TLS to several servers has to be said as a URL: HEADGATE_STORE")
	case tls:
		u.Scheme = "rediss"
	}
	switch {
	case kind == "CLUSTER":
		u.Scheme = "redis+cluster"
	case kind == "SENTINEL":
		u.Scheme = "redis+sentinel"
		u.Path, u.Host, _ = strings.Cut(text, ",")
	case kind != "SINGLE":
		r.fail("REDIS_TYPE", "%s is not SINGLE, CLUSTER or SENTINEL", clip(kind))
	case r.text("REDIS_SOCKET_TYPE", "") == "unix" || strings.HasPrefix(text, "/"):
		u.Scheme, u.Host, u.Path = "redis+unix", "", text
	}
	if auth, ok := r.lookup("REDIS_AUTH"); ok {
		user, password, both := strings.Cut(auth, ":")
		if !both {
			user, password = "", auth
		}
		u.User = url.UserPassword(user, password)
	}
	if tls {
		u.RawQuery = r.redisFiles()
	}
	return u.String()
}

// redisFiles are the files for TLS to a Redis, as its URL has them.
func (r *incumbent) redisFiles() string {
	files := make(url.Values)
	for param, name := range map[string]string{"ca": "REDIS_TLS_CACERT", "cert": "REDIS_TLS_CLIENT_CERT", "key": "REDIS_TLS_CLIENT_KEY"} {
		if file, ok := r.lookup(name); ok {
			files.Set(param, file)
		}
	}
	return files.Encode()
}

// warnings tell of what is asked for in vain.
func (r *incumbent) warnings() (all []string) {
	for name, instead := range map[string]string{
		"REDIS_PERSECOND":               "limits by the second lie in the same Redis as all others",
		"USE_CALENDAR_MONTH_RATE_LIMIT": "a month has 30 days",
		"TRACING_ENABLED":               "requests are not traced",

		"REDIS_TLS_SKIP_HOSTNAME_VERIFICATION": "a certificate must be for the host, or for server_name= of the store's URL",
	} {
		if r.yes(name, false) {
			all = append(all, name+" has no effect: "+instead)
		}
	}
	for name, instead := range map[string]string{
		"CACHE_KEY_PREFIX": "the store's URL takes ?namespace=",
		"DEBUG_HOST":       "the door for operators stays on this machine; admin.addr and admin.token open it",
	} {
		if _, ok := r.lookup(name); ok {
			all = append(all, name+" has no effect: "+instead)
		}
	}
	all = append(all, r.mapper()...)
	slices.Sort(all)
	return all
}
