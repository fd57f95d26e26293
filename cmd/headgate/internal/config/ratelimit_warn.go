package config

import (
	"os"
	"slices"
	"strings"
)

// unsupportedIfTrue are the boolean variables of envoyproxy/ratelimit that have no effect
// and are reported if they are true, with the reason.
var unsupportedIfTrue = map[string]string{
	"REDIS_PERSECOND":                      "limits per second are stored in the same Redis as all others",
	"REDIS_HEALTH_CHECK_ACTIVE_CONNECTION": "/healthcheck does not depend on Redis; /readyz reports whether Redis is reachable",
}

// unsupportedIfSet are the other variables that have no effect and are reported.
var unsupportedIfSet = map[string]string{
	"DEBUG_HOST":                     "the admin listener is bound to loopback; set admin.addr and admin.token to change that",
	"REDIS_STARTUP_MAX_ELAPSED_TIME": "the service starts without Redis, and connects as soon as Redis is reachable",
}

// warnings returns a warning for each variable that is set but has no effect.
func (r *ratelimitEnv) warnings() (all []string) {
	for name, reason := range unsupportedIfTrue {
		if r.yes(name, false) {
			all = append(all, name+" has no effect: "+reason)
		}
	}
	for name, reason := range unsupportedIfSet {
		if value, ok := r.lookup(name); ok && value != "0" && value != "0s" {
			all = append(all, name+" has no effect: "+reason)
		}
	}
	if r.ownStore() && r.any("CACHE_KEY_PREFIX") {
		all = append(all, "CACHE_KEY_PREFIX has no effect: use ?namespace= in the store URL")
	}
	all = append(all, r.telemetryWarnings()...)
	all = append(all, r.logFormat()...)
	all = append(all, r.mapper()...)
	slices.Sort(all)
	return all
}

// logFormat returns a warning if the log has another format than LOG_FORMAT.
func (r *ratelimitEnv) logFormat() []string {
	format := r.text("LOG_FORMAT", "text")
	if logFormatOf(format) != "text" || strings.EqualFold(format, "text") {
		return nil
	}
	return []string{"LOG_FORMAT is " + clip(format) + ": the log is text; must be text or json"}
}

// mapper returns a warning if PROMETHEUS_MAPPER_YAML is an existing file. Envoy
// Gateway sets the variable, usually to a file that does not exist.
func (r *ratelimitEnv) mapper() []string {
	name := "PROMETHEUS_MAPPER_YAML"
	if _, err := os.Stat(r.text(name, "")); err != nil {
		return nil
	}
	return []string{name + " has no effect: metrics have the default names of envoyproxy/ratelimit"}
}
