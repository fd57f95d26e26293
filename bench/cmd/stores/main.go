// Command stores compares rate limiters that store their state in Redis or memcached.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime/pprof"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
	"github.com/headgate/headgate/bench/stores"
)

// settings contains the values of the flags.
type settings struct {
	rounds   int
	turnTime time.Duration
	only     string
	rows     string
	results  string
	profile  string
}

func main() {
	var s settings
	flag.IntVar(&s.rounds, "rounds", 9, "number of rounds; medians are printed")
	flag.DurationVar(&s.turnTime, "time", 400*time.Millisecond, "duration of a turn")
	flag.StringVar(&s.only, "only", "", "`table`: many, hot, denied, one, holds or memcached; empty: all")
	flag.StringVar(&s.rows, "rows", "", "semicolon-separated `names` of rows; empty: all")
	flag.StringVar(&s.results, "results", "", "`directory` for the tables; empty: print only")
	flag.StringVar(&s.profile, "cpuprofile", "", "`file` for a CPU profile of this process")
	flag.Parse()
	bench.Exit("stores", run(s))
}

func run(s settings) (err error) {
	out, err := bench.OpenReport(s.results, "stores")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	if s.profile != "" {
		file, err := os.Create(s.profile)
		if err != nil {
			return err
		}
		defer func() { _ = file.Close() }()
		if err := pprof.StartCPUProfile(file); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	for _, t := range tables() {
		if s.only == "" || s.only == t.name {
			if err := t.measure(out, s); err != nil {
				return err
			}
		}
	}
	return nil
}

// table is a table of results: one case and its rows.
type table struct {
	name, title string
	rows        []stores.Row
	cases       stores.Case
	memcached   bool
	long        bool // turns are ten times longer, because few of the measured events happen
	ttl         bool // counts the keys without a TTL after the last round
}

func tables() []table {
	const callers, keys = 64, 100_000
	five := bench.Limit{Count: 5, Per: time.Second, Burst: 1}
	return []table{
		{
			name: "many", title: "64 callers, 100,000 keys", rows: stores.Redis(), ttl: true,
			cases: stores.Case{Callers: callers, Keys: keys, Limit: stores.Many},
		},
		{
			name: "hot", title: "64 callers, one key that is never denied", rows: stores.Redis(),
			cases: stores.Case{Callers: callers, Keys: 1, Limit: stores.Hot},
		},
		{
			name: "denied", title: "64 callers, one key of 5/s, 50 requests/s", rows: limiters(stores.Redis()), long: true,
			cases: stores.Case{Callers: callers, Keys: 1, Limit: five, Demand: 50},
		},
		{
			name: "denied", title: "64 callers, one key of 5/s, maximum request rate", rows: limiters(stores.Redis()), long: true,
			cases: stores.Case{Callers: callers, Keys: 1, Limit: five},
		},
		{
			name: "one", title: "one caller, 1,000 keys", rows: stores.OneCaller(),
			cases: stores.Case{Callers: 1, Keys: 1000, Limit: stores.Many},
		},
		{
			name: "holds", title: "takes and holds, 64 callers, 100,000 keys", rows: stores.Holds(), ttl: true,
			cases: stores.Case{Callers: callers, Keys: keys, Limit: stores.Many},
		},
		{
			name: "memcached", title: "memcached, 64 callers, 100,000 keys", rows: stores.Memcached(), memcached: true,
			cases: stores.Case{Callers: callers, Keys: keys, Limit: stores.Many},
		},
		{
			name: "memcached", title: "memcached, 64 callers, one key", rows: stores.Memcached(), memcached: true,
			cases: stores.Case{Callers: callers, Keys: 1, Limit: stores.Hot},
		},
	}
}

func limiters(rows []stores.Row) (found []stores.Row) {
	for _, r := range rows {
		if !r.Floor {
			found = append(found, r)
		}
	}
	return found
}

func (t table) measure(out io.Writer, s settings) (err error) {
	start := server.Redis
	if t.memcached {
		start = server.Memcached
	}
	srv, err := start()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	rows, err := stores.Named(t.rows, s.rows)
	if err != nil {
		return err
	}
	if t.long {
		s.turnTime, s.rounds = 10*s.turnTime, (s.rounds+2)/3
	}
	comparison, err := stores.NewComparison(rows, srv, t.cases, !t.memcached)
	if err != nil {
		return err
	}
	for range s.rounds {
		if err := comparison.Round(s.turnTime); err != nil {
			return errors.Join(err, comparison.Close())
		}
	}
	fmt.Fprintf(out, "\n%s (%s; %d rounds of %v, medians)\n\n", t.title, srv.Version, s.rounds, s.turnTime)
	t.print(out, rows, comparison.Turns)
	if t.ttl {
		withoutTTL, all, err := stores.CountWithoutTTL(srv.Addr)
		if err != nil {
			return errors.Join(err, comparison.Close())
		}
		fmt.Fprintf(out, "\n%d of %d keys have no TTL.\n", withoutTTL, all)
	}
	return comparison.Close()
}
