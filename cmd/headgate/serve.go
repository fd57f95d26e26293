package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/config"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/forwardauth"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
	"github.com/headgate/headgate/cmd/headgate/internal/metrics"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			s := service{sources: flags.sources()}
			var err error
			if s.config, err = s.sources.Load(); err != nil {
				return reported(err)
			}
			return s.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	flags.add(cmd.Flags())
	return cmd
}

// service is what runs: everything that requests go through.
type service struct {
	sources config.Sources
	config  *config.Config // what it was started with
	lines   *logs.Queue    // of the log
	log     *slog.Logger
	engine  *engine.Engine
	live    *config.Live

	forwardAuth *forwardauth.Handler // nil if the door for HTTP is off
	envoy       *envoyRules
	health      *httpapi.Health // answers /livez and /readyz
	metrics     *metrics.Metrics
	denials     *metrics.Denials
}

// run serves until ctx ends and everything in flight is answered.
func (s *service) run(ctx context.Context, stderr io.Writer) (err error) {
	defer spareCollector()()
	defer s.openLog(stderr)()
	s.observe()
	store, err := s.openStore()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	s.measureStore(store)
	if s.engine, err = engine.New(store, s.config.Engine()); err != nil {
		return reported(s.config.Refused(err))
	}
	if err := s.openEnvoy(); err != nil {
		return err
	}
	defer s.follow(ctx)()
	end, first := s.followXDS(ctx)
	defer end()
	if !first {
		return nil
	}
	doors, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer s.followEnvoy(ctx)()
	ended := serveAll(doors)
	for _, d := range doors {
		s.log.Info("listening", "door", d.name, "addr", d.ln.Addr().String(), "store", storeopen.Name(string(s.config.Store)))
	}
	s.tellSystemd(systemdReady)
	defer inBackground(ctx, func(ctx context.Context) { awaken(ctx, s.engine) })()
	if s.config.Log.Format == "text" {
		try(s.lines, doors)
	}
	select {
	case err = <-ended:
	case <-ctx.Done():
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // so that a second one ends the process
	s.stop(doors)
	return errors.Join(err, <-ended)
}

// try says how to ask at the doors that are open.
func try(log io.Writer, doors []door) {
	for _, d := range doors {
		switch _, socket := d.ln.Addr().(*net.UnixAddr); {
		case d.name == "http":
			fmt.Fprintf(log, "try: curl -d '{\"limit\":\"5/1m\",\"key\":\"you\"}' %s://%s/v1/check\n", scheme(d.ln), reachable(d.ln.Addr()))
		case d.name == "resp" && socket:
			fmt.Fprintf(log, "try: redis-cli -s %s CL.THROTTLE you 4 5 60\n", d.ln.Addr())
		case d.name == "resp":
			host, port, _ := net.SplitHostPort(reachable(d.ln.Addr()))
			fmt.Fprintf(log, "try: redis-cli -h %s -p %s CL.THROTTLE you 4 5 60\n", host, port)
		}
	}
}

func (s *service) openStore() (headgate.Store, error) {
	opts := &storeopen.Options{Budget: s.config.StoreBudget, Observer: storeObservers{storeLog{s.log}, s.metrics}}
	if storeopen.Networked(string(s.config.Store)) {
		opts.Instances = max(1, s.config.Instances) // also where no policy says local yet: a reload may bring one that does
	}
	store, err := storeopen.Open(string(s.config.Store), opts)
	if err != nil {
		return nil, fmt.Errorf("%w (%s)", err, s.config.Origins["store"])
	}
	return store, nil
}

// stop lets load balancers turn away, then closes the doors behind the last request.
func (s *service) stop(doors []door) {
	s.tellSystemd(systemdStopping)
	for _, d := range doors {
		if server, ok := d.server.(interface{ Drain() }); ok {
			server.Drain()
		}
	}
	if s.health != nil {
		s.health.Drain()
	}
	s.metrics.Draining()
	s.log.Info("draining", "delay", s.config.DrainDelay.String(), "timeout", s.config.ShutdownTimeout.String())
	if s.config.DrainDelay > 0 {
		time.Sleep(s.config.DrainDelay)
	}
	operators := slices.DeleteFunc(slices.Clone(doors), func(d door) bool { return !d.forOperators() })
	others := slices.DeleteFunc(doors, door.forOperators)
	s.letIn(others)
	ctx, cancel := context.WithTimeout(context.Background(), s.config.ShutdownTimeout)
	defer cancel()
	err := shutdown(ctx, others)
	if err := errors.Join(err, shutdown(ctx, operators)); err != nil {
		s.log.Warn("requests were cut off", "cause", err)
		return
	}
	s.log.Info("stopped")
}

// settleTime is for connections that wait to be accepted.
const settleTime = 50 * time.Millisecond

// letIn takes in who waits at a door, and nobody behind them.
func (s *service) letIn(doors []door) {
	for _, d := range doors {
		if err := quiet(d.ln); err != nil {
			s.log.Debug("a door closes before whoever waits at it", "door", d.name, "cause", err)
		}
	}
	time.Sleep(min(settleTime, s.config.ShutdownTimeout))
}

// reachable is where a client on this machine finds a listener.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}
