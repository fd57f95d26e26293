package main

import (
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/middleware"
)

// added is what a row adds, over its rounds: the lower quartile with the middleware less that of the bare handler. Turns are short and
// many, and whatever else runs on the machine can only make one longer.
func added(rounds []middleware.Round, of func(middleware.Cost) float64) float64 {
	return quartile(rounds, func(r middleware.Round) float64 { return of(r.With) }) - bare(rounds, of)
}

func bare(rounds []middleware.Round, of func(middleware.Cost) float64) float64 {
	return quartile(rounds, func(r middleware.Round) float64 { return of(r.Bare) })
}

func quartile(rounds []middleware.Round, of func(middleware.Round) float64) float64 {
	return bench.LowerQuartile(bench.Values(rounds, of))
}

func nanos(c middleware.Cost) float64  { return c.Nanos }
func cpu(c middleware.Cost) float64    { return c.CPU }
func allocs(c middleware.Cost) float64 { return c.Allocs }

// print prints the table of a case.
func print(out io.Writer, c middleware.Case, rounds int, each time.Duration, found [][]middleware.Round) {
	rows, ours := middleware.Rows(), found[0]
	fmt.Fprintf(out, "\n%d clients, %d goroutines: added to a handler that takes %.0f ns (%d rounds of %v, lower quartiles)\n\n",
		c.Clients, c.Goroutines, bare(ours, nanos), rounds, each)
	fmt.Fprint(out, "| | ns added | × headgate | ns of processor added | × headgate | allocations added | header fields |\n")
	fmt.Fprint(out, "|---|--:|--:|--:|--:|--:|---|\n")
	for i, row := range rows {
		ns, ofCPU := added(found[i], nanos), added(found[i], cpu)
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %.2f | %.2f | %s |\n", row.Name,
			ns, ns/added(ours, nanos), ofCPU, ofCPU/added(ours, cpu), added(found[i], allocs), row.Fields)
	}
	printFastest(out, rows, found)
}

// printFastest names the fastest peer, among all and among those that tell the client anything.
func printFastest(out io.Writer, rows []middleware.Row, found [][]middleware.Round) {
	for _, telling := range []bool{false, true} {
		best, of := -1, "The fastest peer"
		for i, row := range rows {
			if row.Ours || telling && row.Fields == "none" {
				continue
			}
			if best < 0 || added(found[i], nanos) < added(found[best], nanos) {
				best = i
			}
		}
		if telling {
			of = "The fastest peer that sends header fields"
		}
		fmt.Fprintf(out, "\n%s, %s, adds %.2f times what headgate adds.\n", of, rows[best].Name, added(found[best], nanos)/added(found[0], nanos))
	}
}
