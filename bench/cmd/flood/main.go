// Command flood attacks a bounded store with random keys and says whether the keys in regular use noticed. Its exit status is 1
// if they did.
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
	flag.IntVar(&f.Requests, "requests", 100_000_000, "requests with random keys")
	flag.IntVar(&f.Entries, "entries", 1_000_000, "keys that the store is bounded to")
	flag.IntVar(&f.Bytes, "bytes", 64_000_000, "bytes that the store is bounded to; 0 for no such bound")
	flag.IntVar(&f.Busy, "busy", 1000, "keys in regular use")
	flag.IntVar(&f.Every, "every", 100, "random requests between two with a busy key")
	results := flag.String("results", "", "a directory to keep the report in; it is only printed if empty")
	flag.Parse()
	bench.Exit("flood", run(f, *results))
}

func run(f bench.Flood, results string) error {
	if f.Requests < 1 || f.Entries < 1 || f.Busy < 1 || f.Every < 1 {
		return fmt.Errorf("all numbers must be at least 1: %+v", f)
	}
	out, err := bench.OpenReport(results, "flood")
	if err != nil {
		return err
	}
	r, err := f.Run()
	if err == nil && r.Differing > 0 {
		err = fmt.Errorf("%d busy requests were answered otherwise; the first: %s", r.Differing, r.First)
	}
	printReport(out, f, r)
	return errors.Join(err, out.Close())
}

func printReport(out io.Writer, f bench.Flood, r bench.FloodReport) {
	const mb = 1e6
	line := func(name, format string, values ...any) {
		fmt.Fprintf(out, "%-22s "+format+"\n", append([]any{name}, values...)...)
	}
	line("random requests", "%d, of which %d could not be decided", r.Random, r.Errors)
	line("busy requests", "%d over %d keys, %d admitted", r.Busy, f.Busy, r.Admitted)
	line("answered otherwise", "%d", r.Differing)
	line("bound", "%d keys, %.1f MB", f.Entries, float64(f.Bytes)/mb)
	line("held at the end", "%d keys, %.1f MB", r.Stats.Keys, float64(r.Stats.Bytes)/mb)
	line("shared an overflow bucket", "%d", r.Stats.Overflowed)
	line("resident memory", "%.1f MB before, %.1f MB at most, %.1f MB after (the whole process)",
		float64(r.Before)/mb, float64(r.Peak)/mb, float64(r.After)/mb)
	line("checks per second", "%.0f on one goroutine", float64(r.Random+2*r.Busy)/r.Wall.Seconds())
}
