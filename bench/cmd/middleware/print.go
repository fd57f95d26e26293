package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/middleware"
)

// added returns the cost that the middleware of a row adds: the lower quartile over the
// rounds with the middleware, minus the lower quartile of the bare handler. Turns are
// short and many, and other processes on the machine can only make a turn longer. A low
// quantile is therefore the best estimate.
func added(rounds []middleware.Round, value func(middleware.Cost) float64) float64 {
	return quartile(rounds, func(r middleware.Round) float64 { return value(r.With) }) - bare(rounds, value)
}

func bare(rounds []middleware.Round, value func(middleware.Cost) float64) float64 {
	return quartile(rounds, func(r middleware.Round) float64 { return value(r.Bare) })
}

func quartile(rounds []middleware.Round, value func(middleware.Round) float64) float64 {
	return bench.LowerQuartile(bench.Values(rounds, value))
}

func nanos(c middleware.Cost) float64  { return c.Nanos }
func cpu(c middleware.Cost) float64    { return c.CPU }
func allocs(c middleware.Cost) float64 { return c.Allocs }

// print prints the table of the case c.
func print(out io.Writer, c middleware.Case, rounds int, turnTime time.Duration, found [][]middleware.Round) {
	rows, ours := middleware.Rows(), found[0]
	fmt.Fprintf(out, "\n%d clients, %d goroutines: cost added to a handler of %.0f ns (%d rounds of %v, lower quartiles)\n\n",
		c.Clients, c.Goroutines, bare(ours, nanos), rounds, turnTime)
	fmt.Fprint(out, "| | added ns | × headgate | added CPU ns | × headgate | added allocations | header fields |\n")
	fmt.Fprint(out, "|---|--:|--:|--:|--:|--:|---|\n")
	for i, row := range rows {
		ns, cpuTime := added(found[i], nanos), added(found[i], cpu)
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %.2f | %.2f | %s |\n", row.Name,
			ns, ns/added(ours, nanos), cpuTime, cpuTime/added(ours, cpu), added(found[i], allocs), row.Fields)
	}
	printFastest(out, rows, found)
}

// printFastest prints which peer is the fastest, first among all peers, then among the
// peers that send rate limit header fields.
func printFastest(out io.Writer, rows []middleware.Row, found [][]middleware.Round) {
	for _, sendsFields := range []bool{false, true} {
		best, label := -1, "The fastest peer"
		for i, row := range rows {
			if row.Ours || sendsFields && row.Fields == "none" {
				continue
			}
			if best < 0 || added(found[i], nanos) < added(found[best], nanos) {
				best = i
			}
		}
		if sendsFields {
			label = "The fastest peer that sends header fields"
		}
		fmt.Fprintf(out, "\n%s, %s, adds %.2f times the cost of headgate.\n", label, rows[best].Name, added(found[best], nanos)/added(found[0], nanos))
	}
}
