package headgate_test

import (
	"context"
	"errors"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

// A key keeps what it has spent when its limits change from one call to the next.
func TestWithLimitsSharesState(t *testing.T) {
	t.Parallel()
	ctx, at := t.Context(), noon.Time()
	for _, a := range []headgate.Algorithm{headgate.FixedWindow, headgate.SlidingLog, headgate.TokenBucketInterval} {
		free := newAlgorithmLimiter(t, memstore.New(nil), a, "10/h")
		pro, err := free.WithLimits(headgate.MustParseLimit("100/h"))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := free.AllowAt(ctx, at, "ann", 10); err != nil || d.Remaining != 0 {
			t.Fatalf("%s: got %+v, error %v want 0 remaining", a, d, err)
		}
		d, err := pro.AllowAt(ctx, at, "ann", 1)
		if want := map[bool]int64{true: 0, false: 89}[a == headgate.TokenBucketInterval]; err != nil || d.Remaining != want {
			t.Errorf("%s: after an upgrade: got %+v, error %v want %d remaining", a, d, err, want)
		}
		back, err := pro.WithLimits(headgate.MustParseLimit("10/h"))
		if err != nil {
			t.Fatal(err)
		}
		if d, err := back.AllowAt(ctx, at, "ann", 1); err != nil || d.Allowed {
			t.Errorf("%s: after a downgrade: got %+v, error %v want a denial", a, d, err)
		}
	}
}

func TestWithLimitsReturnsSameLimiter(t *testing.T) {
	t.Parallel()
	base := newLimiter(t, memstore.New(nil), "api", nil, "10/h")
	if same, err := base.WithLimits(headgate.MustParseLimit("10/h")); err != nil || same != base {
		t.Errorf("its own limits: got %p, error %v want %p", same, err, base)
	}
	five := []headgate.Limit{}
	for _, text := range []string{"1/s", "2/m", "3/h", "4/d", "5/w"} {
		five = append(five, headgate.MustParseLimit(text))
		first, err := base.WithLimits(five...)
		if err != nil {
			t.Fatal(err)
		}
		if got := len(first.Policy().Limits); got != len(five) || first.Policy().Name != "api" {
			t.Errorf("got %d limits want %d", got, len(five))
		}
		second, err := first.WithLimits(five...)
		if err != nil || second != first {
			t.Errorf("%d limits for the second time: got another limiter, error %v", len(five), err)
		}
	}
	other, err := base.WithLimits(five[:2]...)
	if again, err2 := other.WithLimits(five[:1]...); err != nil || err2 != nil || len(again.Policy().Limits) != 1 {
		t.Errorf("one limit after two: got %v, errors %v, %v", again.Policy().Limits, err, err2)
	}
	blocked, err := base.WithLimits(headgate.Blocked())
	if err != nil {
		t.Fatal(err)
	}
	if d, err := blocked.Allow(t.Context(), "k"); err != nil || d.Allowed {
		t.Errorf("blocked: got %+v, error %v want a denial", d, err)
	}
}

func TestWithLimitsErrors(t *testing.T) {
	t.Parallel()
	named, unnamed := newLimiter(t, memstore.New(nil), "api", nil, "10/h"), newLimiter(t, memstore.New(nil), "", nil, "10/h")
	if _, err := unnamed.WithLimits(headgate.MustParseLimit("20/h")); !errors.Is(err, headgate.ErrInvalidPolicy) {
		t.Errorf("a policy without a name: got %v want ErrInvalidPolicy", err)
	}
	for _, limits := range [][]headgate.Limit{nil, {{}}, {{Rate: -5}}, {headgate.Unlimited(), headgate.MustParseLimit("5/s")}} {
		if _, err := named.WithLimits(limits...); err == nil {
			t.Errorf("%v: got no error", limits)
		}
	}
}

// A client that causes many different limits does not exhaust memory.
func TestWithLimitsIsBounded(t *testing.T) {
	t.Parallel()
	base := newLimiter(t, memstore.New(nil), "api", nil, "10/h")
	for rate := range int64(5000) {
		if _, err := base.WithLimits(headgate.Limit{Rate: rate + 1, Period: 1e9}); err != nil {
			t.Fatal(err)
		}
		if n := base.Variants(); n > 1024 {
			t.Fatalf("after %d different limits: got %d limiters want at most 1024", rate+1, n)
		}
	}
}

func TestWithLimitsDoesNotAllocate(t *testing.T) {
	base := newLimiter(t, memstore.New(nil), "api", nil, "10/h")
	ctx, limits := context.Background(), headgate.MustPolicy("1000000/s", "50000000/m").Limits
	for n := 1; n <= len(limits); n++ {
		plan := limits[:n]
		if _, err := base.WithLimits(plan...); err != nil {
			t.Fatal(err)
		}
		got := testing.AllocsPerRun(1000, func() {
			if _, err := base.WithLimits(plan...); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("WithLimits with %d limits: got %v allocations want 0", n, got)
		}
	}
	got := testing.AllocsPerRun(1000, func() {
		pro, err := base.WithLimits(limits[0])
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pro.Allow(ctx, "ann"); err != nil {
			t.Fatal(err)
		}
	})
	if got != 0 {
		t.Errorf("WithLimits and Allow: got %v allocations want 0", got)
	}
}

func BenchmarkWithLimits(b *testing.B) {
	base, err := headgate.New(memstore.New(nil), headgate.MustNamedPolicy("api", "10/h"), nil)
	if err != nil {
		b.Fatal(err)
	}
	limit := headgate.MustParseLimit("1000000/s")
	for b.Loop() {
		if _, err := base.WithLimits(limit); err != nil {
			b.Fatal(err)
		}
	}
}
