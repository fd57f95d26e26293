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

// Case is one situation that limiters are measured in.
type Case struct {
	Callers int
	Keys    int
	Limit   bench.Limit
	// Demand is how many checks a second all callers make together; 0 means as many as they can.
	Demand float64
}

// Turn is what one row did in one round.
type Turn struct {
	Rate     float64 // decisions a second
	P50, P99 time.Duration
	Denied   float64 // the share of decisions
	Errors   float64 // the share of checks that were not decided
	Calls    float64 // script calls a second
	Busy     float64 // the share of time that the server spent in scripts
	Here     float64 // processor time of this process for a decision, in µs
	There    float64 // processor time of the server for a decision, in µs
}

// Round gives every subject its turn.
func (f *Field) Round(d time.Duration) error {
	for i, s := range f.subjects {
		t, err := f.turn(s, d)
		if err != nil {
			return fmt.Errorf("stores: %s: %w", s.row.Name, err)
		}
		f.Turns[i] = append(f.Turns[i], t)
	}
	return nil
}

// Field is a case with all its rows made ready over one server.
type Field struct {
	Case     Case
	Turns    [][]Turn // by row
	subjects []subject
	info     rueidis.Client // nil over memcached
	seed     uint64
}

// NewField makes rows ready and asks each for every key once, with as many callers as are measured: a client of Redis may be slower
// ever after once calls have met in it.
func NewField(rows []Row, s *server.Server, c Case, redis bool) (*Field, error) {
	f := &Field{Case: c, Turns: make([][]Turn, len(rows))}
	var err error
	if redis {
		if f.info, err = newRueidis(s.Addr); err != nil {
			return nil, err
		}
	}
	if f.subjects, err = open(rows, s, c.Limit); err != nil {
		return nil, err
	}
	for _, s := range f.subjects {
		if err := fill(s, c); err != nil {
			return nil, fmt.Errorf("stores: %s: %w", s.row.Name, err)
		}
	}
	return f, nil
}

func fill(s subject, c Case) error {
	var next atomic.Int64
	var failed atomic.Pointer[error]
	var wg sync.WaitGroup
	for range c.Callers {
		wg.Go(func() {
			texts := bench.NewKeys(c.Keys, 0)
			for i := next.Add(1) - 1; i < int64(c.Keys) && failed.Load() == nil; i = next.Add(1) - 1 {
				if err := askOnce(s.limiter, strings.Clone(texts.Key(uint64(i)))); err != nil {
					failed.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// askOnce asks until there is an answer, a few times: stores give up where a machine stalls for a second.
func askOnce(l Limiter, key string) (err error) {
	for range 5 {
		if _, err = l.Allow(context.Background(), key); err == nil {
			return nil
		}
	}
	return err
}

// Close closes every limiter.
func (f *Field) Close() error {
	if f.info != nil {
		f.info.Close()
	}
	return closeAll(f.subjects)
}

// tally is what one caller saw.
type tally struct {
	denied, errors int
	times          []time.Duration
}

func (f *Field) turn(s subject, d time.Duration) (Turn, error) {
	ctx := context.Background()
	f.seed += 1000
	runtime.GC()
	before, err := f.forget(ctx)
	if err != nil {
		return Turn{}, err
	}
	here := processorTime()
	tallies := make([]tally, f.Case.Callers)
	began := time.Now()
	var wg sync.WaitGroup
	for i := range tallies {
		wg.Go(func() { tallies[i] = f.call(s.limiter, began, d, uint64(i)) })
	}
	wg.Wait()
	wall := time.Since(began)
	t := sum(tallies, wall)
	decisions := t.Rate * wall.Seconds()
	t.Here = float64((processorTime() - here).Microseconds()) / decisions
	if f.info == nil {
		return t, nil
	}
	used, err := server.Used(ctx, f.info)
	t.Calls, t.Busy = float64(used.Scripts)/wall.Seconds(), used.Busy.Seconds()/wall.Seconds()
	t.There = float64((used.CPU - before.CPU).Microseconds()) / decisions
	return t, err
}

// forget makes Redis count from zero, and says what it can't forget.
func (f *Field) forget(ctx context.Context) (server.Usage, error) {
	if f.info == nil {
		return server.Usage{}, nil
	}
	if err := server.Forget(ctx, f.info); err != nil {
		return server.Usage{}, err
	}
	return server.Used(ctx, f.info)
}

// processorTime is what this process has used.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// call is one caller's life: as fast as it can, or at its share of the demand.
func (f *Field) call(l Limiter, began time.Time, d time.Duration, i uint64) tally {
	keys := bench.NewKeys(f.Case.Keys, f.seed+i)
	t := tally{times: make([]time.Duration, 0, 1<<14)}
	pause := time.Duration(0)
	if f.Case.Demand > 0 {
		pause = time.Duration(float64(f.Case.Callers) / f.Case.Demand * float64(time.Second))
	}
	for due := began.Add(pause * time.Duration(i) / time.Duration(f.Case.Callers)); ; due = due.Add(pause) {
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

// Immortal counts the keys at addr that have no TTL, and all keys.
func Immortal(addr string) (without, all int, err error) {
	c, err := newRueidis(addr)
	if err != nil {
		return 0, 0, err
	}
	defer c.Close()
	ctx := context.Background()
	for cursor := uint64(0); ; {
		page, err := c.Do(ctx, c.B().Scan().Cursor(cursor).Count(1000).Build()).AsScanEntry()
		if err != nil {
			return without, all, err
		}
		asks := make(rueidis.Commands, len(page.Elements))
		for i, key := range page.Elements {
			asks[i] = c.B().Pttl().Key(key).Build()
		}
		for _, answer := range c.DoMulti(ctx, asks...) {
			if ttl, err := answer.AsInt64(); err != nil {
				return without, all, err
			} else if ttl == -1 {
				without++
			}
			all++
		}
		if cursor = page.Cursor; cursor == 0 {
			return without, all, nil
		}
	}
}
