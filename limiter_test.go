package headgate_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/root"
	"github.com/headgate/headgate/memstore"
)

func TestNewRejectsInvalidPolicies(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	for _, c := range []struct {
		name   string
		store  headgate.Store
		policy headgate.Policy
		want   error
		says   string
	}{
		{"no store", nil, headgate.MustPolicy("10/s"), headgate.ErrInvalidPolicy, "memstore.New(nil)"},
		{"no limits", store, headgate.Policy{}, headgate.ErrInvalidPolicy, "0 limits"},
		{"an invalid limit", store, headgate.Policy{Limits: make([]headgate.Limit, 1)}, headgate.ErrInvalidLimit, "rate is 0"},
		{"a burst under a window", store, headgate.Policy{Limits: headgate.MustPolicy("10/s burst 20").Limits, Algorithm: headgate.FixedWindow}, headgate.ErrInvalidLimit, "burst is 20; must be 0 under fixed_window"},
		{"an unknown algorithm", store, headgate.Policy{Limits: headgate.MustPolicy("10/s").Limits, Algorithm: "sieve"}, headgate.ErrUnknownAlgorithm, "sliding_window"},
		{"a queue that nothing waits in", store, headgate.Policy{Limits: headgate.MustPolicy("10/s queue 5").Limits}, headgate.ErrInvalidLimit, "leaky_bucket"},
	} {
		l, err := headgate.New(c.store, c.policy, nil)
		if l != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, error %v want none and an error that says %q", c.name, l, err, c.says)
		}
	}
}

func TestLimiterCopiesPolicy(t *testing.T) {
	t.Parallel()
	limits := headgate.MustPolicy("10/s").Limits
	l, err := headgate.New(memstore.New(nil), headgate.Policy{Name: "api", Limits: limits}, nil)
	if err != nil {
		t.Fatal(err)
	}
	limits[0].Rate = 999
	if got := l.Policy(); got.Name != "api" || got.Limits[0] != headgate.MustParseLimit("10/s") {
		t.Errorf("the caller's slice was changed afterwards: got policy %+v want 10/s", got)
	}
}

func TestAllowPeekRefundReset(t *testing.T) {
	t.Parallel()
	l := newLimiter(t, memstore.New(nil), "api", nil, "10/1m")
	for _, c := range []struct {
		name  string
		call  func() (headgate.Decision, error)
		allow bool
		left  int64
	}{
		{"allow one", func() (headgate.Decision, error) { return l.AllowAt(t.Context(), noon.Time(), "key", 1) }, true, 9},
		{"allow six", func() (headgate.Decision, error) { return l.AllowAt(t.Context(), noon.Time(), "key", 6) }, true, 3},
		{"peek at four", func() (headgate.Decision, error) { return l.PeekAt(t.Context(), noon.Time(), "key", 4) }, false, 3},
		{"allow four", func() (headgate.Decision, error) { return l.AllowAt(t.Context(), noon.Time(), "key", 4) }, false, 3},
		{"allow none", func() (headgate.Decision, error) { return l.AllowAt(t.Context(), noon.Time(), "key", 0) }, true, 3},
		{"refund two", func() (headgate.Decision, error) { return l.RefundAt(t.Context(), noon.Time(), "key", 2) }, true, 5},
		{"reset", func() (headgate.Decision, error) { return l.ResetAt(t.Context(), noon.Time(), "key") }, true, 10},
	} {
		if d, err := c.call(); err != nil || d.Allowed != c.allow || d.Remaining != c.left {
			t.Errorf("%s: got %+v, error %v want allowed=%v and %d left", c.name, d, err, c.allow, c.left)
		}
	}
}

// The methods without At use the store's clock.
func TestVerbsUseStoreClock(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]string{{"10/366d"}, {"10/366d", "20/366d"}} {
		l := newLimiter(t, memstore.New(nil), "api", nil, limits...)
		for _, c := range []struct {
			name string
			call func() (headgate.Decision, error)
			left int64
		}{
			{"Allow", func() (headgate.Decision, error) { return l.Allow(t.Context(), "key") }, 9},
			{"AllowN", func() (headgate.Decision, error) { return l.AllowN(t.Context(), "key", 3) }, 6},
			{"Peek", func() (headgate.Decision, error) { return l.PeekN(t.Context(), "key", 1) }, 6},
			{"Refund", func() (headgate.Decision, error) { return l.RefundN(t.Context(), "key", 2) }, 8},
			{"AllowAll", func() (headgate.Decision, error) {
				return headgate.AllowAll(t.Context(), headgate.Check{Limiter: l, Key: "key", Cost: 3})
			}, 5},
			{"PeekAll", func() (headgate.Decision, error) {
				return headgate.PeekAll(t.Context(), headgate.Check{Limiter: l, Key: "key", Cost: 1})
			}, 5},
			{"Reset", func() (headgate.Decision, error) { return l.Reset(t.Context(), "key") }, 10},
		} {
			if d, err := c.call(); err != nil || !d.Allowed || d.Remaining != c.left {
				t.Errorf("%s under %v: got %+v, error %v want allowed with %d left", c.name, limits, d, err, c.left)
			}
		}
	}
}

// Zero and negative costs, and invalid instants.
func TestRequestsOutOfRange(t *testing.T) {
	t.Parallel()
	for _, limits := range [][]string{{"10/m"}, {"10/m", "20/h"}} {
		l := newLimiter(t, memstore.New(nil), "api", nil, limits...)
		calls := map[string]func(now headgate.Instant, cost int64) error{
			"AllowAt": func(now headgate.Instant, cost int64) error {
				_, err := l.AllowAt(t.Context(), now.Time(), "key", cost)
				return err
			},
			"PeekAt": func(now headgate.Instant, cost int64) error {
				_, err := l.PeekAt(t.Context(), now.Time(), "key", cost)
				return err
			},
			"RefundAt": func(now headgate.Instant, cost int64) error {
				_, err := l.RefundAt(t.Context(), now.Time(), "key", cost)
				return err
			},
			"AllowAllAt": func(now headgate.Instant, cost int64) error {
				_, err := headgate.AllowAllAt(t.Context(), now.Time(), headgate.Check{Limiter: l, Key: "key", Cost: cost})
				return err
			},
		}
		if len(limits) == 1 {
			calls["ReserveAt"] = func(now headgate.Instant, cost int64) error {
				_, err := l.ReserveAt(t.Context(), now.Time(), "key", cost, 0)
				return err
			}
		}
		for name, call := range calls {
			for _, c := range []struct {
				now  headgate.Instant
				cost int64
				want error
			}{
				{noon, 0, nil},
				{noon, math.MaxInt64, nil},
				{noon, -1, headgate.ErrInvalidCost},
				{noon, math.MinInt64, headgate.ErrInvalidCost},
				{0, 1, nil},
				{headgate.MaxInstant, 1, nil},
				{headgate.StoreClock, 0, headgate.ErrInvalidInstant}, // its time is long before 1970
				{-1, 1, headgate.ErrInvalidInstant},
				{headgate.MaxInstant + 1, 1, headgate.ErrInvalidInstant},
				{math.MaxInt64, 1, headgate.ErrInvalidInstant},
				{headgate.StoreClock + 1, 1, headgate.ErrInvalidInstant},
			} {
				if err := call(c.now, c.cost); !errors.Is(err, c.want) {
					t.Errorf("%s(%d µs, cost %d) under %v: got error %v want %v", name, c.now, c.cost, limits, err, c.want)
				}
			}
		}
	}
}

// The microseconds of a distant time overflow 64 bits. Its instant must not equal the
// instant of another time.
func TestInstantOfOutOfRange(t *testing.T) {
	t.Parallel()
	for _, at := range []time.Time{
		{},
		time.Unix(-1, 999_999_999), time.Unix(1<<44, 0), time.Unix(1<<60, 0), time.Unix(-1<<60, 0), time.Unix(math.MaxInt64, 0),
		time.UnixMicro(int64(headgate.MaxInstant) + 1), time.UnixMicro(math.MinInt64),
	} {
		if got := headgate.InstantOf(at); got.Valid() {
			t.Errorf("%v: got instant %d, want one that is not valid", at, got)
		}
	}
	for _, at := range []headgate.Instant{0, 1, 1_700_000_000_000_000, headgate.MaxInstant} {
		if got := headgate.InstantOf(at.Time().Add(999)); got != at {
			t.Errorf("got instant %d want %d", got, at)
		}
	}
}

func TestCombineDecisions(t *testing.T) {
	t.Parallel()
	allowed := func(limit, left int64, reset, delay time.Duration) headgate.Decision {
		return headgate.Decision{Allowed: true, Limit: limit, Remaining: left, ResetAfter: reset, Delay: delay}
	}
	denied := func(name string, limit, left int64, retry, reset time.Duration) headgate.Decision {
		return headgate.Decision{Limit: limit, Remaining: left, RetryAfter: retry, ResetAfter: reset, DeniedBy: []string{name}}
	}
	never := headgate.Decision{Never: true, Limit: 3, Remaining: 3, DeniedBy: []string{"small"}}
	for _, c := range []struct {
		name  string
		parts []headgate.Decision
		want  headgate.Decision
	}{
		{"one", []headgate.Decision{allowed(10, 4, 5, 6)}, allowed(10, 4, 5, 6)},
		{"the least remaining speaks", []headgate.Decision{allowed(10, 4, 50, 0), allowed(20, 3, 5, 0), allowed(30, 9, 70, 0)}, allowed(20, 3, 5, 0)},
		{"the first of equals speaks", []headgate.Decision{allowed(10, 4, 50, 0), allowed(20, 4, 5, 0)}, allowed(10, 4, 50, 0)},
		{"the longest delay", []headgate.Decision{allowed(10, 4, 50, 3), allowed(20, 4, 5, 9), allowed(20, 5, 5, 2)}, allowed(10, 4, 50, 9)},
		{
			"one denies",
			[]headgate.Decision{allowed(10, 4, 50, 7), denied("b", 20, 5, 30, 90)},
			headgate.Decision{Limit: 10, Remaining: 4, RetryAfter: 30, ResetAfter: 50, DeniedBy: []string{"b"}},
		},
		{
			"two deny: the longer wait, both names",
			[]headgate.Decision{denied("a", 10, 0, 40, 50), allowed(5, 5, 0, 0), denied("c", 20, 0, 30, 90)},
			headgate.Decision{Limit: 10, RetryAfter: 40, ResetAfter: 50, DeniedBy: []string{"a", "c"}},
		},
		{
			"never",
			[]headgate.Decision{denied("a", 10, 0, 40, 50), never},
			headgate.Decision{Never: true, Limit: 10, ResetAfter: 50, DeniedBy: []string{"a", "small"}},
		},
	} {
		got := root.Combine(c.parts)
		if fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: got %+v want %+v", c.name, got, c.want)
		}
	}
}

func TestTightestDecision(t *testing.T) {
	t.Parallel()
	for want, left := range [][]int64{{4, 5, 9}, {20, 3, 5}, {7, 3, 2}} {
		var decisions []headgate.Decision
		for _, n := range left {
			decisions = append(decisions, headgate.Decision{Allowed: true, Limit: 20, Remaining: n})
		}
		if got := root.Tightest(append(decisions, decisions[want])); got != want {
			t.Errorf("%v, and the least again: got %d want %d", left, got, want)
		}
	}
	if got := root.Tightest(nil); got != 0 {
		t.Errorf("no decision: got %d want 0", got)
	}
}

func TestAllowAllRejectsInvalidChecks(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	l := newLimiter(t, store, "api", nil, "10/m")
	elsewhere := newLimiter(t, memstore.New(nil), "api", nil, "10/m")
	check := headgate.Check{Limiter: l, Key: "key", Cost: 1}
	for _, c := range []struct {
		name   string
		checks []headgate.Check
		want   error
		says   string
	}{
		{"nothing", nil, headgate.ErrInvalidPolicy, "0 checks"},
		{"too many", slices.Repeat([]headgate.Check{check}, headgate.MaxLimits+1), headgate.ErrInvalidPolicy, "33 checks"},
		{"no limiter", []headgate.Check{{Key: "key", Cost: 1}}, headgate.ErrInvalidPolicy, "check 1"},
		{"no second limiter", []headgate.Check{check, {Key: "key", Cost: 1}}, headgate.ErrInvalidPolicy, "check 2"},
		{"two stores", []headgate.Check{check, {Limiter: elsewhere, Key: "key", Cost: 1}}, headgate.ErrInvalidPolicy, "check 2 does not use the same store as check 1"},
		{"a negative cost", []headgate.Check{check, {Limiter: l, Key: "key", Cost: -1}}, headgate.ErrInvalidCost, "-1"},
	} {
		for verb, call := range map[string]func() (headgate.Decision, error){
			"AllowAllAt": func() (headgate.Decision, error) { return headgate.AllowAllAt(t.Context(), noon.Time(), c.checks...) },
			"PeekAllAt":  func() (headgate.Decision, error) { return headgate.PeekAllAt(t.Context(), noon.Time(), c.checks...) },
		} {
			if _, err := call(); !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%s of %s: got error %v want one that says %q", verb, c.name, err, c.says)
			}
		}
	}
	if d, err := l.PeekAt(t.Context(), noon.Time(), "key", 0); err != nil || d.Remaining != 10 {
		t.Errorf("after refusals: got %+v, error %v want nothing spent", d, err)
	}
}

func TestAllowAllWithMultiLimitPolicies(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	address, account := newLimiter(t, store, "address", nil, "5/m", "20/h"), newLimiter(t, store, "account", nil, "3/m")
	checks := []headgate.Check{{Limiter: address, Key: "203.0.113.9", Cost: 1}, {Limiter: account, Key: "ann", Cost: 1}}
	for i := range int64(3) {
		if d, err := headgate.AllowAllAt(t.Context(), noon.Time(), checks...); err != nil || !d.Allowed || d.Remaining != 2-i || d.Limit != 3 {
			t.Errorf("login %d: got %+v, error %v want allowed with %d of 3 left", i+1, d, err, 2-i)
		}
	}
	d, err := headgate.AllowAllAt(t.Context(), noon.Time(), checks...)
	if err != nil || d.Allowed || d.RetryAfter != 20*time.Second || !slices.Equal(d.DeniedBy, []string{"account"}) {
		t.Errorf("login 4: got %+v, error %v want denied by account for 20s", d, err)
	}
	if d, err := address.PeekAt(t.Context(), noon.Time(), "203.0.113.9", 0); err != nil || d.Remaining != 2 {
		t.Errorf("the address after a denial by the account: got %+v, error %v want 2 of 5 left", d, err)
	}
}

// callEveryVerb calls each verb once, in the order of wantVerbs.
func callEveryVerb(t *testing.T, l *headgate.Limiter, key string) {
	t.Helper()
	ctx := t.Context()
	_, _ = l.Allow(ctx, key)
	_, _ = l.AllowN(ctx, key, 2)
	_, _ = l.PeekN(ctx, key, 3)
	_, _ = l.RefundN(ctx, key, 1)
	_, _ = l.Reset(ctx, key)
	_, _ = headgate.AllowAll(ctx, headgate.Check{Limiter: l, Key: key, Cost: 4})
	_, _ = headgate.PeekAll(ctx, headgate.Check{Limiter: l, Key: key, Cost: 5})
	_ = l.WaitN(ctx, key, 1)
	if r, err := l.Reserve(ctx, key, 1, 0); err == nil {
		_ = r.Cancel(ctx)
	}
}

var wantVerbs = []string{"take 1", "take 2", "peek 3", "refund 1", "reset 0", "take 4", "peek 5", "wait 1", "reserve 1", "cancel 1"}

func TestObserverReceivesEveryVerb(t *testing.T) {
	t.Parallel()
	var recorder eventRecorder
	store := memstore.New(nil)
	callEveryVerb(t, newLimiter(t, store, "api", &recorder, "10/m"), "key")
	events := recorder.take()
	if got := verbsOf(events); !slices.Equal(got, wantVerbs) {
		t.Errorf("got events %q want %q", got, wantVerbs)
	}
	for _, e := range events {
		if e.Policy != "api" || e.Err != nil || !e.Decision.Allowed {
			t.Errorf("%s: got %+v want policy api, allowed, no error", e.Verb, e)
		}
	}
	_ = store.Close()
	callEveryVerb(t, newLimiterWithClosedStore(t, &recorder), "key")
	for _, e := range recorder.take() {
		if !errors.Is(e.Err, headgate.ErrClosed) || e.Decision.Allowed {
			t.Errorf("%s at a closed store: got %+v want ErrClosed and no decision", e.Verb, e)
		}
	}
}

func verbsOf(events []headgate.Event) []string {
	verbs := make([]string, len(events))
	for i, e := range events {
		verbs[i] = fmt.Sprint(e.Verb, " ", e.Cost)
	}
	return verbs
}

func newLimiterWithClosedStore(t *testing.T, o headgate.Observer) *headgate.Limiter {
	t.Helper()
	store := memstore.New(nil)
	l := newLimiter(t, store, "api", o, "10/m")
	_ = store.Close()
	return l
}

// Keys are personal data: nothing that is logged by default contains a key.
func TestEventsAndErrorsContainNoKey(t *testing.T) {
	t.Parallel()
	const key = "ann@example.org"
	var recorder eventRecorder
	for _, l := range []*headgate.Limiter{
		newLimiter(t, memstore.New(nil), "api", &recorder, "1/m"),
		newLimiter(t, memstore.New(nil), "", &recorder, "1/m", "2/h"),
		newLimiterWithClosedStore(t, &recorder),
	} {
		callEveryVerb(t, l, key)
		_, _ = l.AllowN(t.Context(), key, -1)
		_, _ = l.AllowAt(t.Context(), time.UnixMicro(-1), key, 1)
		_, _ = l.Reserve(t.Context(), key, 1, 0)
		_ = l.WaitN(t.Context(), key, -1)
		_, _ = headgate.AllowAll(t.Context(), headgate.Check{Limiter: l, Key: key, Cost: -1})
	}
	for _, e := range recorder.take() {
		if said := fmt.Sprintf("%+v %v", e, e.Err); strings.Contains(said, key) {
			t.Errorf("event with a key: %s", said)
		}
	}
}

func TestObserverReceivesItsPartOfAllowAll(t *testing.T) {
	t.Parallel()
	var one, other eventRecorder
	store := memstore.New(nil)
	wide, narrow := newLimiter(t, store, "wide", &one, "10/m", "50/h"), newLimiter(t, store, "narrow", &other, "1/m")
	checks := []headgate.Check{{Limiter: wide, Key: "key", Cost: 2}, {Limiter: narrow, Key: "key", Cost: 1}}
	for range 2 {
		if _, err := headgate.AllowAllAt(t.Context(), noon.Time(), checks...); err != nil {
			t.Fatal(err)
		}
	}
	got := one.take()
	if len(got) != 2 || got[0].Cost != 2 || got[0].Decision.Remaining != 8 || got[1].Decision.Remaining != 8 {
		t.Errorf("the wide limiter's observer: got %+v want its own 8 left, twice", got)
	}
	if got := other.take(); len(got) != 2 || !got[0].Decision.Allowed || got[1].Decision.Allowed || got[1].Policy != "narrow" {
		t.Errorf("the narrow limiter's observer: got %+v want allowed, then denied", got)
	}
}

func TestVerbNames(t *testing.T) {
	t.Parallel()
	for v, want := range map[headgate.Verb]string{headgate.Take: "take", headgate.Peek: "peek", headgate.Refund: "refund", headgate.Reset: "reset", 99: "unknown"} {
		if got := v.String(); got != want {
			t.Errorf("Verb(%d): got %q want %q", v, got, want)
		}
	}
}

func TestInstantOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		time time.Time
		want headgate.Instant
	}{
		{time.Unix(0, 0), 0},
		{time.UnixMicro(int64(headgate.MaxInstant) + 5), headgate.MaxInstant + 5}, // an error reports it
		{time.Unix(1, 999), 1_000_000},
		{time.Unix(1, 1999), 1_000_001},
		{time.Unix(-1, 0), -1_000_000},
	} {
		if got := headgate.InstantOf(c.time); got != c.want {
			t.Errorf("InstantOf(%v): got %d want %d", c.time, got, c.want)
		}
	}
}

func TestAllowDoesNotAllocate(t *testing.T) {
	l := newLimiter(t, memstore.New(nil), "api", nil, "10/m")
	ctx := t.Context()
	if got := testing.AllocsPerRun(1000, func() { _, _ = l.Allow(ctx, "key") }); got != 0 {
		t.Errorf("Allow, admitted and denied: got %v allocations want none", got)
	}
}
