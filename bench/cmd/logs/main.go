// Command logs measures operations on one sliding log in Redis against the number of
// its entries. It prints the time that the server spends in a call, and the memory of
// an entry.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/server"
	"github.com/headgate/headgate/redisstore"
)

func main() {
	var s settings
	flag.StringVar(&s.sizes, "sizes", "10,100,1000,10000,100000,1000000", "comma-separated `numbers` of entries, one log for each")
	flag.IntVar(&s.calls, "calls", 101, "calls of an operation; the median is printed")
	flag.IntVar(&s.removals, "removals", 11, "calls of an operation that removes a large part of the log")
	flag.StringVar(&s.results, "results", "", "`directory` for the table; empty: print only")
	flag.Parse()
	bench.Exit("logs", s.run())
}

// settings contains the values of the flags.
type settings struct {
	sizes           string
	calls, removals int
	results         string
}

func (s settings) run() (err error) {
	counts, err := bench.ParseNumbers("sizes", s.sizes)
	if err != nil {
		return err
	}
	out, err := bench.OpenReport(s.results, "logs")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	srv, err := server.Redis()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, srv.Close()) }()
	l, err := newLimiter(srv.Addr)
	if err != nil {
		return err
	}
	defer l.close()
	fmt.Fprintln(out, srv.Version)
	return s.measure(l, out, counts)
}

// measure measures all operations. The logs take turns, so that changes in the
// machine's speed affect all of them.
func (s settings) measure(l *limiter, out io.Writer, counts []int) error {
	ctx := context.Background()
	var logs []*log
	for _, count := range counts {
		filled, err := l.fill(ctx, count)
		if err != nil {
			return err
		}
		logs = append(logs, filled)
	}
	took := make([][]float64, len(logs)) // the median of each operation, for each log
	for _, o := range operations() {
		n := s.calls
		if o.removes {
			n = s.removals
		}
		medians, err := o.measure(ctx, logs, n)
		if err != nil {
			return fmt.Errorf("%s: %w", o.name, err)
		}
		for i := range logs {
			took[i] = append(took[i], medians[i])
		}
	}
	printTable(out, logs, took)
	return nil
}

func printTable(out io.Writer, logs []*log, took [][]float64) {
	fmt.Fprint(out, "\nµs in the script, median by the server's count, and bytes per entry (MEMORY USAGE)\n\n| entries ")
	rule := "|--:"
	for _, o := range operations() {
		fmt.Fprintf(out, "| %s ", o.name)
		rule += "|--:"
	}
	fmt.Fprintf(out, "| bytes |\n%s|--:|\n", rule)
	for i, l := range logs {
		fmt.Fprintf(out, "| %d ", l.size)
		for _, micros := range took[i] {
			fmt.Fprintf(out, "| %.0f ", micros)
		}
		fmt.Fprintf(out, "| %.1f |\n", float64(l.bytes)/float64(l.size))
	}
}

const (
	limit    = 2_000_000
	period   = 24 * time.Hour
	interval = 10 * time.Millisecond // time between two units
)

// limiter is the rate limiter whose sliding logs are measured. info is a separate Redis
// client for commands that are not decisions, such as SLOWLOG GET.
type limiter struct {
	*headgate.Limiter
	store headgate.Store
	info  rueidis.Client
}

// log is one sliding log with an entry for each unit.
type log struct {
	*limiter
	key, redisKey string
	size          int       // number of entries before an operation
	bytes         int64     // memory
	first         time.Time // instant of the first entry
	now           time.Time // instant of the newest entry
}

func newLimiter(addr string) (*limiter, error) {
	store, err := redisstore.Open("redis://"+addr, &redisstore.Options{NoBatching: true, DenialCacheTTL: -1, Timeout: time.Minute})
	if err != nil {
		return nil, err
	}
	policy := headgate.MustPolicy(fmt.Sprintf("%d/24h", limit))
	policy.Algorithm = headgate.SlidingLog
	l, err := headgate.New(store, policy, nil)
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	info, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{addr}, DisableCache: true})
	if err != nil {
		return nil, errors.Join(err, store.Close())
	}
	return &limiter{l, store, info}, nil
}

func (l *limiter) close() {
	_ = l.store.Close()
	l.info.Close()
}

func (l *limiter) do(ctx context.Context, command ...string) rueidis.RedisResult {
	return l.info.Do(ctx, l.info.B().Arbitrary(command...).Build())
}

// fill returns a new log with the given number of entries.
func (l *limiter) fill(ctx context.Context, size int) (*log, error) {
	start := time.Now().Truncate(time.Second)
	f := &log{limiter: l, key: fmt.Sprint(size), size: size, first: start.Add(interval), now: start}
	for range size {
		if err := f.take(ctx); err != nil {
			return nil, err
		}
	}
	keys, err := l.do(ctx, "KEYS", "hg:*:"+f.key).AsStrSlice()
	if err != nil || len(keys) != 1 {
		return nil, errors.Join(err, fmt.Errorf("the log is stored in %d keys: %q; must be 1", len(keys), keys))
	}
	f.redisKey = keys[0]
	f.bytes, err = l.do(ctx, "MEMORY", "USAGE", f.redisKey, "SAMPLES", "0").AsInt64()
	return f, errors.Join(err, l.do(ctx, "COPY", f.redisKey, f.copyName()).Error())
}

// copyName returns the Redis key with a copy of the log.
func (l *log) copyName() string { return "copy:" + l.key }

// restore restores the log from its copy.
func (l *log) restore(ctx context.Context) error {
	l.now = l.first.Add(time.Duration(l.size-1) * interval)
	return l.do(ctx, "COPY", l.copyName(), l.redisKey, "REPLACE").Error()
}

// take spends a unit at the next instant.
func (l *log) take(ctx context.Context) error {
	l.now = l.now.Add(interval)
	return l.takeAt(ctx, l.now)
}

func (l *log) takeAt(ctx context.Context, t time.Time) error {
	d, err := l.AllowAt(ctx, t, l.key, 1)
	if err == nil && !d.Allowed {
		err = errors.New("a unit is denied")
	}
	return err
}

// takeExpired spends a unit when a part of the log has expired.
func (l *log) takeExpired(ctx context.Context, part float64) error {
	return l.takeAt(ctx, l.first.Add(period+time.Duration(part*float64(l.size)*float64(interval))))
}

func (l *log) peek(ctx context.Context, units int) error {
	_, err := l.PeekAt(ctx, l.now, l.key, int64(units))
	return err
}

func (l *log) refund(ctx context.Context, units int) error {
	_, err := l.RefundAt(ctx, l.now, l.key, int64(max(1, units)))
	return err
}

func (l *log) reset(ctx context.Context) error {
	_, err := l.Reset(ctx, l.key)
	return err
}

// operation is a call that is measured.
type operation struct {
	name    string
	removes bool // removes a part of the log, which is restored before the next call
	call    func(*log, context.Context) error
}

func operations() []operation {
	refund := func(part float64) func(*log, context.Context) error {
		return func(l *log, ctx context.Context) error { return l.refund(ctx, int(part*float64(l.size))) }
	}
	take := func(expired float64) func(*log, context.Context) error {
		return func(l *log, ctx context.Context) error { return l.takeExpired(ctx, expired) }
	}
	return []operation{
		{"take", false, (*log).take},
		{"refund of 1", false, refund(0)},
		{"peek of 1", false, func(l *log, ctx context.Context) error { return l.peek(ctx, 1) }},
		{"peek, denied", false, func(l *log, ctx context.Context) error { return l.peek(ctx, limit-l.size/2) }},
		{"take, 1 % expired", true, take(0.01)},
		{"take, half expired", true, take(0.5)},
		{"take, all expired", true, take(1.5)},
		{"refund of half", true, refund(0.5)},
		{"refund of all", true, refund(1)},
		{"reset", true, (*log).reset},
	}
}

// measure returns the median of n calls for each log.
func (o operation) measure(ctx context.Context, logs []*log, n int) ([]float64, error) {
	took, medians := make([][]float64, len(logs)), make([]float64, len(logs))
	for range n {
		for i, l := range logs {
			micros, err := o.time(ctx, l)
			if err != nil {
				return nil, err
			}
			took[i] = append(took[i], micros)
		}
	}
	for i, l := range logs {
		if err := l.restore(ctx); err != nil {
			return nil, err
		}
		medians[i] = bench.Median(took[i])
	}
	return medians, nil
}

// time executes the operation and returns its µs in the server.
func (o operation) time(ctx context.Context, l *log) (float64, error) {
	if o.removes {
		// The copy displaces the server's code and data from the processor's cache.
		if err := l.restore(ctx); err != nil {
			return 0, err
		}
		for range 20 {
			if err := l.peek(ctx, 1); err != nil {
				return 0, err
			}
		}
	}
	err := errors.Join(
		l.do(ctx, "CONFIG", "SET", "slowlog-log-slower-than", "0").Error(), l.do(ctx, "SLOWLOG", "RESET").Error(),
		o.call(l, ctx), l.do(ctx, "CONFIG", "SET", "slowlog-log-slower-than", "-1").Error(),
	)
	if err != nil {
		return 0, err
	}
	return l.scriptTime(ctx)
}

// scriptTime returns the duration, in µs, of the only script call in the slow log.
func (l *limiter) scriptTime(ctx context.Context) (float64, error) {
	entries, err := l.do(ctx, "SLOWLOG", "GET", "-1").ToArray()
	if err != nil {
		return 0, err
	}
	i := slices.IndexFunc(entries, func(m rueidis.RedisMessage) bool {
		fields, _ := m.ToArray()
		command, _ := fields[3].AsStrSlice()
		return command[0] == "EVALSHA"
	})
	if i < 0 {
		return 0, errors.New("no script call in the slow log")
	}
	fields, _ := entries[i].ToArray()
	micros, err := fields[2].AsInt64()
	return float64(micros), err
}
