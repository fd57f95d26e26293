package headgate_test

import (
	"errors"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// requireUnits fails the test unless key has want units under each limiter at an instant.
func requireUnits(t *testing.T, now time.Time, key string, want map[*headgate.Limiter]int64) {
	t.Helper()
	for l, n := range want {
		if d, err := l.PeekAt(t.Context(), now, key, 0); err != nil || d.Remaining != n {
			t.Errorf("%s: got %d remaining, error %v want %d", l.Policy().Name, d.Remaining, err, n)
		}
	}
}

func TestDebitAll(t *testing.T) {
	t.Parallel()
	store, now := memstore.New(nil), holdNoon
	requests := newLimiter(t, store, "requests", nil, "10/1h")
	tokens := newLimiter(t, store, "tokens", nil, "1/1h burst 4")
	queue := newAlgorithmLimiter(t, store, headgate.LeakyBucket, "1/1h queue 9")
	d, err := headgate.DebitAllAt(t.Context(), now, headgate.Check{Limiter: requests, Key: "k", Cost: 3},
		headgate.Check{Limiter: tokens, Key: "k", Cost: 6}, headgate.Check{Limiter: queue, Key: "k", Cost: 1})
	if err != nil || !d.Allowed || d.Remaining != 0 || d.Limit != 4 {
		t.Errorf("got %+v, error %v want the decision of the overspent limit", d, err)
	}
	requireUnits(t, now, "k", map[*headgate.Limiter]int64{requests: 7, tokens: 0, queue: 9})
	if d, err := tokens.AllowAt(t.Context(), now, "k", 1); err != nil || d.RetryAfter != 3*time.Hour {
		t.Errorf("2 units are owed: got %+v, error %v want 3h", d, err)
	}
	if _, err := headgate.DebitAllAt(t.Context(), now, headgate.Check{Limiter: requests, Key: "k", Cost: 2},
		headgate.Check{Limiter: requests, Key: "k", Cost: 1}); err != nil {
		t.Error(err)
	}
	requireUnits(t, now, "k", map[*headgate.Limiter]int64{requests: 4})
}

func TestTakeUpToAll(t *testing.T) {
	t.Parallel()
	store, now := memstore.New(nil), holdNoon
	requests := newLimiter(t, store, "requests", nil, "10/1h")
	tokens := newLimiter(t, store, "tokens", nil, "1/1h burst 4")
	check := func(l *headgate.Limiter, cost int64) headgate.Check {
		return headgate.Check{Limiter: l, Key: "k", Cost: cost}
	}
	for i, tt := range []struct {
		checks           []headgate.Check
		granted          int64
		requests, tokens int64
	}{
		{[]headgate.Check{check(requests, 3), check(tokens, 2)}, 2, 8, 2},
		{[]headgate.Check{check(requests, 9), check(tokens, 9)}, 2, 6, 0},
		{[]headgate.Check{check(requests, 9), check(tokens, 9)}, 0, 6, 0},
		{[]headgate.Check{check(requests, 9), check(requests, 9)}, 3, 0, 0},
	} {
		granted, d, err := headgate.TakeUpToAllAt(t.Context(), now, tt.checks...)
		if err != nil || granted != tt.granted || !d.Allowed || d.Remaining != min(tt.requests, tt.tokens) {
			t.Errorf("call %d: got %d granted, %+v, error %v want %d", i+1, granted, d, err, tt.granted)
		}
		requireUnits(t, now, "k", map[*headgate.Limiter]int64{requests: tt.requests, tokens: tt.tokens})
	}
}

func TestDebitAllAndTakeUpToAllErrors(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	rate, other := newLimiter(t, store, "rate", nil, "10/1h"), newLimiter(t, memstore.New(nil), "other", nil, "10/1h")
	slots := newLimiter(t, store, "slots", nil, "2 concurrent")
	wider, err := rate.WithLimits(headgate.MustParseLimit("20/1h"))
	if err != nil {
		t.Fatal(err)
	}
	plain := newLimiter(t, withoutHolds{memstore.New(nil)}, "", nil, "10/1h")
	check := func(l *headgate.Limiter, cost int64) headgate.Check {
		return headgate.Check{Limiter: l, Key: "k", Cost: cost}
	}
	for name, tt := range map[string]struct {
		checks []headgate.Check
		want   error
	}{
		"no checks":             {nil, headgate.ErrInvalidPolicy},
		"no limiter":            {[]headgate.Check{check(rate, 1), {Key: "k", Cost: 1}}, headgate.ErrInvalidPolicy},
		"two stores":            {[]headgate.Check{check(rate, 1), check(other, 1)}, headgate.ErrInvalidPolicy},
		"a cost below 0":        {[]headgate.Check{check(rate, 1), check(rate, -1)}, headgate.ErrInvalidCost},
		"a cost above 2^53 - 1": {[]headgate.Check{check(rate, 1), check(rate, headgate.MaxWindowUnits+1)}, headgate.ErrInvalidCost},
		"two limits of one key": {[]headgate.Check{check(rate, 1), check(wider, 1)}, headgate.ErrInvalidHold},
		"concurrent work":       {[]headgate.Check{check(rate, 1), check(slots, 1)}, headgate.ErrHoldRequired},
		"a store without holds": {[]headgate.Check{check(plain, 1), check(plain, 1)}, headgate.ErrUnsupported},
		"more checks than 32":   {make([]headgate.Check, 33), headgate.ErrInvalidPolicy},
	} {
		if _, err := headgate.DebitAll(t.Context(), tt.checks...); !errors.Is(err, tt.want) {
			t.Errorf("DebitAll, %s: got error %v want %v", name, err, tt.want)
		}
		if _, _, err := headgate.TakeUpToAll(t.Context(), tt.checks...); !errors.Is(err, tt.want) {
			t.Errorf("TakeUpToAll, %s: got error %v want %v", name, err, tt.want)
		}
	}
	if _, err := headgate.DebitAllAt(t.Context(), time.Time{}, check(rate, 1)); !errors.Is(err, headgate.ErrInvalidInstant) {
		t.Errorf("an instant before 1970: got error %v want ErrInvalidInstant", err)
	}
	if d, err := rate.PeekN(t.Context(), "k", 0); err != nil || d.Remaining != 10 {
		t.Errorf("after the errors: got %d remaining, error %v want 10", d.Remaining, err)
	}
}
