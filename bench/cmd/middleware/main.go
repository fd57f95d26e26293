// Command middleware measures what HTTP middlewares that limit add to a trivial handler, beside each other in one run.
//
// Each row has a process of its own, so that none pays for another's garbage. In each round every row takes its turn, the bare
// handler first; what is printed is the lower quartile over the rounds with it less that without.
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
	rounds := flag.Int("rounds", 41, "rounds, in each of which every row has its turn; lower quartiles count")
	each := flag.Duration("time", 10*time.Millisecond, "how long a turn is; each row has two, one for the bare handler")
	clients := flag.Int("clients", 100_000, "clients of the second table; the first has one")
	results := flag.String("results", "", "a directory to keep the tables in; they are only printed if empty")
	flag.Parse()
	bench.Exit("middleware", run(*rounds, *each, *clients, *results))
}

func run(rounds int, each time.Duration, clients int, results string) (err error) {
	if rounds < 1 || clients < 1 {
		return errors.New("-rounds and -clients: at least 1")
	}
	out, err := bench.OpenReport(results, "middleware")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, n := range []int{1, clients} {
		for _, goroutines := range []int{1, 2} {
			c := middleware.Case{Clients: n, Goroutines: goroutines}
			found, err := measure(c, rounds, each)
			if err != nil {
				return err
			}
			print(out, c, rounds, each, found)
		}
	}
	return nil
}

// measure lets all rows take turns, round by round.
func measure(c middleware.Case, rounds int, each time.Duration) (found [][]middleware.Round, err error) {
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
			i = (i + n) % len(workers) // nobody is always behind the same
			r, err := workers[i].Run(each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", rows[i].Name, err)
			}
			if r.Denied > 0 {
				return nil, fmt.Errorf("%s: %d requests were denied, under a limit that nobody reaches", rows[i].Name, r.Denied)
			}
			found[i] = append(found[i], r)
		}
	}
	return found, nil
}
