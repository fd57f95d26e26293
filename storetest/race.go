package storetest

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/headgate/headgate"
)

var background = context.Background()

func raceChecks() []check {
	return []check{
		{name: "atomic", rule: "a take reads, decides and writes as one: 64 goroutines on one key are admitted exactly the limit", each: takesAreAtomic},
		{name: "atomic give and take", rule: "refunds, peeks and takes of one key are atomic: what is left is what was given back", each: refundsAreAtomic},
		{name: "atomic bookings", rule: "a booking is atomic: no two of 64 goroutines are promised the same units", judge: bookingsAreAtomic},
	}
}

const goroutines = 64

// firstError keeps the first error of many goroutines.
type firstError struct {
	mu  sync.Mutex
	err error
}

func (f *firstError) note(err error) {
	if err == nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

// together runs work on every goroutine, all released at the same moment.
func (j *judge) together(work func(g int) error) {
	var errs firstError
	var all sync.WaitGroup
	begin := make(chan struct{})
	for g := range goroutines {
		all.Go(func() {
			<-begin
			errs.note(work(g))
		})
	}
	close(begin)
	all.Wait()
	j.mustf(errs.err, "%d goroutines", goroutines)
}

// takesAreAtomic freezes the instant of each round; the next round is when the key is as if never used.
func takesAreAtomic(j *judge, a headgate.Algorithm) {
	const limit = 100
	l := j.limiter(a, "100/1s")
	for round := range j.options.Rounds {
		at := start + headgate.Instant(round)*2_000_000
		var admitted atomic.Int64
		j.together(func(int) error {
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
		left := j.peek(l, at, "key", 0).Remaining
		if got := admitted.Load(); got != limit || left != 0 {
			j.failf("%s, round %d: got %d units admitted and %d left want exactly %d and 0", describe(l), round, got, left, limit)
		}
	}
}

func refundsAreAtomic(j *judge, a headgate.Algorithm) {
	l := j.limiter(a, "1000/1s")
	for round := range j.options.Rounds/20 + 1 {
		at := start + headgate.Instant(round)*4_000_000
		var inHand atomic.Int64
		j.together(func(g int) error {
			for i := range 8 {
				if d, err := l.AllowAt(background, at.Time(), "key", 3); err != nil || !d.Allowed {
					return err
				}
				inHand.Add(3)
				if (g+i)%2 == 0 {
					continue
				}
				if _, err := l.RefundAt(background, at.Time(), "key", 2); err != nil {
					return err
				}
				inHand.Add(-2)
			}
			return nil
		})
		left := j.peek(l, at, "key", 0).Remaining
		if got := inHand.Load() + left; got != 1000 {
			j.failf("%s, round %d: got %d taken and not given back, and %d left; want 1000 together", describe(l), round, inHand.Load(), left)
		}
	}
}

func bookingsAreAtomic(j *judge) {
	for _, a := range j.options.algorithms() {
		if !a.CanReserve() {
			continue
		}
		l := j.limiter(a, "1/1s")
		for round := range j.options.Rounds/20 + 1 {
			at := start + headgate.Instant(round)*1_000_000*(goroutines+2)
			promised := make([]int64, goroutines)
			j.together(func(g int) error {
				r, err := l.ReserveAt(background, at.Time(), "key", 1, headgate.MaxFillTime)
				if err == nil && r.OK() {
					promised[g] = r.Delay().Microseconds() + 1
				}
				return err
			})
			j.mustBeEvenlyPromised(l, promised)
		}
	}
}

// mustBeEvenlyPromised wants the delays 0 s, 1 s, 2 s, …, each once; promised holds them in µs plus 1.
func (j *judge) mustBeEvenlyPromised(l *headgate.Limiter, promised []int64) {
	seen := make(map[int64]bool)
	for _, p := range promised {
		seen[p] = true
	}
	for i := range int64(len(promised)) {
		if !seen[i*1_000_000+1] {
			j.failf("%s: %d goroutines book 1 each: nobody was promised the unit of %d s", describe(l), len(promised), i)
		}
	}
}
