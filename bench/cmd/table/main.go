// Command table measures every limiter in every case and prints tables that compare the
// limiters.
//
// Each limiter runs in a separate process. The limiters take turns in every round, so
// that a change in the machine's speed affects all of them. The printed figures are
// medians over the rounds.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/worker"
)

func main() {
	worker.Main(bench.Job.Prepare)
	var p plan
	keys := flag.String("keys", "1,100000,1000000", "comma-separated `numbers` of keys")
	denied := flag.String("denied", "10,90", "comma-separated denial rates in `percent`")
	goroutines := flag.String("goroutines", "1,2", "comma-separated `numbers` of goroutines")
	rows := flag.String("rows", "", "comma-separated `names` of rows; empty: all")
	flag.IntVar(&p.rounds, "rounds", 5, "number of rounds; medians are printed")
	flag.DurationVar(&p.time, "time", 500*time.Millisecond, "duration of a round")
	results := flag.String("results", "", "`directory` for raw rounds and tables; empty: print only")
	flag.Parse()
	var errs [4]error
	p.keys, errs[0] = bench.ParseNumbers("keys", *keys)
	p.denied, errs[1] = bench.ParseNumbers("denied", *denied)
	p.goroutines, errs[2] = bench.ParseNumbers("goroutines", *goroutines)
	p.peers, errs[3] = bench.Named(*rows)
	err := errors.Join(errs[:]...)
	if err == nil {
		err = run(p, *results)
	}
	bench.Exit("table", err)
}

// run measures all cases. Each raw round is appended to the result file when it is
// complete; the tables are written to that file and to standard output.
func run(p plan, results string) error {
	if p.rounds < 1 {
		return fmt.Errorf("-rounds is %d; must be 1 or more", p.rounds)
	}
	machine := bench.ThisMachine()
	raw, err := machine.Keep(results, "speed")
	if err != nil {
		return err
	}
	m, err := p.measure(raw)
	if err != nil {
		return errors.Join(err, raw.Close())
	}
	fmt.Println(machine)
	m.print(io.MultiWriter(os.Stdout, raw), p)
	return raw.Close()
}
