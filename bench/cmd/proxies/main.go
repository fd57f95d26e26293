// Command proxies measures what a request through a real nginx costs when nginx asks Headgate about it, beside nginx's own
// limit_req and beside no limit at all, all in one run. wrk sends the requests; the application behind is an nginx that answers
// at once.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
)

// settings are the flags.
type settings struct {
	rounds   int
	each     time.Duration
	results  string
	headgate string
	file     string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 15, "rounds, in each of which every row has its turn")
	flag.DurationVar(&s.each, "time", time.Second, "how long a turn is, in whole seconds")
	flag.StringVar(&s.results, "results", "", "a directory to keep the tables in; they are only printed if empty")
	flag.StringVar(&s.headgate, "headgate", "../dist/headgate", "the program")
	flag.StringVar(&s.file, "file", "../docs/proxies/nginx-closed.conf", "nginx's configuration for asking Headgate")
	flag.Parse()
	bench.Exit("proxies", s.measure())
}

// row is one way through nginx.
type row struct {
	name, addr string
}

// load is how requests are sent.
type load struct {
	name           string
	threads, conns int
}

var loads = []load{{"1 connection, one request after another", 1, 1}, {"32 connections, as fast as they can", 2, 32}}

func (s settings) measure() (err error) {
	if s.rounds < 1 || s.each < time.Second {
		return errors.New("-rounds and -time: at least 1 and 1s")
	}
	site, err := open(s.headgate, s.file)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, site.close()) }()
	out, err := bench.OpenReport(s.results, "proxies")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	fmt.Fprintf(out, "%s, one worker; headgate serve on memory, one limit by address that nobody reaches\n", site.version)
	for _, l := range loads {
		turns, err := s.turns(site, l)
		if err != nil {
			return err
		}
		print(out, l, s, site.rows, turns)
	}
	return nil
}

// turns lets all rows take turns, round by round, a different one first each time.
func (s settings) turns(site *site, l load) ([][]turn, error) {
	all := make([][]turn, len(site.rows))
	for round := range s.rounds {
		for i := range site.rows {
			i = (i + round) % len(site.rows)
			t, err := site.turn(site.rows[i], l, s.each)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", site.rows[i].name, err)
			}
			all[i] = append(all[i], t)
		}
	}
	return all, nil
}

// print prints the table of a load: the upper quartile of rates over the rounds and the lower one of times, as whatever else
// runs on the machine can only make them worse.
func print(out io.Writer, l load, s settings, rows []row, turns [][]turn) {
	fmt.Fprintf(out, "\n%s (%d rounds of %v, the better quartiles)\n\n", l.name, s.rounds, s.each)
	fmt.Fprint(out, "| | requests/s | × no limit | p50 µs | added | p99 µs | added | ")
	fmt.Fprintln(out, "nginx µs of processor | headgate µs of processor |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	most := bench.UpperQuartile(bench.Values(turns[0], rate))
	for i, r := range rows {
		least := func(value func(turn) float64) float64 { return bench.LowerQuartile(bench.Values(turns[i], value)) }
		added := func(value func(turn) float64) float64 {
			return least(value) - bench.LowerQuartile(bench.Values(turns[0], value))
		}
		rate := bench.UpperQuartile(bench.Values(turns[i], rate))
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %+.0f | %.0f | %+.0f | %.1f | %.1f |\n", r.name,
			rate, rate/most, least(p50), added(p50), least(p99), added(p99), least(nginxCPU), least(headgateCPU))
	}
	for i, r := range rows {
		fmt.Fprintf(out, "# %s, requests/s in each round: %.0f\n", r.name, bench.Values(turns[i], rate))
	}
}

func rate(t turn) float64        { return t.rate }
func p50(t turn) float64         { return t.p50 }
func p99(t turn) float64         { return t.p99 }
func nginxCPU(t turn) float64    { return t.nginx }
func headgateCPU(t turn) float64 { return t.headgate }
