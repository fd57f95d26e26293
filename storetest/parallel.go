package storetest

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// withRandom sets the source of random numbers of a tester. The numbers depend only on
// Options.Seed and the tester's name prefix, so that a seed reproduces them whatever
// runs concurrently.
func (ts *tester) withRandom() *tester {
	ts.random = rand.New(rand.NewPCG(ts.options.Seed, crc64.Checksum([]byte(ts.prefix), crc64.MakeTable(crc64.ISO))))
	return ts
}

// parallel calls test n times, distributed over Options.Parallelism goroutines. Each
// goroutine has a tester with separate names and random numbers. The first failure
// stops all goroutines and fails the test.
func (ts *tester) parallel(n int, test func(*tester)) {
	workers := min(ts.options.Parallelism, n)
	if workers <= 1 {
		for range n {
			test(ts)
		}
		return
	}
	prefix := ts.name()
	var stopped atomic.Bool
	var errs firstError
	var all sync.WaitGroup
	for i := range workers {
		worker := (&tester{options: ts.options, store: ts.store, prefix: fmt.Sprintf("%s worker %d", prefix, i)}).withRandom()
		all.Go(func() {
			for range n/workers + min(1, max(0, n%workers-i)) {
				if stopped.Load() {
					return
				}
				if err := worker.catch(test); err != nil {
					errs.record(err)
					stopped.Store(true)
				}
			}
		})
	}
	all.Wait()
	if errs.err != nil {
		panic(failure{errs.err})
	}
}

// catch calls test and returns its failure as an error, or nil if it does not fail.
func (ts *tester) catch(test func(*tester)) (err error) {
	defer func() {
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				panic(v)
			}
			err = f.error
		}
	}()
	test(ts)
	return nil
}
