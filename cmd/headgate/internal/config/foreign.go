package config

import "strings"

// foreign contains advice for keys of other rate limiters, by the section in which they
// are unknown and by the key.
var foreign = map[string]map[string]string{
	"": {
		"listen": writeHTTPAddr, "port": writeHTTPAddr, "bind": writeHTTPAddr, "address": writeHTTPAddr, "addr": writeHTTPAddr, "server": writeHTTPAddr,
		"redis": writeStore, "backend": writeStore, "storage": writeStore, "database": writeStore,
		"rules": "policies and routes are separate: " + writePolicies, "rate_limits": writePolicies, "limiters": writePolicies,
	},
	"policies": {
		"cost":   clientSendsCost,
		"weight": clientSendsCost,
		"period": writeLimits, "window": writeLimits, "interval": writeLimits, "duration": writeLimits, "per": writeLimits, "unit": writeLimits,
		"rate": writeLimits, "requests": writeLimits, "requests_per_unit": writeLimits, "max": writeLimits,
		"burst":      `write limits: ["100/1m burst 20"]`,
		"queue":      `write algorithm: leaky_bucket, limits: ["100/1m queue 50"]`,
		"concurrent": noConcurrency, "concurrency": noConcurrency, "max_concurrent": noConcurrency, "parallel": noConcurrency, "in_flight": noConcurrency,
		"month": noMonths, "monthly": noMonths,
		"match": writeMatch, "path": writeMatch,
	},
	"match": {
		"query": noHeaders, "cookie": noHeaders, "ip": noHeaders, "claim": noHeaders, "user": noHeaders,
		"prefix": "write path: /api/** for all paths below /api", "regex": "write path: /api/**; * matches one segment and ** the rest",
		"methods": "write method: [GET, POST]", "uri": "write path", "url": "write path", "domain": "write host", "hostname": "write host",
	},
	"routes": {
		"policy": "write policies: [api]",
		"key":    "the key belongs to the policy: write policies: {api: {key: ip, …}}", "name": "routes have no names; remove it",
	},
}

const (
	writeHTTPAddr   = `write http: {addr: "127.0.0.1:8080"}`
	writeStore      = "write store: redis://127.0.0.1:6379"
	writePolicies   = `write policies: {api: {limits: ["100/1m"]}}`
	writeLimits     = `a limit is one text: write limits: ["100/1m"]`
	writeMatch      = "write routes: [{match: {path: /api/**}, policies: [api]}]"
	clientSendsCost = `remove it; the client sends the cost with each check: POST /v1/check {"policy":"NAME","key":"alice","cost":1200}`
	noConcurrency   = `write limits: ["16 concurrent"], and open a hold for each request`
	noMonths        = `write limits: ["100000/month"]`
	noHeaders       = "a route matches host, method, path and header; if the limit depends on anything else, the application selects " +
		`the policy: POST /v1/check {"policy":"NAME","key":"alice"}`
)

// foreignKey returns the advice for an unknown key of the mapping at path, or an empty
// text.
func foreignKey(name, path string) string {
	section, _, _ := strings.Cut(path, ".")
	section, _, _ = strings.Cut(section, "[")
	if strings.HasSuffix(path, "].match") {
		section = "match"
	}
	return foreign[section][strings.ToLower(name)]
}
