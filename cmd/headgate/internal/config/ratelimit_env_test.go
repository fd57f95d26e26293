package config_test

import (
	"maps"
	"strings"
	"testing"

	"github.com/headgate/headgate/cmd/headgate/internal/config"
)

// Settings from the environment variables of envoyproxy/ratelimit.
func TestRatelimitEnvironment(t *testing.T) {
	t.Parallel()
	root := map[string]string{"RUNTIME_ROOT": "/data"}
	for _, c := range []struct {
		name string
		env  map[string]string
		want map[string]string // settings by path
	}{
		{"its defaults", root, map[string]string{
			"http.addr": "0.0.0.0:8080", "grpc.addr": "0.0.0.0:8081", "envoy.config": "/data/config", "envoy.dot_files": "true",
			"envoy.shadow": "false", "envoy.near_limit": "80%", "store": "memory://", "envoy.header_limit": "RateLimit-Limit",
			"envoy.charge": "each", "resp.addr": "off",
		}},
		{"denied hits counted", map[string]string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "false"}, map[string]string{"envoy.charge": "each"}},
		{"denied hits not counted", map[string]string{"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "true"}, map[string]string{"envoy.charge": "all_or_none"}},
		{"denied hits in memcached", map[string]string{
			"STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT": "true", "BACKEND_TYPE": "memcache", "MEMCACHE_HOST_PORT": "a:1",
		}, map[string]string{"envoy.charge": "each"}},
		{"our own charge mode", map[string]string{"HEADGATE_ENVOY_CHARGE": "all_or_none"}, map[string]string{"envoy.charge": "all_or_none"}},
		{"our own RESP listener", map[string]string{"HEADGATE_RESP_ADDR": "127.0.0.1:6380"}, map[string]string{"resp.addr": "127.0.0.1:6380"}},
		{"its folders", map[string]string{"RUNTIME_SUBDIRECTORY": "ratelimit", "RUNTIME_IGNOREDOTFILES": "TRUE"}, map[string]string{
			"envoy.config": "/srv/runtime_data/current/ratelimit/config", "envoy.dot_files": "false",
		}},
		{"another folder", map[string]string{"RUNTIME_ROOT": "/data", "RUNTIME_SUBDIRECTORY": "a/b", "RUNTIME_APPDIRECTORY": "c"}, map[string]string{
			"envoy.config": "/data/a/b/c",
		}},
		{"ports", map[string]string{"HOST": "::1", "PORT": "1", "GRPC_PORT": "2"}, map[string]string{"http.addr": "[::1]:1", "grpc.addr": "0.0.0.0:2"}},
		{"a socket", map[string]string{"GRPC_UDS": "/run/rl.sock", "GRPC_PORT": "2"}, map[string]string{"grpc.addr": "unix:/run/rl.sock"}},
		{"modes", map[string]string{
			"SHADOW_MODE": "true", "QUOTA_MODE": "1", "RESPONSE_DYNAMIC_METADATA": "t", "LIMIT_RESPONSE_HEADERS_ENABLED": "true",
			"LIMIT_LIMIT_HEADER": "L", "MERGE_DOMAIN_CONFIG": "true", "NEAR_LIMIT_RATIO": "0.755", "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED": "true",
			"FORCE_START_WITHOUT_INITIAL_CONFIG": "true", "GRPC_MAX_CONNECTION_AGE": "5m",
			"PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS": "true",
		}, map[string]string{
			"envoy.shadow": "true", "envoy.quota": "true", "envoy.metadata": "true", "envoy.headers": "true", "envoy.header_limit": "L",
			"envoy.merge_domains": "true", "envoy.near_limit": "75.5%", "envoy.need_domains": "true", "envoy.start_anyway": "true",
			"envoy.response_ms":       "true",
			"grpc.max_connection_age": "5m",
		}},
		{"metrics disabled", map[string]string{"PROMETHEUS_ADDR": ":19001"}, map[string]string{"metrics.addr": "off"}},
		{"TLS", map[string]string{"GRPC_SERVER_USE_TLS": "true", "GRPC_SERVER_TLS_CERT": "/c", "GRPC_SERVER_TLS_KEY": "/k", "GRPC_CLIENT_TLS_CACERT": "/ca", "GRPC_CLIENT_TLS_SAN": "n"}, map[string]string{
			"grpc.tls_cert": "/c", "grpc.tls_key": "/k", "grpc.client_ca": "/ca", "grpc.client_name": "n",
		}},
		{"TLS disabled", map[string]string{"GRPC_SERVER_TLS_CERT": "/c"}, map[string]string{"grpc.tls_cert": ""}},
		{"metrics and the log", map[string]string{
			"USE_PROMETHEUS": "true", "PROMETHEUS_ADDR": ":19001", "DEBUG_PORT": "6071", "LOG_FORMAT": "json", "LOG_LEVEL": "WARNING",
		}, map[string]string{
			"metrics.addr": ":19001", "admin.addr": "127.0.0.1:6071", "log.format": "json", "log.level": "warn",
		}},
		{"a control plane", map[string]string{
			"CONFIG_TYPE": "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_URL": "eg:18001", "CONFIG_GRPC_XDS_NODE_ID": "n",
			"CONFIG_GRPC_XDS_NODE_METADATA": "a=1=2,b:3,c=", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS": "x:1,authorization:Bearer s",
			"CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL": "5s", "CONFIG_GRPC_XDS_SERVER_USE_TLS": "true",
			"CONFIG_GRPC_XDS_CLIENT_TLS_CERT": "/c", "CONFIG_GRPC_XDS_CLIENT_TLS_KEY": "/k", "CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "/ca",
			"CONFIG_GRPC_XDS_SERVER_TLS_SAN": "san", "XDS_CLIENT_BACKOFF_INITIAL_INTERVAL": "1s", "XDS_CLIENT_BACKOFF_MAX_INTERVAL": "2s",
			"XDS_CLIENT_BACKOFF_RANDOM_FACTOR": "0.25", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "5000",
		}, map[string]string{
			"envoy.config": "", "envoy.xds.server": "eg:18001", "envoy.xds.node_id": "n", "envoy.xds.node_metadata": "a=1=2,c=",
			"envoy.xds.headers": "x: ***,authorization: ***", "envoy.xds.connect_retry": "5s", "envoy.xds.tls": "true", "envoy.xds.tls_cert": "/c",
			"envoy.xds.tls_key": "/k", "envoy.xds.server_ca": "/ca", "envoy.xds.server_name": "san", "envoy.xds.backoff_initial": "1s",
			"envoy.xds.backoff_max": "2s", "envoy.xds.backoff_random": "25%", "envoy.xds.max_message_bytes": "5000",
		}},
		{"a control plane by default", map[string]string{
			"CONFIG_TYPE": "GRPC_XDS_SOTW", "XDS_CLIENT_BACKOFF_JITTER": "false", "XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES": "0",
			"CONFIG_GRPC_XDS_SERVER_TLS_CACERT": "/ca",
		}, map[string]string{
			"envoy.xds.server": "localhost:18000", "envoy.xds.node_id": "default", "envoy.xds.tls": "false", "envoy.xds.server_ca": "",
			"envoy.xds.connect_retry": "3s", "envoy.xds.backoff_initial": "10s", "envoy.xds.backoff_max": "1m", "envoy.xds.backoff_random": "0%",
			"envoy.xds.max_message_bytes": "4194304", "envoy.xds.node_metadata": "", "envoy.config": "",
		}},
		{"control plane disabled", map[string]string{"CONFIG_GRPC_XDS_SERVER_URL": "eg:18001"}, map[string]string{
			"envoy.config": "/data/config", "envoy.xds.server": "",
		}},
		{"our own control plane", map[string]string{"HEADGATE_ENVOY_XDS_SERVER": "eg:18001"}, map[string]string{
			"envoy.config": "", "envoy.xds.server": "eg:18001",
		}},
		{"our own names win", map[string]string{"PORT": "1", "HEADGATE_HTTP_ADDR": "127.0.0.1:9"}, map[string]string{"http.addr": "127.0.0.1:9"}},
	} {
		env := maps.Clone(c.env)
		if c.name != "its folders" {
			maps.Copy(env, root)
		}
		from := config.Sources{Lookup: lookupOf(env)}
		got, err := from.Load()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		for _, s := range config.Settings() {
			if want, asked := c.want[s.Path]; asked && s.Text(&got.File) != want {
				t.Errorf("%s: %s is %s (%s), want %s", c.name, s.Path, s.Text(&got.File), got.Origins[s.Path], want)
			}
		}
	}
}

// HOST and PORT may be set in any environment: they enable no compatibility.
func TestRatelimitNotEnabled(t *testing.T) {
	t.Parallel()
	from := config.Sources{Lookup: lookupOf(map[string]string{"HOST": "box", "PORT": "5000", "SHADOW_MODE": "true", "REDIS_URL": "r:1"})}
	c, err := from.Load()
	if err != nil || c.HTTP.Addr != "127.0.0.1:8080" || c.Envoy.Shadow || c.Store != "memory://" {
		t.Errorf("got %+v, error %v, want the defaults", c, err)
	}
}

// A file overrides defaults of envoyproxy/ratelimit, and its variables override the file.
func TestRatelimitPrecedence(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/f.yaml"
	replace(t, path, "http: {addr: 127.0.0.1:1}\ngrpc: {addr: 127.0.0.1:2}\nresp: {addr: 127.0.0.1:4}\nenvoy: {charge: all_or_none}\n")
	from := config.Sources{Path: path, Lookup: lookupOf(map[string]string{"RUNTIME_ROOT": "/data", "GRPC_PORT": "3"})}
	c, err := from.Load()
	if err != nil || c.HTTP.Addr != "127.0.0.1:1" || c.GRPC.Addr != "0.0.0.0:3" || c.RESP.Addr != "127.0.0.1:4" || c.Envoy.Charge != "all_or_none" {
		t.Errorf("got %+v, error %v", c, err)
	}
}

func TestRatelimitUnsupported(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]string{
		"CONFIG_TYPE": "GRPC_XDS_DELTA", "BACKEND_TYPE": "mongo", "SHADOW_MODE": "maybe", "NEAR_LIMIT_RATIO": "2", "GRPC_PORT": "x",
		"GRPC_MAX_CONNECTION_AGE": "soon", "LOG_LEVEL": "loud", "REDIS_TIMEOUT": "soon",
	} {
		from := config.Sources{Ratelimit: true, Lookup: lookupOf(map[string]string{name: value})}
		if _, err := from.Load(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s=%s: got %v, want an error that names it", name, value, err)
		}
	}
}
