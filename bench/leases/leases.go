// Package leases measures limiters that several processes share: all processes use one
// key of one Redis. It counts what they admit together.
package leases

import (
	"context"
	"sync"
	"time"

	"github.com/headgate/headgate/bench"
	"github.com/headgate/headgate/bench/stores"
)

// Job is the task of a worker process: one row.
type Job struct {
	Row     string
	Addr    string // of the Redis server
	Limit   bench.Limit
	Callers int
}

// Order is the request to a worker process to make checks from Begin to End. Only checks
// that end after From are counted.
type Order struct {
	Begin, From, End time.Time
	// Rate is the number of checks per second of each caller; 0 means as many as
	// possible. A caller that is late does not make up for it.
	Rate float64
}

// Turn is the result of one process.
type Turn struct {
	Checks, Admitted, Errors int64
	Log                      []Admission // includes admissions before From
}

// Admission is one admitted check. The limiter decided between the two times, in µs since
// the Unix epoch, by the clock that all processes of a machine share.
type Admission [2]int64

// Prepare creates the limiter of a row. It returns a function that makes the checks of an
// order.
func (j Job) Prepare() (func(Order) (Turn, error), error) {
	rows, err := stores.Named(stores.OneHotKey(), j.Row)
	if err != nil {
		return nil, err
	}
	l, err := rows[0].New(j.Addr, j.Limit)
	if err != nil {
		return nil, err
	}
	return func(o Order) (Turn, error) { return j.run(l, o), nil }, nil
}

func (j Job) run(l stores.Limiter, o Order) (sum Turn) {
	turns := make([]Turn, j.Callers)
	var all sync.WaitGroup
	for i := range turns {
		all.Go(func() { turns[i] = call(l, o, float64(i)/float64(j.Callers)) })
	}
	all.Wait()
	for _, t := range turns {
		sum.Checks, sum.Admitted, sum.Errors = sum.Checks+t.Checks, sum.Admitted+t.Admitted, sum.Errors+t.Errors
		sum.Log = append(sum.Log, t.Log...)
	}
	return sum
}

// call makes the checks of one caller. The callers of a process begin at different parts
// of the pause between two checks: phase is 0 to 1.
func call(l stores.Limiter, o Order, phase float64) (t Turn) {
	pause := time.Duration(0)
	if o.Rate > 0 {
		pause = time.Duration(float64(time.Second) / o.Rate)
	}
	due := o.Begin.Add(time.Duration(phase * float64(pause)))
	time.Sleep(time.Until(due))
	for now := time.Now(); now.Before(o.End); {
		ok, err := l.Allow(context.Background(), "key")
		after := time.Now()
		t.count(o, now, after, ok, err)
		now = after
		if pause == 0 {
			continue
		}
		if due = due.Add(pause); due.Before(now) {
			due = now
		}
		time.Sleep(time.Until(due))
		now = time.Now()
	}
	return t
}

// count counts a check that was made between two times.
func (t *Turn) count(o Order, before, after time.Time, ok bool, err error) {
	if ok && err == nil {
		t.Log = append(t.Log, Admission{before.UnixMicro(), after.UnixMicro() + 1})
	}
	switch {
	case after.Before(o.From) || after.After(o.End):
	case err != nil:
		t.Errors++
	default:
		t.Checks++
		if ok {
			t.Admitted++
		}
	}
}
