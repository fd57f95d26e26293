package main

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/bench/server"
)

// Every layout decides as the arithmetic does, in whatever order costs and instants come.
func TestLayoutsDecideAlike(t *testing.T) {
	redis, err := server.Redis()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = redis.Close() })
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{redis.Addr}, DisableCache: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for i, l := range layouts() {
		t.Run(l.name, func(t *testing.T) {
			for _, limit := range []int64{1, 40, 500} {
				alike(t, client, l, strconv.Itoa(i)+":"+strconv.FormatInt(limit, 10), limit)
			}
		})
	}
}

func alike(t *testing.T, client rueidis.Client, l layout, key string, limit int64) {
	t.Helper()
	const period = 100_000
	x, err := algo.Named(headgate.SlidingLog)
	if err != nil {
		t.Fatal(err)
	}
	want, err := x.NewLog(headgate.Limit{Rate: limit, Period: period * time.Microsecond})
	if err != nil {
		t.Fatal(err)
	}
	var state algo.Log
	rng := rand.New(rand.NewPCG(1, uint64(limit)))
	now := int64(1_800_000_000_000_000)
	for i := range 3000 {
		now += rng.Int64N(3) * rng.Int64N(max(2, 200_000/limit))
		if rng.IntN(400) == 0 {
			now += 2 * period
		}
		n := min(limit, rng.Int64N(4))
		ok := want.Take(&state, now, n, true)
		d := want.Answer(&state, now, n, ok)
		expected := []int64{0, d.Remaining, d.RetryAfter.Microseconds(), d.ResetAfter.Microseconds()}
		if d.Allowed {
			expected[0] = 1
		}
		got, err := client.Do(context.Background(), client.B().Eval().Script(l.script()).Numkeys(1).Key(key).
			Arg(strconv.FormatInt(now, 10), strconv.FormatInt(limit, 10), strconv.Itoa(period), strconv.FormatInt(n, 10), life).
			Build()).AsIntSlice()
		if err != nil || !slices.Equal(got, expected) {
			t.Fatalf("limit %d, decision %d, cost %d at %d: got %v, %v, want %v", limit, i, n, now, got, err, expected)
		}
	}
}
