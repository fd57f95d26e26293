package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/stores"
)

// print prints one line for each row. The ratio in a line is a median over the rounds:
// the rate of the first row divided by the rate of this row in the same round.
func (t table) print(out io.Writer, rows []stores.Row, turns [][]stores.Turn) {
	fmt.Fprintf(out, "| | decisions/s | %s ÷ row | p50 µs | p99 µs | denial rate | client CPU µs/decision | script calls/s | server CPU µs/decision | time in scripts |\n",
		rows[0].Name)
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
	for i, r := range rows {
		value := func(field func(stores.Turn) float64) float64 { return median(turns[i], field) }
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %.0f | %.1f %% | %.1f | %s |\n", r.Name,
			value(func(t stores.Turn) float64 { return t.Rate }), ratio(turns[0], turns[i]),
			value(func(t stores.Turn) float64 { return micros(t.P50) }), value(func(t stores.Turn) float64 { return micros(t.P99) }),
			100*value(func(t stores.Turn) float64 { return t.Denied }),
			value(func(t stores.Turn) float64 { return t.ClientCPU }), t.server(turns[i]))
	}
	for i, r := range rows {
		if rate := median(turns[i], func(t stores.Turn) float64 { return t.Errors }); rate > 0 {
			fmt.Fprintf(out, "\n%s: error rate %.2f %%\n", r.Name, 100*rate)
		}
	}
}

// server returns the last three columns of a row. For memcached they are empty, because
// only Redis reports their values.
func (t table) server(turns []stores.Turn) string {
	if t.memcached {
		return "| | "
	}
	return fmt.Sprintf("%.1f | %.1f | %.0f %%", median(turns, func(t stores.Turn) float64 { return t.Calls }),
		median(turns, func(t stores.Turn) float64 { return t.ServerCPU }), 100*median(turns, func(t stores.Turn) float64 { return t.InScripts }))
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
