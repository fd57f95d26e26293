package headgate_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func TestParsePolicyLimit(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]headgate.Limit{
		"unlimited": headgate.Unlimited(), " Unlimited\t": headgate.Unlimited(),
		"0/s": headgate.Blocked(), "0/5m": headgate.Blocked(), "0 per day": headgate.Blocked(), "0/month": headgate.Blocked(),
		"10/s": headgate.MustParseLimit("10/s"),
	} {
		if got, err := headgate.ParsePolicyLimit(text); err != nil || got != want {
			t.Errorf("%q: got %v, error %v want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", "unlimite", "unlimited/s", "0/x", "0/s burst 5", "-1/s", "0"} {
		if got, err := headgate.ParsePolicyLimit(text); err == nil {
			t.Errorf("%q: got %v want an error", text, got)
		}
	}
	if got := headgate.Unlimited().String() + " " + headgate.Blocked().String(); got != "unlimited 0/s" {
		t.Errorf("printed: got %q want unlimited 0/s", got)
	}
}

// A limit from a client must count: only a policy may be unlimited or blocked.
func TestLimitOfClientMustCount(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	for _, text := range []string{"unlimited", "UNLIMITED", "0/s"} {
		if _, err := headgate.ParseLimit(text); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("ParseLimit(%q): got %v want ErrInvalidLimit", text, err)
		}
		var l headgate.Limit
		if err := json.Unmarshal([]byte(`"`+text+`"`), &l); err == nil {
			t.Errorf("Unmarshal of %q: got no error", text)
		}
	}
	for _, l := range []headgate.Limit{headgate.Unlimited(), headgate.Blocked()} {
		if err := l.Validate(); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("%v.Validate: got %v want ErrInvalidLimit", l, err)
		}
		if _, err := store.Bind(headgate.Rule{Limit: l}); !errors.Is(err, headgate.ErrInvalidLimit) {
			t.Errorf("Bind of %v: got %v want ErrInvalidLimit", l, err)
		}
		p := headgate.Policy{Name: "p", Limits: []headgate.Limit{headgate.MustParseLimit("5/s"), l}}
		if err := p.Validate(); err == nil || !strings.Contains(err.Error(), "it must be the only one") {
			t.Errorf("a policy with 5/s and %v: got %v want an error", l, err)
		}
	}
	for _, l := range []headgate.Limit{{}, {Period: time.Second}, {Rate: -1, Period: time.Second}} {
		if _, err := headgate.New(store, headgate.Policy{Limits: []headgate.Limit{l}}, nil); err == nil {
			t.Errorf("a policy with %#v: got no error", l)
		}
	}
}

// The decisions of unlimited and blocked policies need no store: it is closed here.
func TestUnlimitedAndBlockedNeedNoStore(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), memstore.New(nil)
	free, none := newLimiter(t, store, "free", nil, "unlimited"), newLimiter(t, store, "none", nil, "0/s")
	_ = store.Close()
	all := headgate.Decision{Allowed: true, Limit: headgate.MaxWindowUnits, Remaining: headgate.MaxWindowUnits}
	denied := headgate.Decision{Never: true, DeniedBy: []string{"none"}}
	for name, call := range map[string]func(l *headgate.Limiter) (headgate.Decision, error){
		"Allow":  func(l *headgate.Limiter) (headgate.Decision, error) { return l.Allow(ctx, "k") },
		"AllowN": func(l *headgate.Limiter) (headgate.Decision, error) { return l.AllowN(ctx, "k", 1<<62) },
		"Peek":   func(l *headgate.Limiter) (headgate.Decision, error) { return l.Peek(ctx, "k") },
		"AllowAll": func(l *headgate.Limiter) (headgate.Decision, error) {
			return headgate.AllowAll(ctx, headgate.Check{Limiter: l, Key: "k", Cost: 3})
		},
		"Reserve": func(l *headgate.Limiter) (headgate.Decision, error) {
			r, err := l.Reserve(ctx, "k", 5, time.Hour)
			return r.Decision(), err
		},
		"Hold": func(l *headgate.Limiter) (headgate.Decision, error) {
			h, err := l.Hold(ctx, "k", 5, time.Hour)
			return h.Decision(), err
		},
	} {
		got, err := call(free)
		mustEqual(t, name+" unlimited", got, err, all)
		got, err = call(none)
		mustEqual(t, name+" blocked", got, err, denied)
	}
	for name, call := range map[string]func(l *headgate.Limiter) (headgate.Decision, error){
		"cost 0": func(l *headgate.Limiter) (headgate.Decision, error) { return l.AllowN(ctx, "k", 0) },
		"Refund": func(l *headgate.Limiter) (headgate.Decision, error) { return l.Refund(ctx, "k") },
		"Reset":  func(l *headgate.Limiter) (headgate.Decision, error) { return l.Reset(ctx, "k") },
		"Debit":  func(l *headgate.Limiter) (headgate.Decision, error) { return l.Debit(ctx, "k", 5) },
	} {
		got, err := call(free)
		mustEqual(t, name+" unlimited", got, err, all)
		got, err = call(none)
		mustEqual(t, name+" blocked", got, err, headgate.Decision{Allowed: true})
	}
	if err := free.Wait(ctx, "k"); err != nil {
		t.Errorf("Wait unlimited: %v", err)
	}
	if err := none.Wait(ctx, "k"); !errors.Is(err, headgate.ErrNeverAllowed) {
		t.Errorf("Wait blocked: got %v want ErrNeverAllowed", err)
	}
	if n, _, err := free.TakeUpTo(ctx, "k", 7); n != 7 || err != nil {
		t.Errorf("TakeUpTo unlimited: got %d, error %v want 7", n, err)
	}
	if n, _, err := none.TakeUpTo(ctx, "k", 7); n != 0 || err != nil {
		t.Errorf("TakeUpTo blocked: got %d, error %v want 0", n, err)
	}
}

func mustEqual(t *testing.T, name string, got headgate.Decision, err error, want headgate.Decision) {
	t.Helper()
	if err != nil || !equalDecision(got, want) {
		t.Errorf("%s: got %+v, error %v want %+v", name, got, err, want)
	}
}

func equalDecision(a, b headgate.Decision) bool {
	x, y := strings.Join(a.DeniedBy, ","), strings.Join(b.DeniedBy, ",")
	a.DeniedBy, b.DeniedBy = nil, nil
	return x == y && a.Allowed == b.Allowed && a.Never == b.Never && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay && a.Degraded == b.Degraded
}

// Together with other limits, an unlimited one changes nothing, and a blocked one denies
// all of them.
func TestUnlimitedAndBlockedWithOtherLimits(t *testing.T) {
	t.Parallel()
	ctx, store := t.Context(), memstore.New(nil)
	free, none := newLimiter(t, store, "free", nil, "unlimited"), newLimiter(t, store, "none", nil, "0/s")
	ten := newLimiter(t, store, "ten", nil, "10/h")
	check := func(l *headgate.Limiter, cost int64) headgate.Check {
		return headgate.Check{Limiter: l, Key: "k", Cost: cost}
	}
	at := noon.Time()

	d, err := headgate.AllowAllAt(ctx, at, check(free, 100), check(ten, 4))
	if err != nil || !d.Allowed || d.Limit != 10 || d.Remaining != 6 {
		t.Errorf("unlimited and 10/h: got %+v, error %v want 6 of 10 remaining", d, err)
	}
	d, err = headgate.AllowAllAt(ctx, at, check(ten, 7), check(none, 1))
	if got := strings.Join(d.DeniedBy, ","); err != nil || d.Allowed || got != "ten,none" || !d.Never || d.RetryAfter != 0 {
		t.Errorf("10/h and blocked: got %+v, error %v want a denial by both", d, err)
	}
	h, err := headgate.HoldAllAt(ctx, at, &headgate.HoldOptions{TTL: time.Minute}, check(ten, 5), check(none, 1))
	if err != nil || h.OK() {
		t.Errorf("a hold on 10/h and blocked: got %+v, error %v want a denial", h.Decision(), err)
	}
	h, err = headgate.HoldAllAt(ctx, at, &headgate.HoldOptions{TTL: time.Minute}, check(ten, 5), check(free, 50))
	if err != nil || !h.OK() || h.Decision().Remaining != 1 {
		t.Fatalf("a hold on 10/h and unlimited: got %+v, error %v want 1 remaining", h.Decision(), err)
	}
	r, err := h.CommitAt(ctx, at, 2, 1_000_000)
	if err != nil || r.Remaining != 4 {
		t.Errorf("its commit of 2: got %+v, error %v want 4 remaining", r, err)
	}
}

// A hold with an unlimited check and a counted one is open only if the counted one is.
func TestHoldOfUnlimitedAndCounted(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	free, slots := newLimiter(t, store, "free", nil, "unlimited"), newLimiter(t, store, "slots", nil, "1 concurrent")
	checks := []headgate.Check{{Limiter: free, Key: "k", Cost: 1}, {Limiter: slots, Key: "k", Cost: 1}}
	open := func() *headgate.Hold {
		h, err := headgate.HoldAllAt(t.Context(), noon.Time(), &headgate.HoldOptions{TTL: time.Second}, checks...)
		if err != nil || !h.OK() {
			t.Fatal(h, err)
		}
		return h
	}
	h := open()
	if _, err := h.ExtendAt(t.Context(), noon.Time(), time.Second); err != nil {
		t.Errorf("Extend of an open hold: %v", err)
	}
	late := noon.Time().Add(time.Minute)
	if _, err := h.ExtendAt(t.Context(), late, time.Second); !errors.Is(err, headgate.ErrExpiredHold) {
		t.Errorf("Extend of an expired hold: got %v want ErrExpiredHold", err)
	}
	if _, err := h.CommitAt(t.Context(), late, 1, 1); !errors.Is(err, headgate.ErrExpiredHold) {
		t.Errorf("Commit of an expired hold: got %v want ErrExpiredHold", err)
	}
}

// Operations of holds reject a cost that a store cannot count, and charge nothing.
func TestHoldCostAboveMaximum(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	l, other := newLimiter(t, store, "l", nil, "10/1h"), newLimiter(t, store, "other", nil, "unlimited")
	h, err := headgate.HoldAllAt(t.Context(), noon.Time(), &headgate.HoldOptions{TTL: time.Second},
		headgate.Check{Limiter: l, Key: "k", Cost: 4}, headgate.Check{Limiter: other, Key: "k", Cost: headgate.MaxWindowUnits})
	if err != nil || !h.OK() {
		t.Fatal(h, err)
	}
	for name, call := range map[string]func(n int64) error{
		"hold":       func(n int64) error { _, err := l.HoldAt(t.Context(), noon.Time(), "k", n, time.Second); return err },
		"debit":      func(n int64) error { _, err := l.DebitAt(t.Context(), noon.Time(), "k", n); return err },
		"take up to": func(n int64) error { _, _, err := l.TakeUpToAt(t.Context(), noon.Time(), "k", n); return err },
		"commit":     func(n int64) error { _, err := h.CommitAt(t.Context(), noon.Time(), 4, n); return err },
	} {
		for _, n := range []int64{headgate.MaxWindowUnits + 1, math.MaxInt64} {
			if err := call(n); !errors.Is(err, headgate.ErrInvalidCost) || !strings.Contains(err.Error(), "must be 0 to 9007199254740991") {
				t.Errorf("%s of %d: got error %v want ErrInvalidCost", name, n, err)
			}
		}
	}
	if d, err := l.PeekAt(t.Context(), noon.Time(), "k", 0); err != nil || d.Remaining != 6 {
		t.Errorf("got %+v, error %v want 6 remaining", d, err)
	}
	if _, err := h.CancelAt(t.Context(), noon.Time()); err != nil {
		t.Errorf("cancel: %v", err)
	}
}

// A cost below 0 is an error also under a limit without a count.
func TestInvalidCostUnderUnlimited(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(nil), "free", nil, "unlimited")
	if h, err := l.HoldAt(t.Context(), noon.Time(), "k", -1, time.Second); !errors.Is(err, headgate.ErrInvalidCost) {
		t.Errorf("hold: got %v, error %v want ErrInvalidCost", h, err)
	}
	if _, err := l.DebitAt(t.Context(), noon.Time(), "k", -1); !errors.Is(err, headgate.ErrInvalidCost) {
		t.Errorf("debit: got error %v want ErrInvalidCost", err)
	}
	h, err := l.HoldAt(t.Context(), noon.Time(), "k", 1, time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.CommitAt(t.Context(), noon.Time(), -1); !errors.Is(err, headgate.ErrInvalidCost) {
		t.Errorf("commit: got error %v want ErrInvalidCost", err)
	}
}
