package main

import (
	"fmt"
	"io"
	"slices"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/stores"
)

// print prints one line for each row. The ratio is a median over the rounds: the rate of
// the row divided by that of redis_rate in the same round.
func (s settings) print(out io.Writer, rows []stores.Row, found [][]figures) {
	fmt.Fprintln(out, "| | checks/s | ÷ redis_rate | admitted, of the limit | largest excess, of the limit | calls to Redis/s |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|")
	base := slices.IndexFunc(rows, func(r stores.Row) bool { return r.Name == "redis_rate" })
	for i, r := range rows {
		value := func(field func(figures) float64) float64 { return bench.Median(bench.Values(found[i], field)) }
		ratio := "" // without the row redis_rate there is none
		if base >= 0 {
			ratio = fmt.Sprintf("%.1f", ratioTo(found[base], found[i]))
		}
		fmt.Fprintf(out, "| %s | %.0f | %s | %.1f %% | %.1f %% | %.0f |\n", r.Name, value(func(f figures) float64 { return f.checks }), ratio,
			100*value(func(f figures) float64 { return f.admitted }),
			100*slices.Max(bench.Values(found[i], func(f figures) float64 { return f.excess })),
			value(func(f figures) float64 { return f.calls }))
	}
	for i, r := range rows {
		if rate := bench.Median(bench.Values(found[i], func(f figures) float64 { return f.errors })); rate > 0 {
			fmt.Fprintf(out, "\n%s: %.0f errors per second\n", r.Name, rate)
		}
	}
}

func ratioTo(base, row []figures) float64 {
	var values []float64
	for i, f := range row {
		values = append(values, f.checks/base[i].checks)
	}
	return bench.Median(values)
}
