// Command memory measures the bytes that every limiter keeps for each key, each in a process of its own.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/worker"
)

func main() {
	worker.Main(prepare)
	keys := flag.String("keys", "1000000,10000000", "numbers of keys, separated by commas")
	rows := flag.String("rows", "", "what to measure, separated by commas; everything that keeps keys if empty")
	most := flag.Int64("most", 6, "GiB of heap above which a measurement is not begun, going by the one before")
	results := flag.String("results", "", "a directory to keep the table in; it is only printed if empty")
	flag.Parse()
	bench.Exit("memory", run(*keys, *rows, *most<<30, *results))
}

func run(list, rows string, most int64, results string) error {
	peers, err := bench.Named(rows)
	if err != nil {
		return err
	}
	counts, err := bench.ParseNumbers("keys", list)
	if err != nil {
		return err
	}
	out, err := bench.OpenReport(results, "memory")
	if err != nil {
		return err
	}
	return errors.Join(printTable(out, peers, counts, most), out.Close())
}

func printTable(out io.Writer, peers []bench.Peer, counts []int, most int64) error {
	fmt.Fprint(out, "Bytes per key: live heap (resident memory)\n\n| |")
	for _, n := range counts {
		fmt.Fprintf(out, " %d keys |", n)
	}
	fmt.Fprintf(out, "\n|---|%s\n", strings.Repeat("--:|", len(counts)))
	for _, p := range peers {
		if p.NoLimiter || p.OneKey {
			continue
		}
		fmt.Fprintf(out, "| %s |", p.Name)
		if err := printRow(out, p, counts, most); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// printRow leaves out what would not fit, judged by the number of keys before it.
func printRow(out io.Writer, p bench.Peer, counts []int, most int64) error {
	perKey := 0.0
	for _, n := range counts {
		if perKey*float64(n) > float64(most) {
			fmt.Fprintf(out, " not run: about %.1f GiB |", perKey*float64(n)/(1<<30))
			continue
		}
		m, err := measure(p, n)
		if err != nil {
			return fmt.Errorf("%s with %d keys: %w", p.Name, n, err)
		}
		perKey = float64(m.Heap) / float64(n)
		fmt.Fprintf(out, " %.1f (%.1f) |", perKey, float64(m.RSS)/float64(n))
	}
	return nil
}

// measure measures a peer with a number of keys in a new process.
func measure(p bench.Peer, keys int) (m bench.Memory, err error) {
	w, err := worker.Start[int, bench.Memory](p.Name)
	if err != nil {
		return m, err
	}
	m, err = w.Run(keys)
	return m, errors.Join(err, w.Close())
}

// prepare returns how a worker process measures the named peer with a number of keys.
func prepare(name string) (func(keys int) (bench.Memory, error), error) {
	peers, err := bench.Named(name)
	if err != nil {
		return nil, err
	}
	return func(keys int) (bench.Memory, error) { return bench.MeasureMemory(peers[0], keys) }, nil
}
