package algo_test

import (
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
)

const largest = "9007199254740991/d" // 2^53 − 1

func TestLargeCountsAreExact(t *testing.T) {
	k := keyOf(t, headgate.FixedWindow, largest)
	for _, c := range []struct {
		cost, remaining int64
		allowed         bool
	}{
		{1, 1<<53 - 2, true},
		{1<<53 - 1, 1<<53 - 2, false},
		{1<<30 - 1, 1<<53 - 1 - 1<<30, true}, // the low bits carry into the high bits
		{1<<53 - 2 - 1<<30, 1, true},
		{2, 1, false},
		{1, 0, true},
		{1, 0, false},
	} {
		if d := k.take(year2026, c.cost); d.Allowed != c.allowed || d.Remaining != c.remaining || d.Never {
			t.Errorf("take %d: got %+v want allowed %v, remaining %d", c.cost, d, c.allowed, c.remaining)
		}
	}
	if d := k.take(year2026, 1<<53); !d.Never {
		t.Errorf("take 2^53: got %+v want never", d)
	}
	if d := k.refund(year2026, 1<<30); d.Remaining != 1<<30 {
		t.Errorf("refund 2^30: got %+v want remaining 2^30", d)
	}
}

// Counts below 2^30 are stored as before large limits existed: in B alone.
func TestSmallCountsKeepTheirFormat(t *testing.T) {
	k := keyOf(t, headgate.FixedWindow, "10/s")
	k.take(year2026, 7)
	if want := (algo.State{A: year2026 + 1_000_000, B: 7}); k.state != want {
		t.Errorf("got state %+v want %+v", k.state, want)
	}
	k = keyOf(t, headgate.FixedWindow, largest)
	k.state = algo.State{A: year2026 + 86_400_000_000, B: 1_000_000_000}
	if got, want := k.remaining(year2026), int64(1<<53-1-1_000_000_000); got != want {
		t.Errorf("remaining of a state with 10^9 units: got %d want %d", got, want)
	}
}

func TestLargeRatesRequireACounter(t *testing.T) {
	forEachAlgorithm(t, func(t *testing.T, a algo.Algorithm) {
		most := a.Name.MaxRate()
		if err := a.Check(headgate.Limit{Rate: most, Period: headgate.MaxPeriod}); err != nil {
			t.Errorf("rate %d: got error %v want none", most, err)
		}
		err := a.Check(headgate.Limit{Rate: most + 1, Period: headgate.MaxPeriod})
		var e *headgate.LimitError
		if !errors.As(err, &e) || e.Field != "rate" {
			t.Errorf("rate %d: got error %v want one about the rate", most+1, err)
		}
	})
}
