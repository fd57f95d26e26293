// Command memory measures the bytes per key of every limiter, each in a separate
// process.
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
	keys := flag.String("keys", "1000000,10000000", "comma-separated `numbers` of keys")
	rows := flag.String("rows", "", "comma-separated `names` of rows; empty: all with many keys")
	maxHeap := flag.Int64("most", 6, "maximum estimated heap in `GiB`; larger measurements are skipped")
	results := flag.String("results", "", "`directory` for the table; empty: print only")
	flag.Parse()
	bench.Exit("memory", run(*keys, *rows, *maxHeap<<30, *results))
}

func run(list, rows string, maxHeap int64, results string) error {
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
	return errors.Join(printTable(out, peers, counts, maxHeap), out.Close())
}

func printTable(out io.Writer, peers []bench.Peer, counts []int, maxHeap int64) error {
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
		if err := printRow(out, p, counts, maxHeap); err != nil {
			return err
		}
		fmt.Fprintln(out)
	}
	return nil
}

// printRow prints the row of a peer: the memory for each number of keys in counts. It
// estimates the memory from the previous measurement, and skips a measurement that
// would exceed maxHeap bytes.
func printRow(out io.Writer, p bench.Peer, counts []int, maxHeap int64) error {
	perKey := 0.0
	for _, n := range counts {
		if perKey*float64(n) > float64(maxHeap) {
			fmt.Fprintf(out, " skipped: about %.1f GiB |", perKey*float64(n)/(1<<30))
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

// measure measures the memory of a peer with the given number of keys, in a new
// process.
func measure(p bench.Peer, keys int) (m bench.Memory, err error) {
	w, err := worker.Start[int, bench.Memory](p.Name)
	if err != nil {
		return m, err
	}
	m, err = w.Run(keys)
	return m, errors.Join(err, w.Close())
}

// prepare returns the function with which a worker process measures the peer of that
// name.
func prepare(name string) (func(keys int) (bench.Memory, error), error) {
	peers, err := bench.Named(name)
	if err != nil {
		return nil, err
	}
	return func(keys int) (bench.Memory, error) { return bench.MeasureMemory(peers[0], keys) }, nil
}
