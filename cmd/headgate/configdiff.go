package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/routing"
	"github.com/headgate/headgate/replay"
)

const configDiffHelp = `Replay access logs under two configuration files, to see which requests the new
file would have denied that the old one allowed, and the other way round.

Each request is decided at the time in its log line, by all policies that the
routes of each file select, with overrides, enforcement and shadow mode. Both
files start with unused keys and a store in memory. The formats of logs are
those of headgate replay.

A log has no host and no header fields. --host is the host of all requests.
Keys made of header fields are empty, with a warning.
With --policy, the routes do not matter: every request is a check of this policy
in both files, with the key that --key makes from the log, as in headgate
replay. JSON lines contain a key, so they require --policy.

The exit status is 1 if no line could be read or a log is truncated.`

const configDiffExamples = `  headgate config diff headgate.yaml new.yaml --log access.log.1
  headgate config diff headgate.yaml new.yaml --log checks.jsonl --policy api`

// configDiff has the flags of “headgate config diff”.
type configDiff struct {
	logs                      []string
	format, memory            string
	policy, key, host         string
	json                      bool
	keyOf                     replay.Key
	olds, news                *dryRun
	count                     diffCounter
	requests, undecided, bare int64 // bare are JSON lines without --policy
}

func configDiffCommand() *cobra.Command {
	var d configDiff
	cmd := &cobra.Command{
		Use:        "diff OLD NEW --log FILE",
		Short:      "Compare what two configuration files deny in access logs",
		Long:       configDiffHelp,
		Example:    configDiffExamples,
		SuggestFor: []string{"compare", "preview", "dry-run"},
		Args:       d.checkArguments,
		RunE:       func(cmd *cobra.Command, args []string) error { return d.run(cmd, args[0], args[1]) },

		DisableFlagsInUseLine: true,
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&d.logs, "log", nil, "`file` with requests, repeatable, or - for standard input")
	flags.StringVar(&d.format, "format", "", "log `format`: combined, common or jsonl; if empty, it is detected")
	flags.StringVar(&d.host, "host", "", "`host` of the requests, which logs do not contain")
	flags.StringVar(&d.policy, "policy", "", "name of a `policy` that every request checks, instead of routes")
	flags.StringVar(&d.key, "key", "ip", "key of a request with --policy: one or more of the `fields` ip, user, method and path")
	flags.StringVar(&d.memory, "memory", "256MiB", "maximum `size` of requests in memory, and of each of the two stores")
	flags.BoolVar(&d.json, "json", false, "print the result as JSON")
	return cmd
}

func (d *configDiff) checkArguments(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) != 2:
		return fmt.Errorf("got %d configuration files, want an old and a new one; usage: %s", len(args), cmd.UseLine())
	case len(d.logs) == 0:
		return errors.New("--log is missing: the requests to decide under both files, such as --log access.log")
	case d.policy == "" && cmd.Flags().Changed("key"):
		return errors.New("--key is the key of a check and requires --policy; without it, the routes of the files make the keys")
	}
	return nil
}

func (d *configDiff) run(cmd *cobra.Command, oldPath, newPath string) (err error) {
	opts := &replay.Options{}
	if opts.Format, err = replay.ParseFormat(d.format); err != nil {
		return fmt.Errorf("--format: %w", err)
	}
	if opts.Memory, err = parseSize(d.memory); err != nil {
		return fmt.Errorf("--memory: %w", err)
	}
	if d.keyOf, err = replay.ParseKey(d.key); err != nil {
		return fmt.Errorf("--key: %w", err)
	}
	if d.olds, err = newDryRun(oldPath, d.policy, opts.Memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.olds.close()) }()
	if d.news, err = newDryRun(newPath, d.policy, opts.Memory); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.news.close()) }()
	d.warn(cmd.ErrOrStderr())
	return d.replay(cmd, opts)
}

// replay decides the requests of the logs under both files, and prints the result.
func (d *configDiff) replay(cmd *cobra.Command, opts *replay.Options) error {
	logs, total, err := openLogs(d.logs, cmd.InOrStdin())
	if err != nil {
		return err
	}
	progress := &progress{line: newStatusLine(cmd.ErrOrStderr()), total: total}
	opts.Progress = progress.show
	debug.SetGCPercent(replayGCPercent)
	report, skipped, err := replay.Each(cmd.Context(), logs, opts, func(q *replay.Request) error { return d.decide(cmd.Context(), q) })
	progress.line.clear()
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; no report was written")
	}
	if err != nil {
		return err
	}
	if d.requests == 0 && d.bare > 0 {
		return errors.New("JSON lines contain a key and no path, so no route can select policies; name the policy with --policy")
	}
	result := d.result(report, skipped)
	print := result.print
	if d.json {
		print = func(w io.Writer) error { return writeJSON(w, result) }
	}
	return errors.Join(print(cmd.OutOrStdout()), brokenLogs(report))
}

// decide decides a request under both files, and counts the difference.
func (d *configDiff) decide(ctx context.Context, q *replay.Request) error {
	if q.IsJSON() && d.policy == "" {
		d.bare++
		return nil
	}
	before, err := d.olds.decide(ctx, d, q)
	if err != nil {
		return err
	}
	after, err := d.news.decide(ctx, d, q)
	if err != nil {
		return err
	}
	d.requests++
	if before.failed || after.failed {
		d.undecided++
		return nil
	}
	name := q.Address
	if d.policy != "" {
		name = d.keyOf.Of(q)
	}
	d.count.add(name, &before, &after)
	return nil
}

// checks appends the checks of a request under the routes of one configuration.
func (d *configDiff) checks(dst []engine.Check, active *engine.ActiveConfig, q *replay.Request) ([]engine.Check, error) {
	if d.policy != "" {
		return append(dst, engine.Check{Policy: d.policy, Key: d.keyOf.Of(q), Cost: q.Cost, Composed: true}), nil
	}
	r := &routing.Request{Method: q.Method, Host: d.host, Path: q.Path}
	r.ClientAddr, _ = netip.ParseAddr(q.Address) // an invalid address is the key “unknown”
	selected, err := active.Routes().Select(nil, "", r)
	for _, pk := range selected {
		dst = append(dst, engine.Check{Policy: pk.Policy, Key: pk.Key, Cost: q.Cost, Composed: true})
	}
	return dst, err
}

// warn warns about keys that a log does not contain.
func (d *configDiff) warn(w io.Writer) {
	if d.policy != "" {
		return
	}
	for _, run := range []*dryRun{d.olds, d.news} {
		for _, warning := range run.missing(d.host) {
			fmt.Fprintf(w, "%s: warning: %s\n", run.path, warning)
		}
	}
}
