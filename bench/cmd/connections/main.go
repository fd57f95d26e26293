// Command connections attacks the listeners of a headgate process with connections that
// are idle, unfinished, slow, unread or large. It reports the memory of the process, the
// number of connections that stay open, and whether another client is served meanwhile.
package main

import (
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/bench"
)

// options are the flags.
type options struct {
	headgate string
	duration time.Duration
	factor   float64
	tls      bool
	only     string
	limit    int
}

func main() {
	var o options
	flag.StringVar(&o.headgate, "headgate", "headgate", "`path` of the program")
	flag.DurationVar(&o.duration, "duration", 8*time.Second, "duration of each attack")
	flag.Float64Var(&o.factor, "factor", 1, "factor for the number of connections of each attack")
	flag.BoolVar(&o.tls, "tls", false, "use TLS")
	flag.StringVar(&o.only, "only", "", "comma-separated `attacks`, such as grpc/held; empty: all")
	flag.IntVar(&o.limit, "limit", 512, "maximum resident memory in MB")
	flag.Parse()
	bench.Exit("connections", run(&o))
}

// run runs all attacks. It returns an error if the memory exceeded the limit or another
// client was not served.
func run(o *options) error {
	var failed []error
	fmt.Printf("%-14s %11s %9s %9s %9s %9s %9s %9s\n", "attack", "connections", "open", "RSS start", "RSS max", "requests", "failed", "p99 ms")
	for _, a := range attacks {
		if o.only != "" && !slices.Contains(strings.Split(o.only, ","), a.name()) {
			continue
		}
		r, err := a.run(o)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name(), err)
		}
		fmt.Printf("%-14s %11d %9d %9.0f %9.0f %9d %9d %9.0f\n", a.name(), r.connections, r.open, r.before, r.max, r.good.requests, r.good.failed, r.good.p99())
		if r.max > float64(o.limit) {
			failed = append(failed, fmt.Errorf("%s: %.0f MB resident; want at most %d", a.name(), r.max, o.limit))
		}
	}
	return errors.Join(failed...)
}

// result is the result of one attack. Memory is in MB.
type result struct {
	connections int
	open        int64
	before, max float64
	good        goodClient
}

// run starts a process, attacks it, and stops it.
func (a *attack) run(o *options) (result, error) {
	p, err := start(o, a.listener)
	if err != nil {
		return result{}, err
	}
	defer p.stop()
	r := result{connections: int(float64(a.connections) * o.factor), before: p.rss()}
	good := make(chan goodClient, 1)
	end := make(chan struct{})
	go func() { good <- runGoodClient(p, a.listener, end) }()
	time.Sleep(time.Second / 2)
	attackers := a.begin(p, r.connections, end)
	for until := time.Now().Add(o.duration); time.Now().Before(until); time.Sleep(20 * time.Millisecond) {
		r.max = max(r.max, p.rss())
	}
	r.open = attackers.open.Load()
	close(end)
	r.good = <-good
	attackers.wait()
	if !p.running() {
		return r, errors.New("the process has ended")
	}
	return r, nil
}
