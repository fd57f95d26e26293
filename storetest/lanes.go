package storetest

import (
	"fmt"
	"hash/crc64"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// seeded gives a judge the random numbers that belong to its names, so that a seed repeats them whatever runs beside it.
func (j *judge) seeded() *judge {
	j.random = rand.New(rand.NewPCG(j.options.Seed, crc64.Checksum([]byte(j.prefix), crc64.MakeTable(crc64.ISO))))
	return j
}

// spread has look done n times, on as many lanes at once as the options say. A lane is a judge with names and random numbers of
// its own. The first failure ends all lanes, and the check.
func (j *judge) spread(n int, look func(*judge)) {
	lanes := min(j.options.Parallelism, n)
	if lanes <= 1 {
		for range n {
			look(j)
		}
		return
	}
	prefix := j.name()
	var stopped atomic.Bool
	var errs firstError
	var all sync.WaitGroup
	for i := range lanes {
		lane := (&judge{options: j.options, store: j.store, prefix: fmt.Sprintf("%s lane %d", prefix, i)}).seeded()
		all.Go(func() {
			for range n/lanes + min(1, max(0, n%lanes-i)) {
				if stopped.Load() {
					return
				}
				if err := lane.attempt(look); err != nil {
					errs.note(err)
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

// attempt has look done and says how it failed.
func (j *judge) attempt(look func(*judge)) (broken error) {
	defer func() {
		if v := recover(); v != nil {
			f, ok := v.(failure)
			if !ok {
				panic(v)
			}
			broken = f.error
		}
	}()
	look(j)
	return nil
}
