package algo_test

import (
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

// TestAlgorithmTableMatchesSteppers compares the table of kinds with the arithmetic.
func TestAlgorithmTableMatchesSteppers(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		if a.Name.Refill() == headgate.RefillUnknown {
			t.Fatal("the table of kinds in algorithm.go of the root has no row for it")
		}
		if got, want := a.Name.CanReserve(), canReserve(a); got != want {
			t.Errorf("CanReserve: got %v, its stepper is a Booker: %v", got, want)
		}
		k := newKey(a, headgate.MustParseLimit("10/s"))
		k.take(year2026, 1)
		if got, want := a.Name.Queues(), k.take(year2026, 1).Delay > 0; got != want {
			t.Errorf("Queues: got %v, its second request at an instant is delayed: %v", got, want)
		}
		if !a.Name.Windowed() {
			k = newKey(a, headgate.MustParseLimit("10/s burst 20"))
			if got := k.peek(year2026, 0).Limit; got != 20 {
				t.Errorf("Windowed: got false, and 10/s burst 20 has the limit %d want 20", got)
			}
		}
		k.take(year2026, k.peek(year2026, 0).Limit)
		single := k.remaining(year2026+k.peek(year2026, 1).RetryAfter.Microseconds()) == 1
		if a.Name.Refill() == headgate.RefillContinuous && !single || a.Name.Refill() == headgate.RefillStepped && single {
			t.Errorf("Refill: got %d, after all was spent units come back singly: %v", a.Name.Refill(), single)
		}
	})
}

func TestCheckReportsUnusedFields(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		for _, c := range []struct {
			limit string
			field string // of the error; empty for none
			wrong bool
		}{
			{"10/s", "", false},
			{"10/s burst 20", "burst", a.Name.Windowed()},
			{"10/s queue 20", "queue", !a.Name.Queues()},
		} {
			err := a.Check(headgate.MustParseLimit(c.limit))
			if (err != nil) != c.wrong {
				t.Errorf("%s: got error %v want one: %v", c.limit, err, c.wrong)
			}
			if built := buildError(a, headgate.MustParseLimit(c.limit)); (built != nil) != c.wrong {
				t.Errorf("%s: New returned the error %v and Check %v; want the same", c.limit, built, err)
			}
			var e *headgate.LimitError
			if c.wrong && (!errors.As(err, &e) || e.Field != c.field) {
				t.Errorf("%s: got error %v want one about %s", c.limit, err, c.field)
			}
		}
		if err := a.Check(headgate.Limit{}); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("the zero limit: got error %v want ErrInvalidLimit", err)
		}
	})
}
