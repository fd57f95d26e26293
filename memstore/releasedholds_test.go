package memstore_test

import (
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// Expired holds of several keys are released by one operation under a changed limit, as
// by an operation on each key: 2 units stay spent, and one is added.
func TestExpiredHoldsReleasedUnderChangedLimit(t *testing.T) {
	t.Parallel()
	for _, a := range []headgate.Algorithm{headgate.TokenBucket, headgate.TokenBucketInterval, headgate.FixedWindow, headgate.SlidingWindow, headgate.SlidingLog} {
		limiter := func(s headgate.Store, limit string) *headgate.Limiter {
			l, err := headgate.New(s, headgate.Policy{
				Name: "p", Algorithm: a, Limits: []headgate.Limit{headgate.MustParseLimit(limit)}, Holds: headgate.HoldSettings{OnExpiry: headgate.ReleaseExpired},
			}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		keys, later := []string{"a", "b", "c"}, noon.Add(2*time.Second)
		checks := func(l *headgate.Limiter, cost int64) (all []headgate.Check) {
			for _, key := range keys {
				all = append(all, headgate.Check{Limiter: l, Key: key, Cost: cost})
			}
			return all
		}
		together, single := memstore.New(nil), memstore.New(nil)
		for _, s := range []headgate.Store{together, single} {
			for _, cost := range []int64{2, 6} {
				if h, err := headgate.HoldAllAt(t.Context(), noon, &headgate.HoldOptions{TTL: time.Second * time.Duration(7-cost)}, checks(limiter(s, "10/1h"), cost)...); err != nil || !h.OK() {
					t.Fatal(a, h, err)
				}
			}
		}
		all, err := headgate.AllowAllAt(t.Context(), later, checks(limiter(together, "20/1h"), 1)...)
		if err != nil || !all.Allowed {
			t.Fatal(a, all, err)
		}
		for _, key := range keys {
			one, err := limiter(single, "20/1h").AllowAt(t.Context(), later, key, 1)
			if err != nil || one.Remaining != all.Remaining {
				t.Errorf("%s, key %s: got %d remaining of one key, error %v want %d", a, key, one.Remaining, err, all.Remaining)
			}
			for _, at := range []time.Time{later, noon.Add(6 * time.Second)} { // all holds have expired at 6 s
				got, err := limiter(together, "20/1h").PeekAt(t.Context(), at, key, 0)
				want, err2 := limiter(single, "20/1h").PeekAt(t.Context(), at, key, 0)
				if err != nil || err2 != nil || got.Remaining != want.Remaining || got.ResetAfter != want.ResetAfter {
					t.Errorf("%s, key %s after %v: got %+v, errors %v, %v want %+v", a, key, at.Sub(noon), got, err, err2, want)
				}
				if at == later && a == headgate.FixedWindow && got.Remaining != 17 {
					t.Errorf("key %s: got %d remaining want 17", key, got.Remaining)
				}
			}
		}
	}
}
