package main

import (
	"errors"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/service"
)

const serveHelp = `Run the rate limit service: HTTP API, Redis-compatible endpoint, Envoy rate
limit service and admin listener. By default, the service keeps its state in
memory and listens on 127.0.0.1, ports 8080, 6380, 8081 and 6070:

    curl -d '{"limit":"5/1m","key":"you"}' http://127.0.0.1:8080/v1/check
    redis-cli -p 6380 CL.THROTTLE you 4 5 60

Policies and routes are defined in a configuration file, which --config or
HEADGATE_CONFIG selects. The file is reloaded when it changes and on SIGHUP;
counters are kept. An invalid file never replaces a valid configuration:
headgate config check FILE lists its errors.

HTTP clients send checks to /v1/check. Proxies ask /v1/forward-auth whether to
allow a request; the routes in the configuration file apply to it. Redis
clients use CL.THROTTLE, THROTTLE or HG.CHECK. Envoy calls the gRPC listener;
its rules are in configuration files of envoyproxy/ratelimit (--envoy-config)
or come from a control plane (--envoy-xds-server). The admin listener serves
metrics, health and profiles; binding it to a non-loopback address requires
--admin-token.

With --store, several instances share their state in Redis, Valkey or
memcached. --on-store-error selects what is decided while the store is
unavailable.

Each setting can be given as a flag, an environment variable or a key in the
file. The names correspond: --http-addr, HEADGATE_HTTP_ADDR, http.addr. Flags
override variables, and variables override the file. The page
docs/reference/configuration.md describes all settings; headgate config print
prints the effective values.

On SIGTERM or SIGINT, /readyz reports draining for --drain-delay. Then no new
connections are accepted, and requests in flight have --shutdown-timeout to
complete. A second signal ends the process immediately.`

// serveCommand returns the command “headgate serve”.
func serveCommand() *cobra.Command {
	var flags settingFlags
	cmd := &cobra.Command{
		Use:        "serve",
		Short:      "Run the rate limit service: HTTP, Redis-compatible and Envoy APIs",
		Long:       serveHelp,
		Example:    "  headgate serve\n  headgate serve --config headgate.yaml --store redis://127.0.0.1:6379",
		SuggestFor: []string{"server", "start", "run", "up", "daemon"},
		Args:       flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			sources := flags.sources()
			c, err := sources.Load()
			if err != nil {
				return reported(err)
			}
			signal.Ignore(syscall.SIGPIPE) // by default, SIGPIPE ends a Go program whose stderr is a broken pipe
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
