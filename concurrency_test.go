package headgate_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// Only a hold takes slots. Every other operation that would charge is a typed error that
// names Hold, and charges nothing.
func TestConcurrencyRequiresHold(t *testing.T) {
	t.Parallel()
	ctx, store := context.Background(), memstore.New(nil)
	slots := newLimiter(t, store, "streams", nil, "2 concurrent")
	mixed := newLimiter(t, store, "mixed", nil, "100/m", "2 concurrent")
	rate := newLimiter(t, store, "rate", nil, "100/m")
	for name, call := range map[string]func() error{
		"allow":      func() error { _, err := slots.Allow(ctx, "k"); return err },
		"allow 0":    func() error { _, err := slots.AllowN(ctx, "k", 0); return err },
		"allow at":   func() error { _, err := slots.AllowAt(ctx, noon.Time(), "k", 1); return err },
		"mixed":      func() error { _, err := mixed.Allow(ctx, "k"); return err },
		"wait":       func() error { return slots.Wait(ctx, "k") },
		"mixed wait": func() error { return mixed.Wait(ctx, "k") },
		"reserve":    func() error { _, err := slots.Reserve(ctx, "k", 1, time.Second); return err },
		"refund":     func() error { _, err := slots.Refund(ctx, "k"); return err },
		"debit":      func() error { _, err := slots.Debit(ctx, "k", 1); return err },
		"up to":      func() error { _, _, err := slots.TakeUpTo(ctx, "k", 1); return err },
		"all": func() error {
			_, err := headgate.AllowAll(ctx, headgate.Check{Limiter: rate, Key: "k", Cost: 1}, headgate.Check{Limiter: slots, Key: "k", Cost: 1})
			return err
		},
	} {
		err := call()
		if !errors.Is(err, headgate.ErrHoldRequired) || !errors.Is(err, headgate.ErrUnsupported) || !strings.Contains(err.Error(), "call Hold") {
			t.Errorf("%s: got error %v want ErrHoldRequired that names Hold", name, err)
		}
	}
	for name, l := range map[string]*headgate.Limiter{"slots": slots, "mixed": mixed, "rate": rate} {
		if d, err := l.Peek(ctx, "k"); err != nil || !d.Allowed || d.ResetAfter != 0 {
			t.Errorf("%s: peek: got %+v, error %v want an unused key", name, d, err)
		}
	}
	if !slots.OnlyHolds() || !mixed.OnlyHolds() || rate.OnlyHolds() {
		t.Error("OnlyHolds: want true for the policies with slots and false for the rate")
	}
}

// A request that is denied for concurrency has not spent its rate, and the other way
// round.
func TestConcurrencyDenialSpendsNoRate(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	l := newLimiter(t, memstore.New(nil), "api", nil, "3/h", "1 concurrent")
	open := func(ttl time.Duration) *headgate.Hold {
		t.Helper()
		h, err := l.HoldAt(ctx, noon.Time(), "k", 1, ttl)
		if err != nil {
			t.Fatal(err)
		}
		return h
	}
	first := open(time.Minute)
	if !first.OK() {
		t.Fatalf("first hold: got %+v", first.Decision())
	}
	denied := open(time.Minute).Decision()
	if denied.Allowed || denied.RetryAfter != time.Minute || strings.Join(denied.DeniedBy, " ") != "api:1 concurrent" {
		t.Errorf("second hold: got %+v want a denial by the slots for a minute", denied)
	}
	for range 2 {
		if _, err := first.CommitAt(ctx, noon.Time(), 1); err != nil {
			t.Fatal(err)
		}
		if first = open(time.Minute); !first.OK() {
			t.Fatalf("a later hold: got %+v, want one of the 3 units that the denial did not spend", first.Decision())
		}
	}
	if _, err := first.CommitAt(ctx, noon.Time(), 1); err != nil {
		t.Fatal(err)
	}
	if d := open(time.Minute).Decision(); d.Allowed || strings.Join(d.DeniedBy, " ") != "api:3/h" {
		t.Errorf("fourth hold: got %+v want a denial by the rate", d)
	}
	if d, err := l.PeekAt(ctx, noon.Time(), "k", 1); err != nil || strings.Join(d.DeniedBy, " ") != "api:3/h" {
		t.Errorf("after a denial by the rate: got %+v, error %v, want the slot to be free", d, err)
	}
}

// keep cannot apply to slots, which every expiry releases.
func TestConcurrencyRejectsKeepExpired(t *testing.T) {
	t.Parallel()
	for expiry, valid := range map[headgate.OnExpiry]bool{headgate.DefaultExpiry: true, headgate.KeepExpired: false, headgate.ReleaseExpired: true} {
		p := headgate.MustNamedPolicy("streams", "16 concurrent")
		p.Holds.OnExpiry = expiry
		if err := p.Validate(); (err == nil) != valid || err != nil && !errors.Is(err, headgate.ErrInvalidPolicy) {
			t.Errorf("on_expiry %d: got error %v, want valid: %v", expiry, err, valid)
		}
	}
}
