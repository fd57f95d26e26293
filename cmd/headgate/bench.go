package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/load"
	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

const benchHelp = `Measure the throughput and the latency of a running service:

    http://127.0.0.1:8080   POST /v1/check with --limit, or with --policy
    grpc://127.0.0.1:8081   Envoy's ShouldRateLimit with --domain and --entry
    redis://127.0.0.1:6380  CL.THROTTLE with --limit, or HG.CHECK with --policy;
                            with a password: redis://default:PASSWORD@host:port

https://, grpcs:// and rediss:// use TLS; see --ca, --cert and --key. If the
HTTP API has tokens, bench needs one with the scope check.

Each call uses a key that is chosen randomly from --keys keys. The calls
consume units. Their state is stored under keys that begin with bench:, and
stays in the store until it expires.

A connection sends its next call when it has received the response to the
previous one. If the service pauses for a second, each connection therefore
measures a single slow call. With --pipeline N, a connection sends N calls
together: their latency is the time until the last response, and if one of
them fails, all N count as failed. A call without a response fails after 10s.
If bench runs on the same machine as the service, they share the CPU, so the
throughput is lower and the latency is higher.

The exit status is 1 if a call failed.`

// benchCommand returns the command “headgate bench”.
func benchCommand() *cobra.Command {
	opts, limit, files, token := load.Options{}, "", tlsfiles.Files{}, tokenFlag{}
	cmd := &cobra.Command{
		Use:   "bench URL",
		Short: "Measure the throughput and latency of a running service",
		Long:  benchHelp,
		Example: "  headgate bench http://127.0.0.1:8080\n" +
			"  headgate bench redis://127.0.0.1:6380 --pipeline 16 --duration 30s",
		SuggestFor: []string{"benchmark", "load", "loadtest"},
		Args:       oneArgument("URL"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if err := exclusive(cmd, "policy", "limit"); err != nil {
				return err
			}
			if opts.Limit, err = headgate.ParseLimit(limit); err != nil {
				return fmt.Errorf("--limit: %w", err)
			}
			if opts.TLS, err = benchTLS(args[0], &files); err != nil {
				return err
			}
			if opts.Token, err = token.value(); err != nil {
				return err
			}
			if opts.Duration <= 0 {
				return fmt.Errorf("--duration is %v; must be 1ms to 24h", opts.Duration)
			}
			for name, n := range map[string]int{"connections": opts.Connections, "keys": opts.Keys, "pipeline": opts.Pipeline} {
				if n < 1 {
					return fmt.Errorf("--%s is %d; must be 1 or more", name, n)
				}
			}
			return bench(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&opts.Connections, "connections", 50, "concurrent connections, 1 to 10000")
	f.DurationVar(&opts.Duration, "duration", 10*time.Second, "duration of the load")
	f.IntVar(&opts.Keys, "keys", 10_000, "number of keys that the calls choose from")
	f.IntVar(&opts.Pipeline, "pipeline", 1, "calls in flight per connection; must be 1 for HTTP")
	f.StringVar(&limit, "limit", "1000000/1s", "limit of each call (HTTP, Redis)")
	f.StringVar(&opts.Policy, "policy", "", "policy of each call, instead of a limit (HTTP, Redis)")
	f.StringVar(&opts.Domain, "domain", "headgate", "domain of Envoy calls")
	f.StringVar(&opts.Entry, "entry", "key", "key of the descriptor entry in Envoy calls")
	token.add(f, "http-token", "`file` with the token of the HTTP API; or set HEADGATE_HTTP_TOKEN")
	addTLSFlags(f, &files)
	return cmd
}

// bench puts load on the service at url and prints the measured throughput and latency.
func bench(ctx context.Context, out, progress io.Writer, url string, opts *load.Options) error {
	run, err := load.Start(ctx, url, opts)
	if err != nil {
		return err
	}
	result := waitWithProgress(run, progress, opts.Duration)
	printBench(out, result)
	switch {
	case result.Failed > 0:
		return fmt.Errorf("%d calls failed; the first: %w", result.Failed, result.First)
	case result.Calls() == 0:
		return fmt.Errorf("no call was answered within %v", opts.Duration)
	}
	return nil
}

// waitWithProgress waits until the load has ended. If w is a terminal, it shows the
// current rate until then.
func waitWithProgress(run *load.Run, w io.Writer, duration time.Duration) *load.Result {
	line, ended, cleared := newStatusLine(w), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(cleared)
		defer line.clear()
		for before := run.Now(); ; {
			select {
			case <-ended:
				return
			case <-time.After(2 * statusInterval):
			}
			now := run.Now()
			rate := float64(now.Calls()-before.Calls()) / (now.Took - before.Took).Seconds()
			line.show(func() string {
				return fmt.Sprintf("%4.1fs of %v: %.0f/s, %d denied, %d failed", now.Took.Seconds(), duration, rate, now.Denied, now.Failed)
			})
			before = now
		}
	}()
	result := run.Wait()
	close(ended)
	<-cleared
	return result
}

func printBench(w io.Writer, r *load.Result) {
	fmt.Fprintf(w, "calls    %d in %.2fs: %.0f/s\n", r.Calls(), r.Took.Seconds(), r.PerSecond())
	fmt.Fprintf(w, "answers  %d allowed, %d denied, %d failed\n", r.Allowed, r.Denied, r.Failed)
	if r.Calls() == 0 {
		return
	}
	heading := "latency"
	for _, p := range []struct {
		name    string
		percent float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"max", 100}} {
		fmt.Fprintf(w, "%-7s  %-5s  %v\n", heading, p.name, r.Latency(p.percent))
		heading = ""
	}
}

// addTLSFlags adds the flags that set the TLS files of a client.
func addTLSFlags(f *pflag.FlagSet, files *tlsfiles.Files) {
	f.StringVar(&files.CA, "ca", "", "CA `file` for the service; if empty, the system's CAs are used")
	f.StringVar(&files.Cert, "cert", "", "client certificate chain `file` (PEM)")
	f.StringVar(&files.Key, "key", "", "private key `file` of the client certificate (PEM)")
	f.StringVar(&files.PeerName, "server-name", "", "DNS `name` in the service's certificate; if empty, the host in the URL")
}

// benchTLS returns the TLS configuration for a load test of url, or nil if no TLS flag
// was given.
func benchTLS(url string, files *tlsfiles.Files) (*tls.Config, error) {
	if *files == (tlsfiles.Files{}) {
		return nil, nil
	}
	if scheme, _, _ := strings.Cut(url, ":"); scheme != "https" && scheme != "grpcs" && scheme != "rediss" {
		return nil, errors.New("--ca, --cert, --key and --server-name require an https://, grpcs:// or rediss:// URL")
	}
	config, err := files.Client()
	if err != nil {
		return nil, fmt.Errorf("--ca, --cert and --key: %w", err)
	}
	return config, nil
}
