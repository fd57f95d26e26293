package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/worker"
)

// plan defines which peers and cases are measured, and for how long.
type plan struct {
	peers                    []bench.Peer
	keys, denied, goroutines []int
	rounds                   int
	time                     time.Duration
}

// cell identifies a cell of the tables.
type cell struct {
	peer                     string
	keys, denied, goroutines int
}

// String returns the name of the cell's benchmark in the format of benchstat.
func (c cell) String() string {
	name := strings.NewReplacer("/", "-", " ", "-").Replace(c.peer)
	return fmt.Sprintf("BenchmarkAllow/keys=%d/denied=%d/goroutines=%d/peer=%s", c.keys, c.denied, c.goroutines, name)
}

// measured contains the results of all rounds for every cell.
type measured map[cell][]bench.Result

// roundWorker is the worker process that measures the rounds of one peer.
type roundWorker = worker.Worker[bench.Order, bench.Result]

func (p plan) measure(raw io.Writer) (measured, error) {
	m := measured{}
	for _, keys := range p.keys {
		for _, denied := range p.denied {
			fmt.Fprintf(os.Stderr, "%d keys, %d %% denial rate\n", keys, denied)
			if err := p.measureCase(m, raw, keys, denied); err != nil {
				return nil, err
			}
		}
	}
	return m, nil
}

// measureCase measures one case: in each round, every peer has one turn.
func (p plan) measureCase(m measured, raw io.Writer, keys, denied int) (err error) {
	workers := map[string]*roundWorker{}
	defer func() {
		for _, w := range workers {
			err = errors.Join(err, w.Close())
		}
	}()
	for _, peer := range p.peers {
		if peer.OneKey && keys > 1 {
			continue
		}
		job := bench.Job{Peer: peer.Name, Case: bench.Case{Keys: keys, Denied: float64(denied) / 100}}
		if workers[peer.Name], err = worker.Start[bench.Order, bench.Result](job); err != nil {
			delete(workers, peer.Name)
			return err
		}
	}
	for range p.rounds {
		for _, goroutines := range p.goroutines {
			if err := p.turn(m, raw, workers, cell{keys: keys, denied: denied, goroutines: goroutines}); err != nil {
				return err
			}
		}
	}
	return nil
}

// turn measures one round: one turn of every peer.
func (p plan) turn(m measured, raw io.Writer, workers map[string]*roundWorker, c cell) error {
	for _, peer := range p.peers {
		w, ok := workers[peer.Name]
		if !ok {
			continue
		}
		r, err := w.Run(bench.Order{Goroutines: c.goroutines, Time: p.time})
		if err != nil {
			return fmt.Errorf("%s: %w", peer.Name, err)
		}
		c.peer = peer.Name
		m[c] = append(m[c], r)
		fmt.Fprintf(raw, "%s %d %.2f ns/op %.3f allocs/op %.2f %%denied\n", c, r.Checks, r.Nanos(), r.Allocs, 100*r.Denied)
	}
	return nil
}

// median returns the median of value over the rounds. If there are two middle values,
// it returns the lower value.
func median(rounds []bench.Result, value func(bench.Result) float64) float64 {
	sorted := slices.SortedFunc(slices.Values(rounds), func(a, b bench.Result) int { return cmp.Compare(value(a), value(b)) })
	return value(sorted[(len(sorted)-1)/2])
}
