package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/memstore"
	"github.com/headgate/headgate/replay"
)

const replayHelp = `Replay access logs against a limit, to see what the limit would have done to
past traffic.

Requests are decided in time order, each at the time in its log line. Logs are
in Combined or Common Log Format, or are JSON lines such as
{"ts_us":1747821903000000,"key":"203.0.113.9","cost":2} (cost is optional).
They may be gzipped. Without a FILE, or with -, standard input is read.

A JSON line may also be an operation with the field op: hold, commit, extend,
cancel, debit, up_to, refund or reset. For example:
{"ts_us":1,"key":"k","op":"hold","id":"a","cost":5,"ttl_us":60000000}
{"ts_us":9,"key":"k","op":"commit","id":"a","actual":2}

Write a limit as 10/s, 100/1m, 5/15m burst 20, 100/1m queue 50 for
leaky_bucket, 1000/month and 500/day in Europe/Berlin for calendar_window, or
16 concurrent for concurrency, which limits only the operation hold.
With several --policy flags, a request is allowed only if every limit allows
it; a denied request is charged to none of them. The algorithms are
token_bucket, gcra, token_bucket_interval, fixed_window, sliding_window,
sliding_log, leaky_bucket, calendar_window and concurrency.

With several algorithms, the report recommends the one that denies the fewest
keys. If it admits more than the limit in some period, the report also names an
algorithm that never does. With --curve, the report has the shares of keys and
requests that lower and higher limits deny, from a quarter of the limit to 16
times the limit, and names the lowest limit that denies at most 1 % of the keys.
The curve decides all requests again, under twelve limits.

--memory limits the use of memory. Requests that do not fit are written to a
temporary file in TMPDIR. Each store in memory may use as much again, and each
store for the recommendation and the curve a quarter of it. The holds of a log
need additional memory, about 1 KB for each hold that has not reached its
deadline, and 1/16 of --memory for each policy. In it, the replay remembers at
least the last 1 million holds that have expired, per 1 GiB of --memory. An
operation on an earlier one has the error unknown_hold, not expired_hold. A
gzipped log is decompressed on one core, so a plain log is read much faster.

With --store redis://… or memcached://…, the store makes the decisions. It too
uses the times in the log, so the results are the same. The keys are stored in
a separate namespace and removed at the end; in Redis, SCAN is used to find
them. A store error ends the replay.

The exit status is 1 if no line could be read, if a log is truncated (the lines
before the truncation are replayed and reported), or if an output could not be
written.`

const replayExamples = `  headgate replay --policy '10/s burst 20' access.log.gz
  headgate replay --policy 100/1m --policy 1000/1h --key ip+path \
      access.log.1 access.log
  headgate replay --policy 5/1m --html report.html access.log
  tail -n 100000 access.log | headgate replay --decisions - |
      grep '"allowed":false'`

// replayFlags are the values of the flags of “headgate replay”, before parsing.
type replayFlags struct {
	policies                                               []string
	algorithm, key, store, format, memory, decisions, html string
	over, onExpiry                                         string
	json, curve, algorithmNamed                            bool
}

func replayCommand() *cobra.Command {
	var f replayFlags
	cmd := &cobra.Command{
		Use:        "replay [flags] [FILE…|-]",
		Short:      "Replay access logs against a limit",
		Long:       replayHelp,
		Example:    replayExamples,
		SuggestFor: []string{"simulate", "analyze", "dry-run"},
		RunE:       func(cmd *cobra.Command, args []string) error { return f.run(cmd, args) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringArrayVar(&f.policies, "policy", []string{"10/s burst 20"}, "`limit`, repeatable: a request must be allowed by every limit, or none is charged")
	flags.StringVar(&f.algorithm, "algorithm", string(headgate.TokenBucket), "`name` of the algorithm, or all to compare all algorithms (default all with --html)")
	flags.StringVar(&f.over, "over", "owe", "excess of a commit over its hold: `owe` (may overspend the key) or clip")
	flags.StringVar(&f.onExpiry, "on-expiry", "", "units of a hold that expires: `keep` (they stay spent) or release; default keep, under concurrency release")
	flags.StringVar(&f.key, "key", "ip", "key of a request: one or more of the `fields` ip, user, method and path, such as ip+path")
	flags.StringVar(&f.store, "store", "memory://", "store `url`: memory://, redis://…, memcached://…")
	flags.StringVar(&f.format, "format", "", "log `format`: combined, common or jsonl; if empty, it is detected")
	flags.StringVar(&f.memory, "memory", "256MiB", "maximum `size` of requests and statistics in memory, and of each store in memory")
	flags.StringVar(&f.decisions, "decisions", "", "`file` for all decisions as JSON lines, or - for standard output")
	flags.StringVar(&f.html, "html", "", "`file` for the report as an HTML page with charts")
	flags.BoolVar(&f.curve, "curve", false, "replay lower and higher limits as well (default true with --html)")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON")
	return cmd
}

// replayGCPercent is the GOGC value of a replay. It is low so that the process needs
// little more memory than --memory: the heap grows by at most 25 % between two garbage
// collections.
const replayGCPercent = 25

// scratchShare is the part of --memory that each store for measurements may use: a
// quarter.
const scratchShare = 4

// replayInFlight is the number of decisions that a replay makes concurrently if the
// store is accessed over a network.
const replayInFlight = 256

// run replays the logs whose paths are in args.
func (f *replayFlags) run(cmd *cobra.Command, args []string) error {
	f.algorithmNamed = cmd.Flags().Changed("algorithm")
	f.setDefaults(cmd.Flags().Changed)
	opts, policies, err := f.parse()
	if err != nil {
		return err
	}
	logs, total, err := openLogs(args, cmd.InOrStdin())
	if err != nil {
		return err
	}
	if err := checkOutputs(args, cmd.InOrStdin(), f.decisions, f.html); err != nil {
		return err
	}
	progress := &progress{line: newStatusLine(cmd.ErrOrStderr()), total: total, curve: f.curve}
	opts.Progress = progress.show
	debug.SetGCPercent(replayGCPercent)
	open := func() (headgate.Store, error) { return openReplayStore(f.store, opts.Memory) }
	if storeopen.Networked(f.store) {
		opts.InFlight = replayInFlight
	}
	report, err := withDecisions(f.decisions, cmd.OutOrStdout(), func(w io.Writer) (*replay.Report, error) {
		opts.Decisions = w
		return replay.Run(cmd.Context(), logs, policies, open, opts)
	})
	progress.line.clear()
	if errors.Is(err, context.Canceled) {
		return errors.New("interrupted; no report was written")
	}
	if errors.Is(err, headgate.ErrUnsupported) && f.algorithm == "all" {
		return fmt.Errorf("%w; name one of them with --algorithm", err)
	}
	if report == nil {
		return err
	}
	return errors.Join(f.write(cmd, report), brokenLogs(report), err)
}

// setDefaults sets the flags whose default depends on other flags. changed reports
// whether a flag was given.
func (f *replayFlags) setDefaults(changed func(flag string) bool) {
	if f.html != "" && !changed("algorithm") {
		f.algorithm = "all"
	}
	if f.html != "" && !changed("curve") {
		f.curve = true
	}
	if !changed("policy") && headgate.Algorithm(f.algorithm).Windowed() {
		f.policies = []string{"10/s"} // window algorithms do not support a burst
	}
}

// write writes the report to the outputs that the flags select.
func (f *replayFlags) write(cmd *cobra.Command, report *replay.Report) error {
	out := cmd.OutOrStdout()
	if f.decisions == "-" {
		out = cmd.ErrOrStderr()
	}
	print := report.WriteText
	if f.json {
		print = func(w io.Writer) error { return writeJSON(w, report) }
	}
	if err := print(out); err != nil {
		return fmt.Errorf("cannot write the report: %w", err)
	}
	if f.html == "" || report.Requests == 0 {
		return nil
	}
	if err := writeWhole(f.html, report.WriteHTML); err != nil {
		return outputError("html", f.html, err)
	}
	return nil
}

// parse converts the flags to replay options and policies.
func (f *replayFlags) parse() (*replay.Options, []headgate.Policy, error) {
	opts := &replay.Options{StoreStats: storeStats, Curve: f.curve}
	limits, err := parseLimits(f.policies)
	if err != nil {
		return nil, nil, err
	}
	algorithms, err := f.chooseAlgorithms(limits)
	if err != nil {
		return nil, nil, err
	}
	if opts.Key, err = replay.ParseKey(f.key); err != nil {
		return nil, nil, fmt.Errorf("--key: %w", err)
	}
	if opts.Format, err = replay.ParseFormat(f.format); err != nil {
		return nil, nil, fmt.Errorf("--format: %w", err)
	}
	if opts.Memory, err = parseSize(f.memory); err != nil {
		return nil, nil, fmt.Errorf("--memory: %w", err)
	}
	opts.Scratch = func() (headgate.Store, error) { return openReplayStore("memory://", opts.Memory/scratchShare) }
	holds, err := parseHoldSettings(f.over, f.onExpiry)
	if err != nil {
		return nil, nil, err
	}
	policies := replay.SideBySide(limits, algorithms...)
	for i := range policies {
		policies[i].Holds = holds
	}
	return opts, policies, nil
}

// parseHoldSettings parses the values of --over and --on-expiry.
func parseHoldSettings(over, onExpiry string) (s headgate.HoldSettings, err error) {
	if s.ExcessPolicy, err = headgate.ParseExcessPolicy(over); err != nil {
		return s, fmt.Errorf("--over: %w", err)
	}
	if s.OnExpiry, err = headgate.ParseOnExpiry(onExpiry); err != nil {
		return s, fmt.Errorf("--on-expiry: %w", err)
	}
	return s, nil
}

func parseLimits(texts []string) ([]headgate.Limit, error) {
	limits := make([]headgate.Limit, len(texts))
	for i, text := range texts {
		var err error
		if limits[i], err = headgate.ParseLimit(text); err != nil {
			return nil, fmt.Errorf("--policy: %w", err)
		}
	}
	return limits, nil
}

// chooseAlgorithms returns the algorithms that the flag --algorithm names. With “all”,
// these are all algorithms that the limits distinguish: an algorithm with a calendar only
// if a limit has one, and no other if a limit has no period. Without the flag, the limits
// choose their algorithm.
func (f *replayFlags) chooseAlgorithms(limits []headgate.Limit) ([]headgate.Algorithm, error) {
	hasCalendar := slices.ContainsFunc(limits, func(l headgate.Limit) bool { return l.Calendar.Unit != 0 })
	noPeriod := slices.ContainsFunc(limits, func(l headgate.Limit) bool { return l.Period == 0 })
	concurrent := slices.ContainsFunc(limits, func(l headgate.Limit) bool { return l.Concurrent })
	if !f.algorithmNamed && noPeriod || f.algorithm == "all" && concurrent {
		return []headgate.Algorithm{""}, nil
	}
	if f.algorithm != "all" {
		a, err := algo.Named(headgate.Algorithm(f.algorithm))
		if err != nil {
			return nil, fmt.Errorf("--algorithm: %w, or all (compare all algorithms)", err)
		}
		return []headgate.Algorithm{a.Name}, nil
	}
	var names []headgate.Algorithm
	for _, a := range algo.Rates() {
		if a.Name.HasCalendar() && hasCalendar || !a.Name.HasCalendar() && !noPeriod {
			names = append(names, a.Name)
		}
	}
	return names, nil
}

// parseSize parses a number of bytes, optionally with a unit such as MB or MiB.
func parseSize(text string) (int64, error) {
	number := strings.TrimRight(text, "kKMGTiB")
	unit, known := map[string]int64{
		"": 1, "B": 1, "kB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}[text[len(number):]]
	n, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
	if err != nil || !known || n < replay.MinMemory/unit || n > 1<<50/unit {
		return 0, fmt.Errorf("%.40q is not a size from 16MiB to 1024TiB, such as 256MiB, 2GB or 1000000000", text)
	}
	return n * unit, nil
}

// openReplayStore opens the store at url. If url is memory://, the store is limited to
// the given number of bytes; parameters in the URL replace this limit.
func openReplayStore(url string, memory int64) (headgate.Store, error) {
	if url == "memory" || url == "memory://" {
		url = "memory://?max_bytes=" + strconv.FormatInt(memory, 10)
	}
	store, err := storeopen.OpenTemporary(url)
	if err != nil {
		return nil, fmt.Errorf("--store: %w", err)
	}
	return store, nil
}

func storeStats(store headgate.Store) replay.StoreStats {
	memory, ok := store.(*memstore.Store)
	if !ok {
		return replay.StoreStats{}
	}
	s := memory.Stats()
	return replay.StoreStats{Keys: int64(s.Keys), Bytes: s.Bytes, Overflowed: s.Overflowed}
}
