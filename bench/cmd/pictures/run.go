package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// All times are in whole µs after the left edge of the picture, which is the beginning
// of a window.
const (
	second   = 1_000_000
	interval = 1_000 // time between two samples of the remaining tokens
	length   = 12_500_000
	leftEdge = headgate.Instant(1_750_000_000 * second)
)

// traffic returns the arrival times of the requests. Each request costs one token.
func traffic() []int64 {
	var at []int64
	for i := range int64(15) {
		at = append(at, second/20+i*second/5) // 5 requests per second
	}
	for i := range int64(25) {
		at = append(at, 3_900_000+i*4_000) // 25 requests just before the beginning of a window
	}
	for i := range int64(25) {
		at = append(at, 4_000_000+i*4_000) // 25 requests just after the beginning of that window
	}
	for i := range int64(60) {
		at = append(at, 7_000_000+i*second/15) // 15 requests per second
	}
	return at
}

// result contains the decisions of one algorithm on the traffic.
type result struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
	requests  []request
	sent      []int64 // times at which allowed requests are sent
	remaining []level
}

// request is one request and its decision.
type request struct {
	at      int64
	allowed bool
}

// level is a value n that is valid from the time at until the time of the next level.
type level struct{ at, n int64 }

// limitOf returns the limit for an algorithm: 10 requests per second, with a capacity
// of 10, which is a queue if the algorithm has queues.
func limitOf(a headgate.Algorithm) headgate.Limit {
	if a.Queues() {
		return headgate.MustParseLimit("10/s queue 9")
	}
	return headgate.MustParseLimit("10/s")
}

// run sends the traffic through a limiter with the algorithm a and returns the
// decisions.
func run(a headgate.Algorithm) (*result, error) {
	store := memstore.New(&memstore.Options{MaxEntries: 1000}) // room for every log entry of the traffic
	defer store.Close()
	r := &result{algorithm: a, limit: limitOf(a)}
	limiter, err := headgate.New(store, headgate.Policy{Limits: []headgate.Limit{r.limit}, Algorithm: a}, nil)
	if err != nil {
		return nil, err
	}
	pending := traffic()
	for t := int64(0); t <= length; t += interval {
		for len(pending) > 0 && pending[0] <= t {
			if err := r.send(limiter, pending[0]); err != nil {
				return nil, err
			}
			pending = pending[1:]
		}
		if err := r.sample(limiter, t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// send requests one token at the time t and records the decision.
func (r *result) send(l *headgate.Limiter, t int64) error {
	d, err := l.AllowAt(context.Background(), (leftEdge + headgate.Instant(t)).Time(), "key", 1)
	if err != nil {
		return err
	}
	r.requests = append(r.requests, request{t, d.Allowed})
	if d.Allowed {
		r.sent = append(r.sent, t+d.Delay.Microseconds())
	}
	return r.sample(l, t)
}

// sample records the number of remaining tokens at the time t if it has changed.
func (r *result) sample(l *headgate.Limiter, t int64) error {
	d, err := l.PeekAt(context.Background(), (leftEdge + headgate.Instant(t)).Time(), "key", 0)
	if err != nil {
		return err
	}
	if n := len(r.remaining); n == 0 || r.remaining[n-1].n != d.Remaining {
		r.remaining = append(r.remaining, level{t, d.Remaining})
	}
	return nil
}

// lastSecond returns, as levels, how many requests were sent within the last second. A
// request that was sent exactly one second ago is not counted.
func (r *result) lastSecond() []level {
	changes := make([]level, 0, 2*len(r.sent))
	for _, t := range r.sent {
		changes = append(changes, level{t, 1}, level{t + second, -1})
	}
	slices.SortStableFunc(changes, func(a, b level) int { return cmp.Compare(a.at, b.at) })
	levels := []level{{}}
	for _, c := range changes {
		last := levels[len(levels)-1]
		if last.at == c.at {
			levels = levels[:len(levels)-1]
		}
		levels = append(levels, level{c.at, last.n + c.n})
	}
	return levels
}

// maxPerSecond returns the maximum number of requests that an algorithm can send in any
// second, under a limit of 10 per second with a burst of 10.
func maxPerSecond(a headgate.Algorithm) int64 {
	switch a {
	case headgate.SlidingLog, headgate.LeakyBucket:
		return 10
	default:
		return 20 // a full bucket and one second's refill; or two windows; or 10·(1 + s/P) in a span s
	}
}
