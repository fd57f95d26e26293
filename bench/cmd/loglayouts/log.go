package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate/bench/server"
)

const (
	keys = 8
	step = 1000 // µs between two admissions on a key: as one enters, one ages out
	life = "3600000"
)

// log is a number of keys of one layout, each holding as many entries as its limit admits in a period.
type log struct {
	layout
	client  rueidis.Client
	sha     string
	prefix  string
	entries int
	now     int64
	bytes   float64 // an entry, at most
}

func newLog(client rueidis.Client, l layout, prefix string, entries int) (*log, error) {
	sha, err := client.Do(context.Background(), client.B().ScriptLoad().Script(l.script()).Build()).ToString()
	if err != nil {
		return nil, err
	}
	g := &log{layout: l, client: client, sha: sha, prefix: prefix, entries: entries, now: 1_800_000_000_000_000}
	for done := 0; done < entries+entries/2; done += 5 {
		if err := g.decide(5, step); err != nil {
			return nil, err
		}
	}
	return g, nil
}

// decide asks every key the given number of times in one pipeline, later by step each time. All must answer alike: admitted when
// time goes on, denied when it stands still.
func (g *log) decide(times int, step int64) error {
	batch := make(rueidis.Commands, 0, times*keys)
	limit, period := strconv.Itoa(g.entries), strconv.Itoa(g.entries*1000)
	for range times {
		g.now += step
		for k := range keys {
			batch = append(batch, g.client.B().Evalsha().Sha1(g.sha).Numkeys(1).Key(g.key(k)).
				Arg(strconv.FormatInt(g.now, 10), limit, period, "1", life).Build())
		}
	}
	for _, reply := range g.client.DoMulti(context.Background(), batch...) {
		answer, err := reply.AsIntSlice()
		if err != nil {
			return err
		}
		if admitted := answer[0] == 1; admitted != (step > 0) {
			return fmt.Errorf("admitted is %v where time goes on by %d µs", admitted, step)
		}
	}
	return nil
}

func (g *log) key(k int) string { return "log:" + g.prefix + ":" + strconv.Itoa(k) }

func (g *log) measure(each time.Duration, step int64) (turn, error) {
	ctx := context.Background()
	if err := server.Forget(ctx, g.client); err != nil {
		return turn{}, err
	}
	began := time.Now()
	for time.Since(began) < each {
		if err := g.decide(8, step); err != nil {
			return turn{}, err
		}
	}
	wall := time.Since(began)
	used, err := server.Used(ctx, g.client)
	if err != nil {
		return turn{}, err
	}
	done := float64(used.Scripts)
	return turn{micros: float64(used.Busy.Microseconds()) / done, rate: done / wall.Seconds()}, g.weigh(ctx)
}

// weigh keeps the most memory that a key was seen to take.
func (g *log) weigh(ctx context.Context) error {
	bytes, err := g.client.Do(ctx, g.client.B().MemoryUsage().Key(g.key(0)).Samples(0).Build()).ToInt64()
	g.bytes = max(g.bytes, float64(bytes)/float64(g.entries))
	return err
}
