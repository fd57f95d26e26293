// Package load asks a running service as fast as it answers, at one of its doors, and measures: it is a client, and knows nothing of how the
// service decides.
package load

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/headgate/headgate"
)

// Bounds on a run.
const (
	MaxConnections = 10_000
	MaxPipeline    = 1_000
	longest        = time.Minute // that a call is measured to
	callTimeout    = 10 * time.Second
)

// Options say what is asked. The zero value of each field is its default.
type Options struct {
	Connections int            // at a time; 0 means 50
	Duration    time.Duration  // 0 means 10 s
	Keys        int            // from which each call takes one by chance; 0 means 10,000
	Pipeline    int            // calls at a time on a connection, where the protocol can; 0 means 1
	Limit       headgate.Limit // that each call brings; the zero value means 1000000/1s
	Policy      string         // of which each call is, in place of Limit; not of Redis clients' CL.THROTTLE
	Domain      string         // of Envoy's calls; empty means headgate
	Entry       string         // the key of the only entry of Envoy's calls, whose value is the key; empty means key
	TLS         *tls.Config    // of URLs with TLS; nil means that the system's authorities are trusted, and no certificate is shown
}

// Result is what was measured.
type Result struct {
	Took                    time.Duration
	Allowed, Denied, Failed int64
	First                   error // the first failure
	latency                 *hdrhistogram.Histogram
}

// Calls is how many calls were answered.
func (r *Result) Calls() int64 { return r.Allowed + r.Denied }

// PerSecond is how many calls were answered in a second.
func (r *Result) PerSecond() float64 { return float64(r.Calls()) / r.Took.Seconds() }

// Latency is the time in which such a percentage of the calls was answered, to 3 digits and at least a microsecond; calls that were
// sent together are one. 100 is the slowest.
func (r *Result) Latency(percent float64) time.Duration {
	return time.Duration(r.latency.ValueAtPercentile(percent)) * time.Microsecond
}

// Run is a load that goes on. It is made with [Start].
type Run struct {
	opts    Options
	open    func(ctx context.Context) (client, error)
	began   time.Time
	workers sync.WaitGroup
	stop    atomic.Bool

	allowed, denied, failed atomic.Int64
	first                   atomic.Pointer[error]
	latencies               []*latencies
}

// latencies are shared by some of the connections.
type latencies struct {
	mu   sync.Mutex
	seen *hdrhistogram.Histogram
}

// client asks on one connection. It is used on one goroutine.
type client interface {
	// ask asks for all keys, and is how many calls were allowed: the others were denied.
	ask(ctx context.Context, keys []string) (allowed int, err error)
	close()
}

// Start opens all connections, asks once on each, and begins to measure. What is not there, or does not understand, is told now. The load
// ends with [Run.Wait], or with ctx.
func Start(ctx context.Context, rawURL string, opts *Options) (*Run, error) {
	r := &Run{}
	if opts != nil {
		r.opts = *opts
	}
	r.opts.setDefaults()
	if err := r.opts.validate(); err != nil {
		return nil, err
	}
	var err error
	if r.open, err = opener(rawURL, &r.opts); err != nil {
		return nil, err
	}
	clients, err := r.openAll(ctx)
	if err != nil {
		return nil, err
	}
	for range min(r.opts.Connections, 16) {
		r.latencies = append(r.latencies, &latencies{seen: hdrhistogram.New(1, longest.Microseconds(), 3)})
	}
	r.began = time.Now()
	for i, c := range clients {
		r.workers.Go(func() { r.work(ctx, c, r.latencies[i%len(r.latencies)]) })
	}
	return r, nil
}

func (o *Options) setDefaults() {
	o.Connections, o.Keys, o.Pipeline = cmp.Or(o.Connections, 50), cmp.Or(o.Keys, 10_000), cmp.Or(o.Pipeline, 1)
	o.Duration = cmp.Or(o.Duration, 10*time.Second)
	o.Domain, o.Entry = cmp.Or(o.Domain, "headgate"), cmp.Or(o.Entry, "key")
	o.Limit = cmp.Or(o.Limit, headgate.MustParseLimit("1000000/1s"))
}

func (o *Options) validate() error {
	for _, n := range []struct {
		name        string
		value, most int
	}{{"connections", o.Connections, MaxConnections}, {"keys", o.Keys, 1 << 30}, {"pipeline", o.Pipeline, MaxPipeline}} {
		if n.value < 1 || n.value > n.most {
			return fmt.Errorf("load: %s is %d; accepted are 1 to %d", n.name, n.value, n.most)
		}
	}
	if o.Duration < time.Millisecond || o.Duration > 24*time.Hour {
		return fmt.Errorf("load: duration is %v; accepted are 1ms to 24h", o.Duration)
	}
	return nil
}

// openAll opens all connections, or none, and asks once on each: nothing is worth measuring that does not understand, and what it takes to
// connect is no call's latency.
func (r *Run) openAll(ctx context.Context) (all []client, err error) {
	for range r.opts.Connections {
		c, err := r.open(ctx)
		if err == nil {
			all = append(all, c)
			err = r.askOnce(ctx, c)
		}
		if err != nil {
			for _, c := range all {
				c.close()
			}
			return nil, err
		}
	}
	return all, nil
}

// askOnce is a call that is not measured.
func (r *Run) askOnce(ctx context.Context, c client) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.ask(ctx, []string{"bench:0"})
	return err
}

// work asks on one connection until the time is over. A connection that breaks is opened again.
func (r *Run) work(ctx context.Context, c client, seen *latencies) {
	defer func() { c.close() }()
	keys := make([]string, r.opts.Pipeline)
	for !r.over(ctx) {
		for i := range keys {
			keys[i] = "bench:" + strconv.Itoa(rand.IntN(r.opts.Keys)) //nolint:gosec // keys of a load
		}
		err := r.once(ctx, c, keys, seen)
		if err == nil {
			continue
		}
		r.fail(ctx, len(keys), err)
		c.close()
		c = r.again(ctx)
	}
}

// again opens a connection in the place of one that broke, a little later: a server that fails at once is not worth a storm.
func (r *Run) again(ctx context.Context) client {
	for {
		pause(ctx)
		if r.over(ctx) {
			return broken{}
		}
		c, err := r.open(ctx)
		if err != nil {
			continue
		}
		if err = r.askOnce(ctx, c); err == nil {
			return c
		}
		c.close()
		r.fail(ctx, 1, err)
	}
}

// trust is what a connection with TLS to a host takes.
func (o *Options) trust(host string) *tls.Config {
	made := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		made = o.TLS.Clone()
	}
	made.ServerName = cmp.Or(made.ServerName, host)
	return made
}

func (r *Run) once(ctx context.Context, c client, keys []string, seen *latencies) error {
	asking, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	allowed, err := c.ask(asking, keys)
	took := time.Since(began)
	if err != nil {
		return err
	}
	r.allowed.Add(int64(allowed))
	r.denied.Add(int64(len(keys) - allowed))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	return seen.seen.RecordValue(min(max(1, took.Microseconds()), longest.Microseconds()))
}

func (r *Run) over(ctx context.Context) bool {
	return r.stop.Load() || ctx.Err() != nil || time.Since(r.began) >= r.opts.Duration
}

// fail counts calls that failed, unless they were given up for the load is to end.
func (r *Run) fail(ctx context.Context, calls int, err error) {
	if ctx.Err() != nil {
		return
	}
	r.failed.Add(int64(calls))
	r.first.CompareAndSwap(nil, &err)
}

// pause waits a little before a server that is gone is asked again.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

// Now is what was measured so far, but for the latency.
func (r *Run) Now() *Result {
	result := &Result{Took: time.Since(r.began), Allowed: r.allowed.Load(), Denied: r.denied.Load(), Failed: r.failed.Load()}
	if first := r.first.Load(); first != nil {
		result.First = *first
	}
	return result
}

// Wait waits until the load has ended, and is what was measured.
func (r *Run) Wait() *Result {
	r.workers.Wait()
	result := r.Now()
	result.latency = hdrhistogram.New(1, longest.Microseconds(), 3)
	for _, l := range r.latencies {
		result.latency.Merge(l.seen)
	}
	return result
}

// broken is a connection that was closed and not opened again.
type broken struct{}

func (broken) ask(context.Context, []string) (int, error) { return 0, errors.New("load: closed") }
func (broken) close()                                     {}
