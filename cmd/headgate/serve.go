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
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/service/engine"
	"github.com/headgate/headgate/service/httpapi"
	"github.com/headgate/headgate/service/storeopen"
)

const serveHelp = `Serve answers checks over HTTP until it is told to stop. Without arguments it keeps its state in memory and listens on
127.0.0.1:8080:

    curl -d '{"limit":"5/1m","key":"you"}' http://127.0.0.1:8080/v1/check

A check is {"limit":"100/1m","key":"k"}, with "algorithm" (token_bucket) and "cost" (1) if wanted; or several, all or none:
{"checks":[{…},{…}]}. The answer is 200 or 429, with how much is left and how long to wait. /v1/peek asks and spends nothing,
/v1/refund gives back, /v1/reset forgets. /livez and /readyz are for health checks.

What was spent is known by key, algorithm and period: 20/1m sent after 10/1m on one key is a changed limit and keeps it, 10/s and
100/1m on one key are apart. Different limits of one algorithm and period on one key in one request are told apart by their order.

State that several instances share lies in Redis, Valkey or memcached: --store, or REDIS_HOST and REDIS_PORT. While that is away a
check is answered as --on-store-error says, /readyz says degraded, and so does the answer.

Each flag can also be set in the environment, as HEADGATE_HTTP_ADDR for --http-addr; the flag wins.

SIGTERM or SIGINT: /readyz says draining for --drain-delay; then no more connections are taken, and requests in flight are
answered for at most --shutdown-timeout. A second signal ends the process at once.`

// serveCommand is “headgate serve”.
func serveCommand() *cobra.Command {
	var s serveSettings
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Answer checks over HTTP",
		Long:  serveHelp,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := setFromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			s.chooseRedis(cmd.Flags(), os.LookupEnv)
			if err := s.validate(); err != nil {
				return err
			}
			return s.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	s.flags(cmd.Flags())
	return cmd
}

// run serves until ctx ends and everything in flight is answered.
func (s *serveSettings) run(ctx context.Context, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	s.storeOptions.Observer = storeLog{log}
	store, err := storeopen.Open(s.store, &s.storeOptions)
	if err != nil {
		return fmt.Errorf("%w (--store or %s)", err, environmentName("store"))
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	e, err := engine.New(store, &s.engine)
	if err != nil {
		return err
	}
	ln, err := listen(ctx, "HTTP", s.httpAddr, "http-addr")
	if err != nil {
		return err
	}
	s.http.Log = log
	s.httpapi.Store = storeopen.Name(s.store)
	server := httpapi.NewServer(httpapi.New(e, &s.httpapi), &s.http)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	log.Info("listening", "door", "http", "addr", ln.Addr().String(), "store", s.httpapi.Store)
	defer inBackground(ctx, func(ctx context.Context) { awaken(ctx, e) })()
	fmt.Fprintf(stderr, "try: curl -d '{\"limit\":\"5/1m\",\"key\":\"you\"}' http://%s/v1/check\n", reachable(ln.Addr()))
	select {
	case err := <-ended:
		return fmt.Errorf("the HTTP door broke: %w", err)
	case <-ctx.Done():
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // so that a second one ends the process
	s.stop(server, log)
	return <-ended
}

// stop lets load balancers turn away, then closes the door behind the last request.
func (s *serveSettings) stop(server *httpapi.Server, log *slog.Logger) {
	server.Drain()
	log.Info("draining", "delay", s.drainDelay, "timeout", s.shutdownTimeout)
	if s.drainDelay > 0 {
		time.Sleep(s.drainDelay)
	}
	ctx, cancel := context.WithTimeout(context.Background(), s.shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		log.Warn("requests were cut off", "cause", err)
		return
	}
	log.Info("stopped")
}

// listen opens a door's port, or says how to choose another.
func listen(ctx context.Context, door, addr, flag string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err == nil {
		return ln, nil
	}
	var cause error = err
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		cause = errno
	}
	return nil, fmt.Errorf("cannot listen for %s on %s: %w; choose another address with --%s or %s",
		door, addr, cause, flag, environmentName(flag))
}

// reachable is where a client on this machine finds a listener.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok || !tcp.IP.IsUnspecified() {
		return addr.String()
	}
	return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
}
