// Command leases compares limiters that several processes share: one key on one Redis. It
// counts what all processes admit together, also above the limit.
//
// In every round each row has one turn, with its own processes.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/leases"
	"github.com/headgate/headgate/bench/server"
	"github.com/headgate/headgate/bench/stores"
	"github.com/headgate/headgate/bench/worker"
)

// settings contains the values of the flags.
type settings struct {
	rounds, processes, callers int
	seconds                    int
	limit                      int
	rows                       string
	results                    string
}

func main() {
	worker.Main(leases.Job.Prepare)
	var s settings
	flag.IntVar(&s.rounds, "rounds", 3, "number of rounds; medians are printed")
	flag.IntVar(&s.processes, "processes", 8, "number of processes")
	flag.IntVar(&s.callers, "callers", 8, "number of callers in each process")
	flag.IntVar(&s.seconds, "seconds", 4, "duration of a turn, after two seconds that are not counted")
	flag.IntVar(&s.limit, "limit", 10_000, "units per second, and burst")
	flag.StringVar(&s.rows, "rows", "", "semicolon-separated `names` of rows; empty: all")
	flag.StringVar(&s.results, "results", "", "`directory` for the tables; empty: print only")
	flag.Parse()
	bench.Exit("leases", run(s))
}

func run(s settings) (err error) {
	if min(s.rounds, s.processes, s.callers, s.seconds, s.limit) < 1 {
		return errors.New("-rounds, -processes, -callers, -seconds and -limit must be 1 or more")
	}
	rows, err := stores.Named(stores.OneHotKey(), s.rows)
	if err != nil {
		return err
	}
	out, err := bench.OpenReport(s.results, "leases")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	for _, demand := range []float64{0, 3} {
		if err := s.measure(out, rows, demand); err != nil {
			return err
		}
	}
	return nil
}

// measure measures and prints one table. demand is the load as a multiple of the limit; 0
// is as many checks as possible.
func (s settings) measure(out io.Writer, rows []stores.Row, demand float64) (err error) {
	srv, err := server.Redis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	info, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{srv.Addr}, DisableCache: true})
	if err != nil {
		return err
	}
	defer info.Close()
	found := make([][]figures, len(rows))
	for n := range s.rounds {
		for i := range rows {
			i = (i + n) % len(rows) // each round starts with a different row
			f, err := s.turn(rows[i], srv.Addr, info, demand)
			if err != nil {
				return fmt.Errorf("%s: %w", rows[i].Name, err)
			}
			found[i] = append(found[i], f)
		}
	}
	load := "maximum request rate"
	if demand > 0 {
		load = fmt.Sprintf("%g times the limit", demand)
	}
	fmt.Fprintf(out, "\n%s: %d processes × %d callers, one key, %d/1s (%s; %d rounds of %d s, medians; excess: maximum)\n\n",
		load, s.processes, s.callers, s.limit, srv.Version, s.rounds, s.seconds)
	s.print(out, rows, found)
	return nil
}

// figures are the results of one row in one round.
type figures struct {
	checks   float64 // per second
	admitted float64 // fraction of the units that the limit makes available
	excess   float64 // maximum units above the limit in any span, as a fraction of the burst
	calls    float64 // calls to Redis per second
	errors   float64 // per second
}

// uncounted is the time in which a full bucket becomes empty, because it allows its
// burst.
const uncounted = 2 * time.Second

// calls returns the number of script calls, or of pipelines with two commands each.
func calls(u server.Usage) int64 {
	if u.Scripts > 0 {
		return u.Scripts
	}
	return u.Calls / 2
}

type process = worker.Worker[leases.Order, leases.Turn]

// turn measures one row with its own processes.
func (s settings) turn(row stores.Row, addr string, info rueidis.Client, demand float64) (f figures, err error) {
	var all []*process
	defer func() {
		for _, w := range all {
			err = errors.Join(err, w.Close())
		}
	}()
	job := leases.Job{Row: row.Name, Addr: addr, Limit: s.perSecond(), Callers: s.callers}
	for range s.processes {
		w, err := worker.Start[leases.Order, leases.Turn](job)
		if err != nil {
			return f, err
		}
		all = append(all, w)
	}
	// The counted time has whole windows.
	begin := time.Now().Add(500 * time.Millisecond).Truncate(time.Second).Add(time.Second)
	order := leases.Order{Begin: begin, From: begin.Add(uncounted), End: begin.Add(uncounted + time.Duration(s.seconds)*time.Second)}
	order.Rate = demand * float64(s.limit) / float64(s.processes*s.callers)
	sum, usage, err := runAll(all, order, info)
	if err != nil {
		return f, err
	}
	length := float64(s.seconds)
	return figures{
		checks: float64(sum.Checks) / length, errors: float64(sum.Errors) / length, calls: float64(calls(usage)) / length,
		admitted: float64(sum.Admitted) / (length * float64(s.limit)),
		excess:   float64(leases.Excess(row, s.perSecond(), sum.Log)) / float64(s.limit),
	}, nil
}

func (s settings) perSecond() bench.Limit {
	return bench.Limit{Count: s.limit, Per: time.Second, Burst: s.limit}
}

// runAll executes the order in all processes. It returns the sum of their turns, and the
// usage of Redis in the counted time.
func runAll(all []*process, o leases.Order, info rueidis.Client) (sum leases.Turn, u server.Usage, err error) {
	var workers sync.WaitGroup
	turns, errs := make([]leases.Turn, len(all)), make([]error, len(all))
	for i, w := range all {
		workers.Go(func() { turns[i], errs[i] = w.Run(o) })
	}
	ctx := context.Background()
	time.Sleep(time.Until(o.From))
	err = server.ResetStats(ctx, info)
	time.Sleep(time.Until(o.End))
	u, usageErr := server.ReadUsage(ctx, info)
	workers.Wait()
	for _, t := range turns {
		sum.Checks, sum.Admitted, sum.Errors = sum.Checks+t.Checks, sum.Admitted+t.Admitted, sum.Errors+t.Errors
		sum.Log = append(sum.Log, t.Log...)
	}
	return sum, u, errors.Join(append(errs, err, usageErr)...)
}
