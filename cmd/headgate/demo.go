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

const demoHelp = `Demo serves a page on which you see what each algorithm does: all of them side by side on the same traffic, live.
Open the address that it prints. It needs no file and no network; the limiters on the page are the real ones, over the store that is chosen here.

By default that is one in memory. --redis-host and --redis-port, or REDIS_HOST and REDIS_PORT, or --store put it on a shared one.

The port also answers checks, as headgate serve does, for the curl lines on the page: they count on what the page shows.

Each flag can also be set in the environment, as HEADGATE_HTTP_ADDR for --http-addr; the flag wins.`

// demoCommand is “headgate demo”.
func demoCommand() *cobra.Command {
	var d demoSettings
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Serve a page that shows what each algorithm does",
		Long:    demoHelp,
		Example: "  headgate demo\n  headgate demo --redis-host 127.0.0.1",
		Args:    cobra.NoArgs,
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

// run serves until ctx ends.
func (d *demoSettings) run(ctx context.Context, stdout, stderr io.Writer) (err error) {
	log := slog.New(slog.NewTextHandler(stderr, nil))
	store, err := storeopen.Open(d.store, &storeopen.Options{Observer: service.LogStoreEvents(log)})
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
		return fmt.Errorf("the page's server broke: %w", err)
	case <-ctx.Done():
	}
	page.Close()
	return stopServer(server, ended)
}

// stopServer lets requests in flight be answered, for a moment.
func stopServer(server *http.Server, ended <-chan error) error {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	if err := server.Shutdown(ctx); err != nil {
		_ = server.Close() // it was told twice
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (d *demoSettings) greet(w io.Writer, url string, addr net.Addr) {
	if d.moved {
		fmt.Fprintf(w, "%s is taken, so this is on a free port (--http-addr chooses one).\n", defaultDemoAddr)
	}
	fmt.Fprintf(w, "Six limiters, the same requests: %s/\nstore: %s. Ctrl-C ends it.\n", url, storeopen.Name(d.store))
	if !localaccess.Addr(addr) {
		fmt.Fprintln(w, "Whoever reaches this address can use the page and its checks.")
	}
}

// listen opens the port. If the default one is taken, any free one will do.
func (d *demoSettings) listen(ctx context.Context) (net.Listener, error) {
	ln, err := service.Listen(ctx, "the page", d.httpAddr, "http-addr")
	if d.addrGiven || !errors.Is(err, syscall.EADDRINUSE) {
		return ln, err
	}
	d.moved = true
	return service.Listen(ctx, "the page", "127.0.0.1:0", "http-addr")
}

// newDemoServer serves the page, and checks beside it for the curl lines on it.
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

// pageState is the store as checks on the page's port see it: one that brings its own limit counts on the state that the page
// shows for its key and algorithm, whatever the period. So a curl line drains what is on the screen.
type pageState struct{ headgate.Store }

// Bind is that of the store, under the page's name.
func (p pageState) Bind(rule headgate.Rule) (headgate.Bound, error) {
	if strings.HasPrefix(rule.Scope, "inline:0:") {
		rule.Scope = demo.Scope
	}
	return p.Store.Bind(rule)
}
