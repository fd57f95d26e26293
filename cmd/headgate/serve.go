package main

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

const serveHelp = `Run the rate limit service: HTTP API, Redis-compatible endpoint and Envoy rate limit service. Without
arguments it keeps its state in memory and listens on 127.0.0.1:8080, 127.0.0.1:6380 and 127.0.0.1:8081:

    curl -d '{"limit":"5/1m","key":"you"}' http://127.0.0.1:8080/v1/check
    redis-cli -p 6380 CL.THROTTLE you 4 5 60

A check is {"limit":"100/1m","key":"k"}, optionally with "algorithm" (default token_bucket) and "cost" (default 1);
or {"policy":"login","key":"k"}; or several, all or none: {"checks":[{…},{…}]}. The status is 200 or 429; the body has
the remaining units and the time to wait. /v1/peek decides without spending, /v1/refund refunds, /v1/reset resets a key.
/livez and /readyz are for health checks. /v1/forward-auth decides requests for reverse proxies, by the routes of the
configuration: docs/proxies.

Policies are in the file that --config or HEADGATE_CONFIG names. The file is watched, and SIGHUP reloads it; counters
are kept. An invalid file never replaces a valid configuration: headgate config check FILE lists its errors.

Redis clients use CL.THROTTLE (redis-cell), THROTTLE (throttlecrab), or HG.CHECK with a policy. --resp-addr off
disables this endpoint; --resp-addr unix:/path listens on a socket.

Envoy calls the rate limit service on 127.0.0.1:8081 (--grpc-addr). The rules are envoyproxy/ratelimit's own files, in
the folder --envoy-config, or resources of a control plane over xDS, --envoy-xds-server. If one of envoyproxy/ratelimit's
environment variables is set, such as RUNTIME_ROOT, its variables are read, too: docs/envoy.md.

The admin listener is on 127.0.0.1:6070 (--admin-addr): /metrics for Prometheus, /debug/top-denied, /debug/config,
/debug/pprof/. Binding to a non-loopback address requires --admin-token. --metrics-addr opens a listener for metrics only.

Several instances share their state in Redis, Valkey or memcached: --store, or REDIS_HOST and REDIS_PORT. While the
store is unavailable, --on-store-error decides checks, and /readyz and responses report degraded.

Each setting is a flag, an environment variable and a line of the file with the same name: --http-addr,
HEADGATE_HTTP_ADDR, http.addr. Flags override variables, and variables override the file. headgate config print prints
the effective settings.

On SIGTERM or SIGINT, /readyz reports draining for --drain-delay. Then no new connections are accepted, and requests in
flight have --shutdown-timeout to complete. A second signal ends the process immediately.

--http-tls-cert and --http-tls-key, and the same for --grpc- and --resp-, name the files of a certificate and its key,
which are reloaded when they change. --http-client-ca requires client certificates.`

// serveCommand is “headgate serve”.
func serveCommand() *cobra.Command {
	var flags settingFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer checks, over HTTP, of Redis clients and of Envoy",
		Long:  serveHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			sources := flags.sources()
			c, err := sources.Load()
			if err != nil {
				return reported(err)
			}
			signal.Ignore(syscall.SIGPIPE) // without this a broken pipe at stderr ends a Go program
			s, err := service.New(&service.Options{Config: c, Sources: sources, Version: version(), Log: cmd.ErrOrStderr()})
			if err != nil {
				return reported(err)
			}
			defer func() { err = errors.Join(err, s.Close()) }()
			return s.Run(cmd.Context())
		},
	}
	flags.add(cmd.Flags())
	return cmd
}
