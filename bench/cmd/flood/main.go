// Command flood attacks a bounded store with random keys, and checks whether the attack
// changes decisions on keys in regular use. It exits with status 1 if a decision
// changes.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

	"github.com/headgate/headgate/bench"
)

func main() {
	var f bench.Flood
	flag.IntVar(&f.Requests, "requests", 100_000_000, "number of requests with random keys")
	flag.IntVar(&f.Entries, "entries", 1_000_000, "maximum keys in the store")
	flag.IntVar(&f.Bytes, "bytes", 64_000_000, "memory limit of the store in bytes; 0 is unlimited")
	flag.IntVar(&f.Busy, "busy", 1000, "number of keys in regular use")
	flag.IntVar(&f.Every, "every", 100, "random requests per request with a busy key")
	results := flag.String("results", "", "`directory` for the report; empty: print only")
	flag.Parse()
	bench.Exit("flood", run(f, *results))
}

func run(f bench.Flood, results string) error {
	if f.Requests < 1 || f.Entries < 1 || f.Busy < 1 || f.Every < 1 {
		return fmt.Errorf("invalid flags %+v; -requests, -entries, -busy and -every must be 1 or more", f)
	}
	out, err := bench.OpenReport(results, "flood")
	if err != nil {
		return err
	}
	r, err := f.Run()
	if err == nil && r.Differing > 0 {
		err = fmt.Errorf("%d busy requests were decided differently; the first: %s", r.Differing, r.First)
	}
	printReport(out, f, r)
	return errors.Join(err, out.Close())
}

func printReport(out io.Writer, f bench.Flood, r bench.FloodReport) {
	const mb = 1e6
	line := func(name, format string, values ...any) {
		fmt.Fprintf(out, "%-22s "+format+"\n", append([]any{name}, values...)...)
	}
	line("random requests", "%d, %d of them not decided because of an error", r.Random, r.Errors)
	line("busy requests", "%d with %d keys, %d allowed", r.Busy, f.Busy, r.Allowed)
	line("decided differently", "%d", r.Differing)
	line("store limit", "%d keys, %.1f MB", f.Entries, float64(f.Bytes)/mb)
	line("stored at the end", "%d keys, %.1f MB", r.Stats.Keys, float64(r.Stats.Bytes)/mb)
	line("shared an overflow bucket", "%d", r.Stats.Overflowed)
	line("resident memory", "%.1f MB before, %.1f MB max, %.1f MB after (whole process)",
		float64(r.Before)/mb, float64(r.Peak)/mb, float64(r.After)/mb)
	line("checks per second", "%.0f on one goroutine", float64(r.Random+2*r.Busy)/r.Wall.Seconds())
}
