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

const benchHelp = `Bench asks a running service as fast as it answers, and prints how many calls it answered in a second and in what time:

    http://127.0.0.1:8080     POST /v1/check with --limit, or --policy
    grpc://127.0.0.1:8081     Envoy's ShouldRateLimit for --domain, with one entry --entry
    redis://127.0.0.1:6380    CL.THROTTLE with --limit, or HG.CHECK of --policy; redis://default:PASSWORD@…

https://, grpcs:// and rediss:// are the same over TLS: --ca says whom to trust, --cert and --key what to show. Each call takes one of --keys keys by chance. With --pipeline so many calls are
sent at a time on each connection, and their latency is that of the last answer; if one fails they all count as failed. The calls count: state is left behind under keys
that begin with bench:, until it expires.

A connection asks again once it has its answer, so a service that stops for a second costs each connection one slow call, and not all that
others would have made meanwhile. A call that has no answer within 10s fails. The load takes processors, too: on the machine of the service they share them. The exit status is 1 if a call failed.`

// benchCommand is “headgate bench”.
func benchCommand() *cobra.Command {
	opts, limit, files := load.Options{}, "", tlsfiles.Files{}
	cmd := &cobra.Command{
		Use:     "bench URL",
		Short:   "Load a running service at one of its doors, and say how fast it answers",
		Long:    benchHelp,
		Example: "  headgate bench http://127.0.0.1:8080\n  headgate bench redis://127.0.0.1:6380 --pipeline 16 --duration 30s",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if opts.Limit, err = headgate.ParseLimit(limit); err != nil {
				return fmt.Errorf("--limit: %w", err)
			}
			if opts.TLS, err = benchTLS(args[0], &files); err != nil {
				return err
			}
			if opts.Duration <= 0 {
				return fmt.Errorf("--duration is %v; accepted are 1ms to 24h", opts.Duration)
			}
			for name, n := range map[string]int{"connections": opts.Connections, "keys": opts.Keys, "pipeline": opts.Pipeline} {
				if n < 1 {
					return fmt.Errorf("--%s is %d; accepted are whole numbers from 1", name, n)
				}
			}
			return bench(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr(), args[0], &opts)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.IntVar(&opts.Connections, "connections", 50, "how many connections ask at a time, 1 to 10000")
	f.DurationVar(&opts.Duration, "duration", 10*time.Second, "how long to ask")
	f.IntVar(&opts.Keys, "keys", 10_000, "from how many keys each call takes one")
	f.IntVar(&opts.Pipeline, "pipeline", 1, "how many calls are sent at a time on a connection, 1 to 1000; 1 over HTTP")
	f.StringVar(&limit, "limit", "1000000/1s", "the limit that each call brings, over HTTP and of Redis clients")
	f.StringVar(&opts.Policy, "policy", "", "the policy that each call names, in place of a limit")
	f.StringVar(&opts.Domain, "domain", "headgate", "the domain of Envoy's calls")
	f.StringVar(&opts.Entry, "entry", "key", "the key of the entry of Envoy's calls")
	addTLSFlags(f, &files)
	return cmd
}

// bench loads a service and prints what was measured.
func bench(ctx context.Context, out, progress io.Writer, url string, opts *load.Options) error {
	run, err := load.Start(ctx, url, opts)
	if err != nil {
		return err
	}
	result := watched(run, progress, opts.Duration)
	printBench(out, result)
	switch {
	case result.Failed > 0:
		return fmt.Errorf("%d calls failed; the first: %w", result.Failed, result.First)
	case result.Calls() == 0:
		return fmt.Errorf("no call was answered within %v", opts.Duration)
	}
	return nil
}

// watched waits for a load and shows its rate on a terminal meanwhile.
func watched(run *load.Run, w io.Writer, duration time.Duration) *load.Result {
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
	line := "latency"
	for _, p := range []struct {
		name    string
		percent float64
	}{{"p50", 50}, {"p90", 90}, {"p99", 99}, {"p99.9", 99.9}, {"most", 100}} {
		line += fmt.Sprintf("  %s %v", p.name, r.Latency(p.percent))
	}
	fmt.Fprintln(w, line)
}

// addTLSFlags adds the flags of a load's TLS.
func addTLSFlags(f *pflag.FlagSet, files *tlsfiles.Files) {
	f.StringVar(&files.CA, "ca", "", "a `file` of the authority to trust, over TLS; without one the system's are")
	f.StringVar(&files.Cert, "cert", "", "a `file` of the certificate to show, where a door wants one")
	f.StringVar(&files.Key, "key", "", "the `file` of that certificate's key")
	f.StringVar(&files.PeerName, "server-name", "", "the `name` that the service's certificate must be for; without one the URL's host")
}

// benchTLS returns the TLS configuration for a load of url; nil if no flag was given.
func benchTLS(url string, files *tlsfiles.Files) (*tls.Config, error) {
	if *files == (tlsfiles.Files{}) {
		return nil, nil
	}
	if scheme, _, _ := strings.Cut(url, ":"); scheme != "https" && scheme != "grpcs" && scheme != "rediss" {
		return nil, errors.New("--ca, --cert, --key and --server-name are for https://, grpcs:// and rediss://")
	}
	config, err := files.Client()
	if err != nil {
		return nil, fmt.Errorf("--ca, --cert and --key: %w", err)
	}
	return config, nil
}
