// Command proxies measures what an nginx auth_request to Headgate costs. In the same
// run it measures nginx's own limit_req, and nginx without a limit, for comparison. wrk
// sends the requests. The application behind the measured nginx is a second nginx,
// which responds immediately.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/headgate/headgate/bench"
)

// settings contains the values of the flags.
type settings struct {
	rounds   int
	turnTime time.Duration
	results  string
	headgate string
	file     string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 15, "number of rounds")
	flag.DurationVar(&s.turnTime, "time", time.Second, "duration of a turn, in whole seconds")
	flag.StringVar(&s.results, "results", "", "`directory` for the tables; empty: print only")
	flag.StringVar(&s.headgate, "headgate", "../dist/headgate", "headgate `program`")
	flag.StringVar(&s.file, "file", "../docs/guides/proxies/nginx-closed.conf", "nginx `configuration`")
	flag.Parse()
	bench.Exit("proxies", s.measure())
}

// row is a row of the table: one server of the measured nginx.
type row struct {
	name, addr string
}

// load is a load that wrk generates with a number of threads and connections.
type load struct {
	name           string
	threads, conns int
}

var loads = []load{{"1 connection, sequential requests", 1, 1}, {"32 connections, maximum rate", 2, 32}}

func (s settings) measure() (err error) {
	if s.rounds < 1 || s.turnTime < time.Second {
		return fmt.Errorf("-rounds is %d and -time is %v; must be at least 1 and 1s", s.rounds, s.turnTime)
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
	fmt.Fprintf(out, "%s, one worker; headgate serve in memory, one limit that is never reached\n", site.version)
	for _, l := range loads {
		turns, err := s.turns(site, l)
		if err != nil {
			return err
		}
		print(out, l, s, site.rows, turns)
	}
	return nil
}

// turns measures each row once in every round. Each round starts with a different row.
func (s settings) turns(site *site, l load) ([][]turn, error) {
	all := make([][]turn, len(site.rows))
	for round := range s.rounds {
		for i := range site.rows {
			i = (i + round) % len(site.rows)
			t, err := site.turn(site.rows[i], l, s.turnTime)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", site.rows[i].name, err)
			}
			all[i] = append(all[i], t)
		}
	}
	return all, nil
}

// print prints the table of one load: upper quartiles of the rates and lower quartiles
// of the latencies over the rounds, because other processes on the machine can only
// make both worse.
func print(out io.Writer, l load, s settings, rows []row, turns [][]turn) {
	fmt.Fprintf(out, "\n%s (%d rounds of %v, upper quartile of rates, lower quartile of times)\n\n", l.name, s.rounds, s.turnTime)
	fmt.Fprint(out, "| | requests/s | × no limit | p50 µs | added µs | p99 µs | added µs | ")
	fmt.Fprintln(out, "nginx CPU µs/request | headgate CPU µs/request |")
	fmt.Fprintln(out, "|---|--:|--:|--:|--:|--:|--:|--:|--:|")
	baseline := bench.UpperQuartile(bench.Values(turns[0], rate))
	for i, r := range rows {
		lower := func(value func(turn) float64) float64 { return bench.LowerQuartile(bench.Values(turns[i], value)) }
		added := func(value func(turn) float64) float64 {
			return lower(value) - bench.LowerQuartile(bench.Values(turns[0], value))
		}
		rate := bench.UpperQuartile(bench.Values(turns[i], rate))
		fmt.Fprintf(out, "| %s | %.0f | %.2f | %.0f | %+.0f | %.0f | %+.0f | %.1f | %.1f |\n", r.name,
			rate, rate/baseline, lower(p50), added(p50), lower(p99), added(p99), lower(nginxCPU), lower(headgateCPU))
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
