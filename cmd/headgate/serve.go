package main

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

const serveHelp = `Serve answers checks, over HTTP, of Redis clients and of Envoy, until it is told to stop. Without arguments it keeps its state in memory and
listens on 127.0.0.1:8080, 127.0.0.1:6380 and 127.0.0.1:8081:

    curl -d '{"limit":"5/1m","key":"you"}' http://127.0.0.1:8080/v1/check
    redis-cli -p 6380 CL.THROTTLE you 4 5 60

A check is {"limit":"100/1m","key":"k"}, with "algorithm" (token_bucket) and "cost" (1) if wanted; or {"policy":"login","key":"k"}; or
several, all or none: {"checks":[{…},{…}]}. The answer is 200 or 429, with how much is left and how long to wait. /v1/peek asks and
spends nothing, /v1/refund gives back, /v1/reset forgets. /livez and /readyz are for health checks.
/v1/forward-auth answers proxies that ask about a request, by the routes of the configuration: docs/proxies.

Policies stand in the file that --config or HEADGATE_CONFIG names. It is watched, and read again on SIGHUP; what was spent stays
spent. A file with an error never replaces a good one: headgate config check FILE says what is wrong.

Redis clients ask with CL.THROTTLE as of redis-cell, THROTTLE as of throttlecrab, or HG.CHECK with a policy. --resp-addr off closes
their door, unix:/path makes it a socket.

Envoy asks its rate limit service on 127.0.0.1:8081, --grpc-addr; the rules are envoyproxy/ratelimit's own files, in the folder that
--envoy-config names, or what a control plane says over xDS, --envoy-xds-server. Where that service's environment is there, RUNTIME_ROOT
for one, its names are taken, too: docs/envoy.md.

Operators ask on 127.0.0.1:6070, --admin-addr: /metrics for Prometheus, /debug/top-denied, /debug/config, /debug/pprof/. Another address
than one of this machine needs --admin-token; --metrics-addr opens a door for metrics alone.

State that several instances share lies in Redis, Valkey or memcached: --store, or REDIS_HOST and REDIS_PORT. While that is away a
check is answered as --on-store-error says, /readyz says degraded, and so does the answer.

Each setting is a flag, a variable and a line of the file, named alike: --http-addr, HEADGATE_HTTP_ADDR, http.addr. Flags win over
variables, and these over the file. headgate config print shows what is in force.

SIGTERM or SIGINT: /readyz says draining for --drain-delay; then no more connections are taken, those that wait are, and requests in
flight are answered for at most --shutdown-timeout. A second signal ends the process at once.

--http-tls-cert and --http-tls-key, and the same of --grpc- and --resp-, are files of a certificate, which are read again when they change;
--http-client-ca has clients show one, too.`

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
