package main

import (
	"cmp"
	"context"
	"slices"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// All times are in whole µs since the picture's left edge, which is the edge of a window.
const (
	second   = 1_000_000
	sample   = 1_000 // between two looks at what remains
	length   = 12_500_000
	leftEdge = headgate.Instant(1_750_000_000 * second)
)

// traffic is when the requests come, one unit each.
func traffic() []int64 {
	var at []int64
	for i := range int64(15) {
		at = append(at, second/20+i*second/5) // 5 a second
	}
	for i := range int64(25) {
		at = append(at, 3_900_000+i*4_000) // 25, just before the edge of a window
	}
	for i := range int64(25) {
		at = append(at, 4_000_000+i*4_000) // and 25 just behind it
	}
	for i := range int64(60) {
		at = append(at, 7_000_000+i*second/15) // 15 a second
	}
	return at
}

// result is what an algorithm did with the traffic.
type result struct {
	algorithm headgate.Algorithm
	limit     headgate.Limit
	requests  []request
	out       []int64 // when the admitted ones go out
	remaining []level
}

// request is one request and what became of it.
type request struct {
	at      int64
	allowed bool
}

// level is a number that holds from an instant on.
type level struct{ at, n int64 }

// limitOf is 10 a second and 10 at once, for every algorithm.
func limitOf(a headgate.Algorithm) headgate.Limit {
	if a.Queues() {
		return headgate.MustParseLimit("10/s queue 9")
	}
	return headgate.MustParseLimit("10/s")
}

// run puts the traffic past a limiter.
func run(a headgate.Algorithm) (*result, error) {
	store := memstore.New(&memstore.Options{MaxEntries: 1000}) // room for a log of any length here
	defer store.Close()
	r := &result{algorithm: a, limit: limitOf(a)}
	limiter, err := headgate.New(store, headgate.Policy{Limits: []headgate.Limit{r.limit}, Algorithm: a}, nil)
	if err != nil {
		return nil, err
	}
	coming := traffic()
	for t := int64(0); t <= length; t += sample {
		for len(coming) > 0 && coming[0] <= t {
			if err := r.ask(limiter, coming[0]); err != nil {
				return nil, err
			}
			coming = coming[1:]
		}
		if err := r.look(limiter, t); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// ask is one request at t.
func (r *result) ask(l *headgate.Limiter, t int64) error {
	d, err := l.AllowAt(context.Background(), (leftEdge + headgate.Instant(t)).Time(), "key", 1)
	if err != nil {
		return err
	}
	r.requests = append(r.requests, request{t, d.Allowed})
	if d.Allowed {
		r.out = append(r.out, t+d.Delay.Microseconds())
	}
	return r.look(l, t)
}

// look notes what remains at t, if it has changed.
func (r *result) look(l *headgate.Limiter, t int64) error {
	d, err := l.PeekAt(context.Background(), (leftEdge + headgate.Instant(t)).Time(), "key", 0)
	if err != nil {
		return err
	}
	if n := len(r.remaining); n == 0 || r.remaining[n-1].n != d.Remaining {
		r.remaining = append(r.remaining, level{t, d.Remaining})
	}
	return nil
}

// lastSecond is how many went out in the second up to each instant; one that is a second old no longer counts.
func (r *result) lastSecond() []level {
	changes := make([]level, 0, 2*len(r.out))
	for _, t := range r.out {
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

// mostInASecond is the algorithm's guarantee for what goes out in any second under 10 a second and 10 at once.
func mostInASecond(a headgate.Algorithm) int64 {
	switch a {
	case headgate.SlidingLog, headgate.LeakyBucket:
		return 10
	default:
		return 20 // a full bucket and a second's refill; two windows; 10·(1 + s/P)
	}
}
