// Command table measures every limiter in every case, in one run, and prints a table that compares them.
//
// Each limiter has a process of its own. Their rounds take turns, so that a machine that grows slower does so for all of them;
// what is printed is the median of each one's rounds.
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
	keys := flag.String("keys", "1,100000,1000000", "numbers of keys in use, separated by commas")
	denied := flag.String("denied", "10,90", "shares of denials in percent, separated by commas")
	goroutines := flag.String("goroutines", "1,2", "numbers of goroutines, separated by commas")
	rows := flag.String("rows", "", "what to measure, separated by commas; everything if empty")
	flag.IntVar(&p.rounds, "rounds", 5, "rounds of each measurement, of which the median is shown")
	flag.DurationVar(&p.time, "time", 500*time.Millisecond, "how long a round lasts")
	results := flag.String("results", "", "a directory to keep the raw rounds and the table in; nothing is kept if empty")
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

// run measures everything; the raw rounds go to the result file as they come, the table at the end to both.
func run(p plan, results string) error {
	if p.rounds < 1 {
		return fmt.Errorf("-rounds=%d: at least 1", p.rounds)
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
