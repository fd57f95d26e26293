package storetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

var background = context.Background()

func concurrencyChecks() []check {
	return []check{
		{name: "atomic takes", rule: "a take is atomic: 64 goroutines on one key are admitted exactly the limit", perAlgorithm: checkAtomicTakes},
		{name: "atomic refunds", rule: "takes and refunds of one key are atomic: units taken and not refunded, plus units left, equal the limit", perAlgorithm: checkAtomicRefunds},
		{name: "atomic reservations", rule: "a reservation is atomic: no two of 64 goroutines reserve the same units", once: checkAtomicReservations},
	}
}

const goroutines = 64

// firstError records the first error of many goroutines.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) record(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// concurrently calls work once in each of 64 goroutines, which start at the same time.
// g is the number of the goroutine. The test fails with the first error that work
// returns.
func (ts *tester) concurrently(work func(g int) error) {
	var errs firstError
	var all sync.WaitGroup
	begin := make(chan struct{})
	for g := range goroutines {
		all.Go(func() {
			<-begin
			errs.record(work(g))
		})
	}
	close(begin)
	all.Wait()
	ts.mustf(errs.err, "%d goroutines", goroutines)
}

// checkAtomicTakes lets 64 goroutines take units of one key at the same fixed instant.
// Rounds are 2 s apart, so that the key has recovered before the next round.
func checkAtomicTakes(ts *tester, a headgate.Algorithm) {
	const limit = 100
	l := ts.limiter(a, "100/1s")
	for round := range ts.options.Rounds {
		at := start + headgate.Instant(round)*2_000_000
		var admitted atomic.Int64
		ts.concurrently(func(int) error {
			for _, cost := range []int64{1, 2} {
				d, err := l.AllowAt(background, at.Time(), "key", cost)
				if err != nil {
					return err
				}
				if d.Allowed {
					admitted.Add(cost)
				}
			}
			return nil
		})
		left := ts.peek(l, at, "key", 0).Remaining
		if got := admitted.Load(); got != limit || left != 0 {
			ts.failf("%s, round %d: got %d units admitted and %d left want exactly %d and 0", describe(l), round, got, left, limit)
		}
	}
}

func checkAtomicRefunds(ts *tester, a headgate.Algorithm) {
	l := ts.limiter(a, "1000/1s")
	for round := range ts.options.Rounds/20 + 1 {
		at := start + headgate.Instant(round)*4_000_000
		var outstanding atomic.Int64
		ts.concurrently(func(g int) error {
			for i := range 8 {
				if d, err := l.AllowAt(background, at.Time(), "key", 3); err != nil || !d.Allowed {
					return err
				}
				outstanding.Add(3)
				if (g+i)%2 == 0 {
					continue
				}
				if _, err := l.RefundAt(background, at.Time(), "key", 2); err != nil {
					return err
				}
				outstanding.Add(-2)
			}
			return nil
		})
		left := ts.peek(l, at, "key", 0).Remaining
		if got := outstanding.Load() + left; got != 1000 {
			ts.failf("%s, round %d: got %d units taken and not refunded, and %d left; want a sum of 1000", describe(l), round, outstanding.Load(), left)
		}
	}
}

func checkAtomicReservations(ts *tester) {
	for _, a := range ts.options.algorithms() {
		if !a.CanReserve() {
			continue
		}
		l := ts.limiter(a, "1/1s")
		for round := range ts.options.Rounds/20 + 1 {
			at := start + headgate.Instant(round)*1_000_000*(goroutines+2)
			delays := make([]int64, goroutines)
			ts.concurrently(func(g int) error {
				r, err := l.ReserveAt(background, at.Time(), "key", 1, headgate.MaxFillTime)
				if err == nil && r.OK() {
					delays[g] = r.Delay().Microseconds() + 1
				}
				return err
			})
			ts.mustHaveDistinctDelays(l, delays)
		}
	}
}

// mustHaveDistinctDelays requires that delays contains 0 s, 1 s, 2 s and so on, each of
// them once. An element of delays is a delay in µs plus 1, or 0 if the goroutine got no
// reservation.
func (ts *tester) mustHaveDistinctDelays(l *headgate.Limiter, delays []int64) {
	seen := make(map[int64]bool)
	for _, p := range delays {
		seen[p] = true
	}
	for i := range int64(len(delays)) {
		if !seen[i*1_000_000+1] {
			ts.failf("%s: %d goroutines reserve 1 unit each: none has a delay of %d s", describe(l), len(delays), i)
		}
	}
}
