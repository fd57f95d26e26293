// Command middleware measures the cost that HTTP rate limit middlewares add to a
// trivial handler.
//
// Each row is measured in a separate process, so that the garbage of one row does not
// slow down another. In every round each row has one turn, which measures the bare
// handler first. The printed cost is a difference of lower quartiles over the rounds:
// with the middleware minus without it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/middleware"
	"github.com/headgate/headgate/bench/worker"
)

func main() {
	worker.Main(middleware.Job.Prepare)
	rounds := flag.Int("rounds", 41, "number of rounds; the lower quartile is printed")
	turnTime := flag.Duration("time", 10*time.Millisecond, "duration of a turn; each row has two per round")
	clients := flag.Int("clients", 100_000, "number of clients in the second table")
	results := flag.String("results", "", "`directory` for the tables; empty: print only")
	flag.Parse()
	bench.Exit("middleware", run(*rounds, *turnTime, *clients, *results))
}

func run(rounds int, turnTime time.Duration, clients int, results string) (err error) {
	if rounds < 1 || clients < 1 {
		return fmt.Errorf("-rounds is %d and -clients is %d; both must be 1 or more", rounds, clients)
	}
	out, err := bench.OpenReport(results, "middleware")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, n := range []int{1, clients} {
		for _, goroutines := range []int{1, 2} {
			c := middleware.Case{Clients: n, Goroutines: goroutines}
			found, err := measure(c, rounds, turnTime)
			if err != nil {
				return err
			}
			print(out, c, rounds, turnTime, found)
		}
	}
	return nil
}

// measure runs one turn of every row in each of the rounds.
func measure(c middleware.Case, rounds int, turnTime time.Duration) (found [][]middleware.Round, err error) {
	rows := middleware.Rows()
	found = make([][]middleware.Round, len(rows))
	workers := make([]*worker.Worker[time.Duration, middleware.Round], 0, len(rows))
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, row := range rows {
		w, err := worker.Start[time.Duration, middleware.Round](middleware.Job{Row: row.Name, Case: c})
		if err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	for n := range rounds {
		for i := range workers {
			i = (i + n) % len(workers) // each round starts with a different row
			r, err := workers[i].Run(turnTime)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[i].Name, err)
			}
			if r.Denied > 0 {
				return nil, fmt.Errorf("%s: %d requests were denied; the limit must not be reached", rows[i].Name, r.Denied)
			}
			found[i] = append(found[i], r)
		}
	}
	return found, nil
}
