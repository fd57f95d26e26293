// Package load measures the throughput and the latency of a running service. It is a
// client of the HTTP API, the Redis-compatible endpoint or Envoy's rate limit service.
// Each connection sends its next call when it has received the response to the previous
// one.
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

// Limits of a load test.
const (
	MaxConnections = 10_000
	MaxPipeline    = 1_000
	maxLatency     = time.Minute // a longer call is recorded with this latency
	callTimeout    = 10 * time.Second
)

// Options configure a load test. A field with the zero value has the default given in
// its comment.
type Options struct {
	Connections int            // concurrent connections; 0 means 50
	Duration    time.Duration  // duration of the load; 0 means 10 s
	Keys        int            // number of keys from which each call chooses one randomly; 0 means 10,000
	Pipeline    int            // calls in flight per connection; must be 1 for HTTP; 0 means 1
	Limit       headgate.Limit // limit of each call; the zero value means 1000000/1s
	Policy      string         // policy of each call, instead of Limit; Redis clients then use HG.CHECK
	Domain      string         // domain of Envoy calls; empty means headgate
	Entry       string         // key of the single descriptor entry in Envoy calls; empty means key
	Token       string         // token of the HTTP API, of ASCII without spaces; empty means none is sent
	TLS         *tls.Config    // for URLs with TLS; nil means the system's CAs and no client certificate
}

// Result contains the measurements of a load test.
type Result struct {
	Took                    time.Duration
	Allowed, Denied, Failed int64
	First                   error // the first failure
	latency                 *hdrhistogram.Histogram
}

// Calls returns the number of calls that were allowed or denied, without failed calls.
func (r *Result) Calls() int64 { return r.Allowed + r.Denied }

// PerSecond returns the number of answered calls per second.
func (r *Result) PerSecond() float64 { return float64(r.Calls()) / r.Took.Seconds() }

// Latency returns the given percentile of the latency, accurate to 3 digits and to a
// microsecond; 100 returns the maximum. Calls that were sent together count as a single
// measurement.
func (r *Result) Latency(percent float64) time.Duration {
	return time.Duration(r.latency.ValueAtPercentile(percent)) * time.Microsecond
}

// Run is a running load test. Create it with [Start].
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

// latencies is a latency histogram. Several connections may share one.
type latencies struct {
	mu   sync.Mutex
	seen *hdrhistogram.Histogram
}

// client makes calls on one connection. It must be used on one goroutine only.
type client interface {
	// check makes one call for each key and returns the number of calls that were
	// allowed. All other calls were denied.
	check(ctx context.Context, keys []string) (allowed int, err error)
	close()
}

// Start opens all connections, makes one call on each, and then starts the load. It
// returns an error if the service is unreachable or rejects a call. The load ends when
// its duration has passed or ctx ends; [Run.Wait] waits for that.
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
		r.latencies = append(r.latencies, &latencies{seen: hdrhistogram.New(1, maxLatency.Microseconds(), 3)})
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
		name       string
		value, max int
	}{{"connections", o.Connections, MaxConnections}, {"keys", o.Keys, 1 << 30}, {"pipeline", o.Pipeline, MaxPipeline}} {
		if n.value < 1 || n.value > n.max {
			return fmt.Errorf("load: %s is %d; must be 1 to %d", n.name, n.value, n.max)
		}
	}
	if o.Duration < time.Millisecond || o.Duration > 24*time.Hour {
		return fmt.Errorf("load: duration is %v; must be 1ms to 24h", o.Duration)
	}
	return nil
}

// openAll opens all connections and makes one call on each. If one fails, it closes all
// of them. The first calls ensure that a service that rejects calls is reported before
// the load begins, and that the time to connect is not included in the latency.
func (r *Run) openAll(ctx context.Context) (all []client, err error) {
	for range r.opts.Connections {
		c, err := r.open(ctx)
		if err == nil {
			all = append(all, c)
			err = r.firstCheck(ctx, c)
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

// firstCheck makes one call on a connection. The call is not measured.
func (r *Run) firstCheck(ctx context.Context, c client) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	_, err := c.check(ctx, []string{"bench:0"})
	return err
}

// work makes calls on one connection until the load ends. If the connection fails, work
// opens a new one.
func (r *Run) work(ctx context.Context, c client, seen *latencies) {
	defer func() { c.close() }()
	keys := make([]string, r.opts.Pipeline)
	for !r.over(ctx) {
		for i := range keys {
			keys[i] = "bench:" + strconv.Itoa(rand.IntN(r.opts.Keys)) //nolint:gosec // keys of a load
		}
		err := r.measure(ctx, c, keys, seen)
		if err == nil {
			continue
		}
		r.fail(ctx, len(keys), err)
		c.close()
		c = r.reopen(ctx)
	}
}

// reopen opens a new connection in place of one that failed. It pauses before each
// attempt, so that a service that fails immediately is not flooded with connections.
func (r *Run) reopen(ctx context.Context) client {
	for {
		pause(ctx)
		if r.over(ctx) {
			return closedClient{}
		}
		c, err := r.open(ctx)
		if err != nil {
			continue
		}
		if err = r.firstCheck(ctx, c); err == nil {
			return c
		}
		c.close()
		r.fail(ctx, 1, err)
	}
}

// clientTLS returns the TLS configuration for connections to the host.
func (o *Options) clientTLS(host string) *tls.Config {
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.TLS != nil {
		config = o.TLS.Clone()
	}
	config.ServerName = cmp.Or(config.ServerName, host)
	return config
}

// measure makes one call for each key and records the results and the latency.
func (r *Run) measure(ctx context.Context, c client, keys []string, seen *latencies) error {
	callCtx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	began := time.Now()
	allowed, err := c.check(callCtx, keys)
	took := time.Since(began)
	if err != nil {
		return err
	}
	r.allowed.Add(int64(allowed))
	r.denied.Add(int64(len(keys) - allowed))
	seen.mu.Lock()
	defer seen.mu.Unlock()
	return seen.seen.RecordValue(min(max(1, took.Microseconds()), maxLatency.Microseconds()))
}

// over reports whether the load has ended.
func (r *Run) over(ctx context.Context) bool {
	return r.stop.Load() || ctx.Err() != nil || time.Since(r.began) >= r.opts.Duration
}

// fail counts failed calls. It ignores calls that were canceled because the load has
// ended.
func (r *Run) fail(ctx context.Context, calls int, err error) {
	if ctx.Err() != nil {
		return
	}
	r.failed.Add(int64(calls))
	r.first.CompareAndSwap(nil, &err)
}

// pause waits 20 ms, or until ctx ends.
func pause(ctx context.Context) {
	select {
	case <-time.After(20 * time.Millisecond):
	case <-ctx.Done():
	}
}

// Now returns the current measurements, without the latency.
func (r *Run) Now() *Result {
	result := &Result{Took: time.Since(r.began), Allowed: r.allowed.Load(), Denied: r.denied.Load(), Failed: r.failed.Load()}
	if first := r.first.Load(); first != nil {
		result.First = *first
	}
	return result
}

// Wait waits until the load has ended and returns the measurements.
func (r *Run) Wait() *Result {
	r.workers.Wait()
	result := r.Now()
	result.latency = hdrhistogram.New(1, maxLatency.Microseconds(), 3)
	for _, l := range r.latencies {
		result.latency.Merge(l.seen)
	}
	return result
}

// closedClient takes the place of a connection that was closed and not replaced,
// because the load has ended.
type closedClient struct{}

func (closedClient) check(context.Context, []string) (int, error) {
	return 0, errors.New("load: closed")
}

func (closedClient) close() {}
