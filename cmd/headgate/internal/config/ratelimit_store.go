package config

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// store sets the store URL from the variables for Redis or memcached. It does nothing if
// a setting of Headgate sets the store, so that unsupported variables are then no errors.
func (r *ratelimitEnv) store() {
	if r.ownStore() {
		return
	}
	switch backend := r.text("BACKEND_TYPE", "redis"); backend {
	case "redis":
		if text, ok := r.lookup("REDIS_URL"); ok {
			r.set("store", "REDIS_URL", r.redis(text), "REDIS_URL")
		}
		r.budget()
	case "memcache":
		r.memcached()
	default:
		r.fail("BACKEND_TYPE", "%s is not supported; must be redis or memcache", clip(backend))
	}
}

// ownStore reports whether a setting of Headgate that overrides the variables sets the
// store.
func (r *ratelimitEnv) ownStore() bool {
	_, flag := r.Flags["store"]
	return flag || r.any(Prefix+"STORE")
}

func (r *ratelimitEnv) memcached() {
	hosts := "MEMCACHE_HOST_PORT"
	for _, name := range []string{"MEMCACHE_SRV", "MEMCACHE_TLS"} {
		if text, ok := r.lookup(name); ok && (name == "MEMCACHE_SRV" || r.yes(name, false)) {
			r.fail(name, "%s is not supported; set %s to the addresses of servers without TLS", clip(text), hosts)
			return
		}
	}
	text, ok := r.lookup(hosts)
	if !ok {
		r.fail("BACKEND_TYPE", "memcache requires %s; must be host:port, separated by commas", hosts)
		return
	}
	r.set("store", hosts, withQuery("memcached://"+text, r.namespace()), hosts)
}

// namespace returns the parameter of the store URL that separates deployments, from
// CACHE_KEY_PREFIX. It returns an empty map if there is none.
func (r *ratelimitEnv) namespace() url.Values {
	name := "CACHE_KEY_PREFIX"
	prefix, ok := r.lookup(name)
	if !ok {
		return url.Values{}
	}
	if len(prefix) > maxNamespaceBytes {
		r.fail(name, "has %d bytes; must have at most %d", len(prefix), maxNamespaceBytes)
	}
	return url.Values{"namespace": {prefix}}
}

// maxNamespaceBytes is the maximum length of a store's namespace.
const maxNamespaceBytes = 64

// withQuery adds parameters to a store URL. A parameter that the URL has is kept.
func withQuery(rawURL string, params url.Values) string {
	base, query, _ := strings.Cut(rawURL, "?")
	has, _ := url.ParseQuery(query) // invalid parameters are reported when the URL is checked
	for name := range has {
		params.Del(name)
	}
	switch more := params.Encode(); {
	case more == "":
		return rawURL
	case query == "":
		return base + "?" + more
	default:
		return rawURL + "&" + more
	}
}

// budget sets the maximum time that a decision waits for Redis, from REDIS_TIMEOUT.
func (r *ratelimitEnv) budget() {
	name := "REDIS_TIMEOUT"
	text, ok := r.lookup(name)
	if !ok {
		return
	}
	timeout, err := time.ParseDuration(text)
	if err != nil || timeout < 0 {
		r.fail(name, "%s is not a duration; must be a duration such as 500ms", clip(text))
		return
	}
	if timeout == 0 || timeout > time.Minute { // 0 means no timeout
		timeout = time.Minute
	}
	r.set("store_budget", name, max(timeout, time.Millisecond).String(), name)
}

// redisAddress is one address in REDIS_URL.
type redisAddress struct {
	scheme         string // redis, or a scheme of a store URL such as redis+cluster
	user, password string
	hosts, path    string
	query          string
}

// redis converts the value of REDIS_URL, and the variables related to it, to a store
// URL. The value is an address or a list of them, with or without redis://, or a store
// URL of Headgate. The variables for TLS and credentials apply to all of these forms.
func (r *ratelimitEnv) redis(text string) string {
	kind := strings.ToLower(r.text("REDIS_TYPE", "single"))
	if scheme, _, isURL := strings.Cut(text, "://"); isURL && strings.Contains(scheme, "+") {
		kind = "single" // the scheme contains the type
	}
	var a redisAddress
	params := r.namespace()
	switch kind {
	case "single":
		a = r.single(text)
	case "cluster":
		a = r.addresses(strings.Split(text, ","))
		a.scheme += "+cluster"
	case "sentinel":
		master, sentinels, _ := strings.Cut(text, ",")
		a = r.addresses(strings.Split(sentinels, ","))
		a.scheme, a.path = a.scheme+"+sentinel", "/"+master
		r.sentinelAuth(&a, params)
	default:
		r.fail("REDIS_TYPE", "%s is not supported; must be SINGLE, CLUSTER or SENTINEL", clip(kind))
	}
	if auth, ok := r.lookup("REDIS_AUTH"); ok {
		user, password := splitAuth(auth)
		if user != "" {
			a.user = user
		}
		a.password = password
	}
	r.secure(&a, params)
	return withQuery(a.String(), params)
}

// String returns the store URL of an address. As in envoyproxy/ratelimit, a user without
// a password is ignored.
func (a *redisAddress) String() string {
	text := a.scheme + "://"
	if a.password != "" {
		text += url.UserPassword(a.user, a.password).String() + "@"
	}
	text += a.hosts + a.path
	if a.query != "" {
		text += "?" + a.query
	}
	return text
}

// splitAuth splits the value of a variable for credentials: user:password, or only a
// password.
func splitAuth(auth string) (user, password string) {
	user, password, both := strings.Cut(auth, ":")
	if !both {
		return "", auth
	}
	return user, password
}

// single parses the address of a single server, or a store URL.
func (r *ratelimitEnv) single(text string) redisAddress {
	socket := r.text("REDIS_SOCKET_TYPE", "")
	switch socket {
	case "", "unix", "tcp", "tcp4", "tcp6":
	default:
		r.fail("REDIS_SOCKET_TYPE", "%s is not supported; must be tcp or unix", clip(socket))
	}
	if !strings.Contains(text, "://") && (socket == "unix" || strings.HasPrefix(text, "/")) {
		return redisAddress{scheme: "redis+unix", path: text}
	}
	return r.address(text)
}

// addresses parses the addresses of several servers. The credentials are those of the
// first address that has some. If one address uses TLS, all do.
func (r *ratelimitEnv) addresses(texts []string) redisAddress {
	all := redisAddress{scheme: "redis"}
	var hosts []string
	for _, text := range texts {
		a := r.address(text)
		hosts = append(hosts, a.hosts)
		if a.scheme != "redis" {
			all.scheme = a.scheme
		}
		if all.user == "" && all.password == "" {
			all.user, all.password = a.user, a.password
		}
	}
	all.hosts = strings.Join(hosts, ",")
	return all
}

// address parses an address with or without a scheme. As in envoyproxy/ratelimit, a
// redis:// URL may have credentials and the database also as parameters.
func (r *ratelimitEnv) address(text string) redisAddress {
	scheme, rest, isURL := strings.Cut(text, "://")
	if !isURL {
		return redisAddress{scheme: "redis", hosts: text}
	}
	a := redisAddress{scheme: strings.ToLower(scheme)}
	rest, a.query, _ = strings.Cut(rest, "?")
	if at := strings.LastIndexByte(rest, '@'); at >= 0 && !strings.HasPrefix(rest, "/") {
		user, password, _ := strings.Cut(rest[:at], ":")
		a.user, a.password, rest = r.unescape(user), r.unescape(password), rest[at+1:]
	}
	slash := strings.IndexByte(rest, '/')
	if slash < 0 {
		slash = len(rest)
	}
	a.hosts, a.path = rest[:slash], rest[slash:]
	if a.scheme == "redis" {
		a.takeParams()
	}
	return a
}

func (r *ratelimitEnv) unescape(text string) string {
	plain, err := url.PathUnescape(text)
	if err != nil {
		r.fail("REDIS_URL", "invalid escape in user or password; write %% as %%25, @ as %%40, : as %%3A, / as %%2F and ? as %%3F")
	}
	return plain
}

// takeParams moves the parameters username, password and db of a redis:// URL to their
// places in a store URL. The user, the password and the path of the URL come first.
func (a *redisAddress) takeParams() {
	params, err := url.ParseQuery(a.query)
	if err != nil {
		return // reported when the URL is checked
	}
	for name, to := range map[string]*string{"username": &a.user, "password": &a.password} {
		if *to == "" {
			*to = params.Get(name)
		}
		params.Del(name)
	}
	if db := params.Get("db"); db != "" && strings.Trim(a.path, "/") == "" {
		a.path = "/" + db
	}
	params.Del("db")
	a.query = params.Encode()
}

// sentinelAuth adds the credentials of the sentinels to params. Credentials in the
// addresses are those of the sentinels, because these are the addresses of sentinels.
func (r *ratelimitEnv) sentinelAuth(a *redisAddress, params url.Values) {
	user, password := a.user, a.password
	a.user, a.password = "", ""
	if auth, ok := r.lookup("REDIS_SENTINEL_AUTH"); ok {
		user, password = splitAuth(auth)
	}
	for name, value := range map[string]string{"sentinel_user": user, "sentinel_password": password} {
		if value != "" {
			params.Set(name, value)
		}
	}
}

// secure changes an address to TLS if REDIS_TLS is set, and adds the TLS files to params
// if the address uses TLS.
func (r *ratelimitEnv) secure(a *redisAddress, params url.Values) {
	if rest, ok := strings.CutPrefix(a.scheme, "redis"); ok && r.yes("REDIS_TLS", false) && !strings.HasPrefix(rest, "s") {
		a.scheme = "rediss" + rest
	}
	if a.scheme == "rediss+unix" {
		r.fail("REDIS_TLS", "TLS over a Unix socket is not supported; set REDIS_URL to host:port")
	}
	if !strings.HasPrefix(a.scheme, "rediss") {
		return
	}
	for param, name := range map[string]string{"ca": "REDIS_TLS_CACERT", "cert": "REDIS_TLS_CLIENT_CERT", "key": "REDIS_TLS_CLIENT_KEY"} {
		if file, ok := r.lookup(name); ok {
			params.Set(param, file)
		}
	}
	if r.yes("REDIS_TLS_SKIP_HOSTNAME_VERIFICATION", false) {
		params.Set("verify_name", "false")
	}
}

// warnStore adds a warning if no variable or setting sets the store.
func (c *Config) warnStore() {
	if c.Origins["store"] == "default" {
		c.Warnings = append(c.Warnings, fmt.Sprintf("REDIS_URL is not set: counters are in memory and are not shared between instances; set REDIS_URL or %sSTORE", Prefix))
	}
}
