package stores

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
)

// Case is one set of conditions under which all limiters are measured.
type Case struct {
	Callers int
	Keys    int
	Limit   bench.Limit
	// Demand is the rate, in checks per second, of all callers together. 0 means that
	// every caller makes its checks as fast as possible.
	Demand float64
}

// Turn is the result of one row in one round.
type Turn struct {
	Rate      float64 // decisions per second
	P50, P99  time.Duration
	Denied    float64 // denial rate, from 0 to 1
	Errors    float64 // error rate of the checks, from 0 to 1
	Calls     float64 // script calls per second
	InScripts float64 // fraction of the time that the server spent in scripts, from 0 to 1
	ClientCPU float64 // processor time of this process per decision, in µs
	ServerCPU float64 // processor time of the server per decision, in µs
}

// Round measures every row once, each for the duration d.
func (c *Comparison) Round(d time.Duration) error {
	for i, s := range c.subjects {
		t, err := c.turn(s, d)
		if err != nil {
			return fmt.Errorf("stores: %s: %w", s.row.Name, err)
		}
		c.Turns[i] = append(c.Turns[i], t)
	}
	return nil
}

// Comparison is a case with all rows, which are ready to be measured on one server.
type Comparison struct {
	Case     Case
	Turns    [][]Turn // the turns of each row
	subjects []subject
	info     rueidis.Client // nil for memcached
	seed     uint64
}

// NewComparison prepares the rows and makes one request for every key of each row. It
// uses as many concurrent callers as the measurement, because a Redis client may become
// permanently slower after its first concurrent calls. redis is true if s is a Redis
// server.
func NewComparison(rows []Row, s *server.Server, kind Case, redis bool) (*Comparison, error) {
	c := &Comparison{Case: kind, Turns: make([][]Turn, len(rows))}
	var err error
	if redis {
		if c.info, err = newRueidis(s.Addr); err != nil {
			return nil, err
		}
	}
	if c.subjects, err = open(rows, s, kind.Limit); err != nil {
		return nil, err
	}
	for _, s := range c.subjects {
		if err := fill(s, kind); err != nil {
			return nil, fmt.Errorf("stores: %s: %w", s.row.Name, err)
		}
	}
	return c, nil
}

func fill(s subject, c Case) error {
	var next atomic.Int64
	var firstErr atomic.Pointer[error]
	var wg sync.WaitGroup
	for range c.Callers {
		wg.Go(func() {
			texts := bench.NewKeys(c.Keys, 0)
			for i := next.Add(1) - 1; i < int64(c.Keys) && firstErr.Load() == nil; i = next.Add(1) - 1 {
				if err := insertKey(s.limiter, strings.Clone(texts.Key(uint64(i)))); err != nil {
					firstErr.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := firstErr.Load(); err != nil {
		return *err
	}
	return nil
}

// insertKey makes requests for key until the limiter decides, but at most five. A
// limiter may return an error when the machine stalls for a second.
func insertKey(l Limiter, key string) (err error) {
	for range 5 {
		if _, err = l.Allow(context.Background(), key); err == nil {
			return nil
		}
	}
	return err
}

// Close closes every limiter.
func (c *Comparison) Close() error {
	if c.info != nil {
		c.info.Close()
	}
	return closeAll(c.subjects)
}

// tally contains the counts and latencies of one caller.
type tally struct {
	denied, errors int
	times          []time.Duration
}

func (c *Comparison) turn(s subject, d time.Duration) (Turn, error) {
	ctx := context.Background()
	c.seed += 1000
	runtime.GC()
	before, err := c.resetStats(ctx)
	if err != nil {
		return Turn{}, err
	}
	cpuBefore := processorTime()
	tallies := make([]tally, c.Case.Callers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() { tallies[i] = c.call(s.limiter, began, d, uint64(i)) })
	}
	wg.Wait()
	wall := time.Since(began)
	t := sum(tallies, wall)
	decisions := t.Rate * wall.Seconds()
	t.ClientCPU = float64((processorTime() - cpuBefore).Microseconds()) / decisions
	if c.info == nil {
		return t, nil
	}
	used, err := server.ReadUsage(ctx, c.info)
	t.Calls, t.InScripts = float64(used.Scripts)/wall.Seconds(), used.Busy.Seconds()/wall.Seconds()
	t.ServerCPU = float64((used.CPU - before.CPU).Microseconds()) / decisions
	return t, err
}

// resetStats resets the statistics of Redis and returns the usage after the reset. It
// is not zero, because the processor time cannot be reset.
func (c *Comparison) resetStats(ctx context.Context) (server.Usage, error) {
	if c.info == nil {
		return server.Usage{}, nil
	}
	if err := server.ResetStats(ctx, c.info); err != nil {
		return server.Usage{}, err
	}
	return server.ReadUsage(ctx, c.info)
}

// processorTime returns the user and system time that this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// call makes the checks of one caller for d: as fast as possible, or at the caller's
// share of Case.Demand. i is the number of the caller.
func (c *Comparison) call(l Limiter, began time.Time, d time.Duration, i uint64) tally {
	keys := bench.NewKeys(c.Case.Keys, c.seed+i)
	t := tally{times: make([]time.Duration, 0, 1<<14)}
	pause := time.Duration(0)
	if c.Case.Demand > 0 {
		pause = time.Duration(float64(c.Case.Callers) / c.Case.Demand * float64(time.Second))
	}
	for due := began.Add(pause * time.Duration(i) / time.Duration(c.Case.Callers)); ; due = due.Add(pause) {
		if pause > 0 {
			time.Sleep(time.Until(due))
		}
		start := time.Now()
		if start.Sub(began) >= d {
			return t
		}
		ok, err := l.Allow(context.Background(), strings.Clone(keys.Next()))
		t.times = append(t.times, time.Since(start))
		switch {
		case err != nil:
			t.errors++
		case !ok:
			t.denied++
		}
	}
}

func sum(tallies []tally, wall time.Duration) Turn {
	var all []time.Duration
	var denied, errors int
	for _, t := range tallies {
		all, denied, errors = append(all, t.times...), denied+t.denied, errors+t.errors
	}
	slices.Sort(all)
	n := float64(len(all))
	return Turn{
		Rate: (n - float64(errors)) / wall.Seconds(), P50: all[len(all)/2], P99: all[len(all)*99/100],
		Denied: float64(denied) / n, Errors: float64(errors) / n,
	}
}

// CountWithoutTTL returns the number of keys without a TTL on the Redis server at addr,
// and the number of all keys.
func CountWithoutTTL(addr string) (withoutTTL, all int, err error) {
	c, err := newRueidis(addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	ctx := context.Background()
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return withoutTTL, all, err
		}
		commands := make(rueidis.Commands, len(page.Elements))
		for i, key := range page.Elements {
			commands[i] = c.B().Pttl().Key(key).Build()
		}
		for _, reply := range c.DoMulti(ctx, commands...) {
			if ttl, err := reply.AsInt64(); err != nil {
				return withoutTTL, all, err
			} else if ttl == -1 {
				withoutTTL++
			}
			all++
		}
		if cursor = page.Cursor; cursor == 0 {
			return withoutTTL, all, nil
		}
	}
}
