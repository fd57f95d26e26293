package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/stores"
)

// print has a line for each row. A ratio is the median of those within a round, of the first row's rate by this one's.
func (t table) print(out io.Writer, rows []stores.Row, turns [][]stores.Turn) {
	fmt.Fprintf(out, "| | decisions a second | %s is × | p50, µs | p99, µs | denied | CPU here, µs | script calls a second | CPU of the server, µs | in scripts |\n",
		rows[0].Name)
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for i, r := range rows {
		of := func(field func(stores.Turn) float64) float64 { return median(turns[i], field) }
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %.0f | %.1f %% | %.1f | %s |\n", r.Name,
			of(func(t stores.Turn) float64 { return t.Rate }), ratio(turns[0], turns[i]),
			of(func(t stores.Turn) float64 { return micros(t.P50) }), of(func(t stores.Turn) float64 { return micros(t.P99) }),
			100*of(func(t stores.Turn) float64 { return t.Denied }),
			of(func(t stores.Turn) float64 { return t.Here }), t.server(turns[i]))
	}
	for i, r := range rows {
		if share := median(turns[i], func(t stores.Turn) float64 { return t.Errors }); share > 0 {
			fmt.Fprintf(out, "\n%s could not decide %.2f %% of its checks.\n", r.Name, 100*share)
		}
	}
}

// server are the last three columns, which only Redis can fill.
func (t table) server(turns []stores.Turn) string {
	if t.memcached {
		return "| | "
	}
	return fmt.Sprintf("%.1f | %.1f | %.0f %%", median(turns, func(t stores.Turn) float64 { return t.Calls }),
		median(turns, func(t stores.Turn) float64 { return t.There }), 100*median(turns, func(t stores.Turn) float64 { return t.Busy }))
}

func micros(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1000 }

func median(turns []stores.Turn, field func(stores.Turn) float64) float64 {
	return bench.Median(bench.Values(turns, field))
}

func ratio(first, turns []stores.Turn) float64 {
	var values []float64
	for i, t := range turns {
		values = append(values, first[i].Rate/t.Rate)
	}
	return bench.Median(values)
}
