package config_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// Store URLs from the variables of envoyproxy/ratelimit.
func TestRatelimitStore(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		env  string // variables, separated by spaces
		want string
	}{
		{"REDIS_URL=redis:6379 REDIS_SOCKET_TYPE=tcp", "redis://redis:6379"},
		{"REDIS_URL=/run/redis.sock", "redis+unix:///run/redis.sock"},
		{"REDIS_URL=/run/a@b.sock REDIS_AUTH=p", "redis+unix://:p@/run/a@b.sock"},
		{"REDIS_URL=r:1 REDIS_AUTH=p@ss", "redis://:p%40ss@r:1"},
		{"REDIS_URL=r:1 REDIS_AUTH=user:a:b", "redis://user:a%3Ab@r:1"},
		{"REDIS_URL=r:1 REDIS_TLS=true REDIS_TLS_CACERT=/ca", "rediss://r:1?ca=%2Fca"},
		{"REDIS_URL=r:1 REDIS_TLS=true REDIS_TLS_CLIENT_CERT=/c REDIS_TLS_CLIENT_KEY=/k", "rediss://r:1?cert=%2Fc&key=%2Fk"},
		{"REDIS_URL=r:1 REDIS_TLS=true REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true", "rediss://r:1?verify_name=false"},
		{"REDIS_URL=r:1 REDIS_TLS_CACERT=/ca", "redis://r:1"},

		// URLs.
		{"REDIS_URL=redis://r:1/2", "redis://r:1/2"},
		{"REDIS_URL=redis://u:p@r:1", "redis://u:p@r:1"},
		{"REDIS_URL=redis://r:1?username=u&password=p&db=3", "redis://u:p@r:1/3"},
		{"REDIS_URL=redis://u:p@r:1/2?username=v&password=q&db=3", "redis://u:p@r:1/2"},
		{"REDIS_URL=redis://u@r:1", "redis://r:1"},
		{"REDIS_URL=redis://r:1 REDIS_AUTH=p", "redis://:p@r:1"},
		{"REDIS_URL=redis://u:old@r:1 REDIS_AUTH=new", "redis://u:new@r:1"},
		{"REDIS_URL=redis://u:old@r:1 REDIS_AUTH=v:new", "redis://v:new@r:1"},
		{"REDIS_URL=redis://:p@r:1 REDIS_TLS=true", "rediss://:p@r:1"},
		{"REDIS_URL=rediss://:p@r:1 REDIS_TLS_CACERT=/ca", "rediss://:p@r:1?ca=%2Fca"},
		{"REDIS_URL=rediss://r:1?ca=/mine REDIS_TLS_CACERT=/ca", "rediss://r:1?ca=/mine"},
		{"REDIS_URL=redis+cluster://a:1,b:2 REDIS_TLS=true REDIS_TYPE=cluster", "rediss+cluster://a:1,b:2"},
		{"REDIS_URL=redis+sentinel://a:1,b:2/main?db=1 REDIS_AUTH=p", "redis+sentinel://:p@a:1,b:2/main?db=1"},

		// Clusters and sentinels.
		{"REDIS_TYPE=cluster REDIS_URL=a:1,b:2", "redis+cluster://a:1,b:2"},
		{"REDIS_TYPE=CLUSTER REDIS_URL=a:1,b:2 REDIS_TLS=true REDIS_AUTH=u:p REDIS_TLS_CACERT=/ca", "rediss+cluster://u:p@a:1,b:2?ca=%2Fca"},
		{"REDIS_TYPE=cluster REDIS_URL=redis://u:p@a:1,redis://u:p@b:2", "redis+cluster://u:p@a:1,b:2"},
		{"REDIS_TYPE=cluster REDIS_URL=rediss://u:p@a:1,rediss://u:p@b:2", "rediss+cluster://u:p@a:1,b:2"},
		{"REDIS_TYPE=SENTINEL REDIS_URL=main,a:1,b:2", "redis+sentinel://a:1,b:2/main"},
		{"REDIS_TYPE=sentinel REDIS_URL=main,a:1 REDIS_AUTH=p REDIS_SENTINEL_AUTH=s", "redis+sentinel://:p@a:1/main?sentinel_password=s"},
		{"REDIS_TYPE=sentinel REDIS_URL=main,a:1 REDIS_SENTINEL_AUTH=u:s REDIS_TLS=true", "rediss+sentinel://a:1/main?sentinel_password=s&sentinel_user=u"},
		{"REDIS_TYPE=sentinel REDIS_URL=main,redis://u:s@a:1,redis://u:s@b:2 REDIS_AUTH=p", "redis+sentinel://:p@a:1,b:2/main?sentinel_password=s&sentinel_user=u"},

		// Prefixes of keys.
		{"REDIS_URL=r:1 CACHE_KEY_PREFIX=east:", "redis://r:1?namespace=east%3A"},
		{"REDIS_URL=rediss://r:1?namespace=n CACHE_KEY_PREFIX=east:", "rediss://r:1?namespace=n"},
		{"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1,b:2", "memcached://a:1,b:2"},
		{"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1 MEMCACHE_TLS=false CACHE_KEY_PREFIX=east:", "memcached://a:1?namespace=east%3A"},

		// A store of our own.
		{"BACKEND_TYPE=memcache MEMCACHE_SRV=_m._tcp.x HEADGATE_STORE=redis://r:1", "redis://r:1"},
		{"BACKEND_TYPE=mongo HEADGATE_STORE=redis://r:1", "redis://r:1"},
	} {
		from := config.Sources{Ratelimit: true, Lookup: lookupOf(variablesOf(c.env))}
		if got, err := from.Load(); err != nil || string(got.Store) != c.want {
			t.Errorf("%s: got %v, error %v want %s", c.env, got, err, c.want)
		}
	}
}

// variablesOf parses variables that are separated by spaces.
func variablesOf(text string) map[string]string {
	env := make(map[string]string)
	for pair := range strings.FieldsSeq(text) {
		name, value, _ := strings.Cut(pair, "=")
		env[name] = value
	}
	return env
}

// A store that the variables configure and Headgate does not support is an error that
// names the variable, not a store in memory.
func TestRatelimitStoreRefused(t *testing.T) {
	t.Parallel()
	for env, want := range map[string]string{
		"BACKEND_TYPE=memcache":                                               "BACKEND_TYPE: memcache requires MEMCACHE_HOST_PORT",
		"BACKEND_TYPE=memcache MEMCACHE_SRV=_m._tcp.example.com":              "MEMCACHE_SRV: ",
		"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1 MEMCACHE_TLS=true":      "MEMCACHE_TLS: ",
		"REDIS_URL=/run/redis.sock REDIS_TLS=true":                            "REDIS_TLS: ",
		"REDIS_URL=r:1 REDIS_TYPE=ring":                                       "REDIS_TYPE: ",
		"REDIS_URL=r:1 REDIS_SOCKET_TYPE=udp":                                 "REDIS_SOCKET_TYPE: ",
		"REDIS_URL=r:1 REDIS_TIMEOUT=-1s":                                     "REDIS_TIMEOUT: ",
		"REDIS_URL=redis://u:secret%zz@r:1":                                   "REDIS_URL: invalid escape",
		"REDIS_URL=r:1 CACHE_KEY_PREFIX=" + strings.Repeat("n", 65):           "CACHE_KEY_PREFIX: has 65 bytes",
		"BACKEND_TYPE=memcache MEMCACHE_HOST_PORT=a:1 MEMCACHE_SRV=_m._tcp.x": "MEMCACHE_SRV: ",
	} {
		from := config.Sources{Ratelimit: true, Lookup: lookupOf(variablesOf(env))}
		if _, err := from.Load(); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got error %v want %s", env, err, want)
		}
	}
}

// Without an address of Redis, counters are in memory, with a warning.
func TestRatelimitStoreMissing(t *testing.T) {
	t.Parallel()
	warned := func(env map[string]string) bool {
		from := config.Sources{Ratelimit: true, Lookup: lookupOf(env)}
		c, err := from.Load()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(c.Warnings, func(w string) bool { return strings.HasPrefix(w, "REDIS_URL is not set") })
	}
	if !warned(nil) {
		t.Error("without a store: got no warning")
	}
	for _, name := range []string{"REDIS_URL", "HEADGATE_STORE", "REDIS_HOST"} {
		if env := map[string]string{name: "redis://r:1"}; warned(maps.Clone(env)) {
			t.Errorf("with %s: got a warning", name)
		}
	}
}
