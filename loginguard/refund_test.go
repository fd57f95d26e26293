package loginguard_test

import (
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/loginguard"
	"github.com/headgate/headgate/memstore"
)

// An attacker who logs in to their own account gets only the charge of that attempt
// refunded.
func TestSuccessRefundsOnlyItsCharge(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	g := mustNew(t, store, nil)
	guess := func(n int) bool {
		a := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: name(n)})
		a.Failed()
		// ignored, because Failed was reported first
		if err := a.SucceededAt(t.Context(), noon.Time()); err != nil {
			t.Fatal(err)
		}
		return a.Allowed()
	}
	allowed := 0
	for n := range 200 {
		own := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 2), Account: "mallory"})
		mine := mustAttempt(t, g, noon, loginguard.Client{Addr: host(1, 1), Account: "mallory"})
		if guess(n) {
			allowed++
		}
		for range 3 { // only the first one refunds
			for _, a := range []*loginguard.Attempt{own, mine} {
				if err := a.SucceededAt(t.Context(), noon.Time()); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	if allowed != 30 {
		t.Errorf("between own successes: %d guesses allowed from one address; want 30, as without them", allowed)
	}
	late := after(day)
	a := mustAttempt(t, g, late, loginguard.Client{Addr: host(1, 3), Account: "carol"})
	mustSucceed(t, after(3*day), a) // long after the limits are full again
	left := headgate.MustPolicy("100/24h")
	left.Name = "login/address/1"
	for key, now := range map[string]headgate.Instant{"unused": late} {
		l, err := headgate.New(store, left, nil)
		if err != nil {
			t.Fatal(err)
		}
		if d, err := l.PeekAt(t.Context(), now.Time(), key, 0); err != nil || d.Remaining != 100 {
			t.Errorf("remaining %d, error %v; want 100", d.Remaining, err)
		}
	}
	allowed = 0
	for n := range 200 {
		if mustAttempt(t, g, after(3*day), loginguard.Client{Addr: host(1, 3), Account: name(n)}).Allowed() {
			allowed++
		}
	}
	if allowed != 30 {
		t.Errorf("after a late success: %d guesses allowed; want 30", allowed)
	}
}
