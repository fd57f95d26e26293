package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/demo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/httpapi"
	"github.com/headgate/headgate/cmd/headgate/internal/localaccess"
	"github.com/headgate/headgate/cmd/headgate/internal/logs"
	"github.com/headgate/headgate/cmd/headgate/internal/service"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
)

const demoHelp = `Serve a page that compares the algorithms live: it shows side by side what each
of them decides on the same traffic. Open the address that the command prints.
The page needs no files and no internet access. It uses the real limiters with
the selected store.

By default, the store is in memory. Select a shared store with --store, with
--redis-host and --redis-port, or with the environment variables REDIS_HOST and
REDIS_PORT.

The same port also serves the API of headgate serve for checks, so that you can
run the curl commands on the page. These checks consume units from the counters
that the page shows.

Each flag can also be set by an environment variable: --http-addr by
HEADGATE_HTTP_ADDR. The flag overrides the variable.`

// demoCommand returns the command “headgate demo”.
func demoCommand() *cobra.Command {
	var d demoSettings
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Serve a page that compares the algorithms live",
		Long:    demoHelp,
		Example: "  headgate demo\n  headgate demo --redis-host 127.0.0.1",
		Args:    flagsOnly,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := d.choose(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return d.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	d.flags(cmd.Flags())
	return cmd
}

// run serves the demo page until ctx ends.
func (d *demoSettings) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	store, err := storeopen.Open(d.store, &storeopen.Options{Budget: demoBudget, Observer: service.LogStoreEvents(log)})
	if err != nil {
		return fmt.Errorf("%w (--store or %s)", err, service.Variable("store"))
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	ln, err := d.listen(ctx)
	if err != nil {
		return err
	}
	defer ln.Close()
	e, err := engine.New(pageState{store}, nil)
	if err != nil {
		return err
	}
	url := "http://" + service.Reachable(ln.Addr())
	page, err := demo.New(store, &demo.Options{
		Store: storeopen.Name(d.store), OwnStore: service.NewPageStore, CheckURL: url + "/v1/check", Hosts: d.allowHost, Log: log,
	})
	if err != nil {
		return err
	}
	defer service.WarmUp(ctx, e)()
	server := newDemoServer(page, httpapi.New(e, &httpapi.Options{Health: httpapi.NewHealth(e, &httpapi.HealthOptions{Store: storeopen.Name(d.store)})}), d.allowHost, log)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ln) }()
	d.greet(stdout, url, ln.Addr())
	select {
	case err := <-ended:
		return fmt.Errorf("the server of the page failed: %w", err)
	case <-ctx.Done():
	}
	page.Close()
	return stopServer(server, ended)
}

// demoBudget is the time budget of a decision. The decisions of the page are not urgent,
// and a busy machine should not change them.
const demoBudget = time.Second

// stopServer shuts a server down. It cancels requests that are still in flight after
// three seconds.
func stopServer(server *http.Server, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // cancels the requests still in flight
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (d *demoSettings) greet(w io.Writer, url string, addr net.Addr) {
	if d.moved {
		fmt.Fprintf(w, "%s is in use, so the page is on a free port (--http-addr selects one).\n", defaultDemoAddr)
	}
	fmt.Fprintf(w, "Six limiters, the same requests: %s/\nstore: %s. Ctrl-C ends it.\n", url, storeopen.Name(d.store))
	if !localaccess.Addr(addr) {
		fmt.Fprintln(w, "Any client that can connect to this address can use the page and its checks.")
	}
}

// listen opens the listener of the page. If the default port is in use, it selects a
// free port.
func (d *demoSettings) listen(ctx context.Context) (net.Listener, error) {
	ln, err := service.Listen(ctx, "the page", d.httpAddr, "http-addr")
	if d.addrGiven || !errors.Is(err, syscall.EADDRINUSE) {
		return ln, err
	}
	d.moved = true
	return service.Listen(ctx, "the page", "127.0.0.1:0", "http-addr")
}

// newDemoServer returns an HTTP server for the page, and for the checks that the page's
// curl commands send.
func newDemoServer(page *demo.Handler, checks http.Handler, hosts []string, log *slog.Logger) *http.Server {
	mux := http.NewServeMux()
	mux.Handle("/", page)
	guarded := demo.Guard(checks, hosts...)
	for _, path := range []string{"/v1/", "/livez", "/readyz"} {
		mux.Handle(path, guarded)
	}
	return &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, ErrorLog: logs.ForHTTP(log),
	}
}

// pageState is the store for checks that clients send to the demo's port. A check with
// an inline limit uses the state that the page shows for the same key and algorithm, so
// a curl command consumes the units that the page shows. The period of the limit makes
// no difference.
type pageState struct{ headgate.Store }

// Bind binds a rule. A rule of an inline limit is bound in the scope of the page.
func (p pageState) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if strings.HasPrefix(rule.Scope, "inline:0:") {
		rule.Scope = demo.Scope
	}
	return p.Store.Bind(rule)
}
