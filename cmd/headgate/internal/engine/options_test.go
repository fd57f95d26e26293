package engine_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

func limits(texts ...string) []headgate.Limit { return headgate.MustPolicy(texts...).Limits }

// newPolicyEngine returns an engine with a policy p and its options.
func newPolicyEngine(t *testing.T, policy headgate.Policy, terms engine.PolicyOptions, enforcement engine.Enforcement) (*engine.Engine, headgate.Store) {
	t.Helper()
	return newEngine(t, &engine.Options{
		Policies: map[string]headgate.Policy{"p": policy, "other": headgate.MustPolicy("3/1h")}, PolicyOptions: map[string]engine.PolicyOptions{"p": terms}, Enforcement: enforcement,
	})
}

func TestOverrides(t *testing.T) {
	t.Parallel()
	e, store := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{Overrides: map[string][]headgate.Limit{"acme": limits("50/1h", "60/1d")}}, "")
	a := decide(t, e, headgate.Take, engine.Check{Policy: "p", Key: "acme", Cost: 20})
	if !a.Allowed || a.Limit != 50 || a.Remaining != 30 || len(a.Rules) != 2 {
		t.Errorf("the key with limits of its own: got %+v, want 30 of 50 left", a.Decision)
	}
	if a = decide(t, e, headgate.Take, engine.Check{Policy: "p", Key: "acme2", Cost: 5}); a.Limit != 5 || a.Remaining != 0 || len(a.Rules) != 1 {
		t.Errorf("another key: got %+v, want 0 of 5 left", a.Decision)
	}
	// A limiter of the policy shares the state of the first limit.
	l, err := headgate.New(store, headgate.Policy{Name: "p", Limits: limits("100/1h")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if d, err := l.PeekAt(t.Context(), start.Time(), "acme", 0); err != nil || d.Remaining != 60 {
		t.Errorf("a limiter of 100/1h: %d remain, error %v, want 60: two fifths of an hour are spent", d.Remaining, err)
	}
}

// The shadow result is reported, and the request is allowed.
func TestShadow(t *testing.T) {
	t.Parallel()
	for _, enforcement := range []engine.Enforcement{"", engine.Shadow} {
		terms := engine.PolicyOptions{Shadow: engine.All}
		if enforcement == engine.Shadow {
			terms.Shadow = 0
		}
		policy := headgate.Policy{Limits: limits("2/1h", "9/1d"), Algorithm: headgate.LeakyBucket}
		e, _ := newPolicyEngine(t, policy, terms, enforcement)
		check := engine.Check{Policy: "p", Key: "k", Cost: 1}
		for i, want := range []struct {
			would bool
			left  int64
		}{{true, 1}, {true, 0}, {false, 0}} {
			a := decide(t, e, headgate.Take, check)
			if !a.Allowed || a.Never || a.RetryAfter != 0 || a.Delay != 0 || a.DeniedBy != nil || a.Remaining != want.left || a.Limit != 2 || a.Policy != "p" {
				t.Errorf("%q, request %d: got %+v, want it admitted with %d left", enforcement, i+1, a.Decision, want.left)
			}
			if len(a.Shadows) != 1 || a.Shadows[0].Decision.Allowed != want.would || a.Shadows[0].Policy != "p" || a.Shadows[0].Err != nil {
				t.Errorf("%q, request %d: shadows %+v, want allowed %v", enforcement, i+1, a.Shadows, want.would)
			}
		}
		check.Cost = 3
		if a := decide(t, e, headgate.Take, check); !a.Allowed || a.Never || !a.Shadows[0].Decision.Never {
			t.Errorf("%q, more than the limit: got %+v, shadows %+v", enforcement, a.Decision, a.Shadows)
		}
		check.Cost = 1
		if a := decide(t, e, headgate.Refund, check); a.Remaining != 1 {
			t.Errorf("%q, a refund: %d left, want 1", enforcement, a.Remaining)
		}
	}
}

// In a request with enforced policies, a shadow policy does not affect the decision. It
// is charged if the enforced policies allow the request.
func TestShadowWithEnforcedPolicies(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("2/1h"), engine.PolicyOptions{Shadow: engine.All}, "")
	both := []engine.Check{{Policy: "p", Key: "k", Cost: 1}, {Policy: "other", Key: "k", Cost: 1}}
	for i, want := range []struct {
		allowed, would bool
		left, watched  int64
	}{{true, true, 2, 1}, {true, true, 1, 0}, {true, false, 0, 0}, {false, false, 0, 0}} {
		a := decide(t, e, headgate.Take, both...)
		w := a.Shadows[0]
		if a.Allowed != want.allowed || a.Policy != "other" || a.Remaining != want.left || len(a.Rules) != 1 {
			t.Errorf("request %d: got %+v of %q, want allowed %v with %d left", i+1, a.Decision, a.Policy, want.allowed, want.left)
		}
		if w.Check != 0 || w.Decision.Allowed != want.would || w.Decision.Remaining != want.watched {
			t.Errorf("request %d: shadows %+v, want allowed %v with %d left", i+1, w, want.would, want.watched)
		}
	}
	decide(t, e, headgate.Reset, engine.Check{Policy: "p", Key: "k"})
	if a := decide(t, e, headgate.Take, both...); a.Allowed || !a.Shadows[0].Decision.Allowed || a.Shadows[0].Decision.Remaining != 2 {
		t.Errorf("denied by the other: got %+v, shadows %+v, want the result of a peek and nothing charged", a.Decision, a.Shadows)
	}
}

// An error of a shadow policy does not affect the request.
func TestShadowStoreFailure(t *testing.T) {
	t.Parallel()
	store := &remote{Store: memstore.New(nil), away: &headgate.StoreError{Store: "remote", Reason: headgate.ReasonTimedOut}}
	defer store.Close()
	e, err := engine.New(store, &engine.Options{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("2/1h")}, Enforcement: engine.Shadow})
	if err != nil {
		t.Fatal(err)
	}
	a := decide(t, e, headgate.Take, engine.Check{Policy: "p", Key: "k", Cost: 3})
	if !a.Allowed || a.Limit != 2 || a.Remaining != 2 || a.Degraded != headgate.ReasonTimedOut || !errors.Is(a.Shadows[0].Err, headgate.ErrStoreUnavailable) {
		t.Errorf("got %+v, shadows %+v, want it allowed and degraded, with the reason", a.Decision, a.Shadows)
	}
}

// Off uses no store, charges nothing, and still refuses invalid requests.
func TestEnforcementOff(t *testing.T) {
	t.Parallel()
	e, store := newPolicyEngine(t, headgate.MustPolicy("2/1h"), engine.PolicyOptions{}, engine.Off)
	check := engine.Check{Policy: "p", Key: "k", Cost: 99}
	for _, verb := range []headgate.Verb{headgate.Take, headgate.Peek, headgate.Refund, headgate.Reset} {
		a := decide(t, e, verb, check, inline("k", "5/1h"))
		if !a.Allowed || a.Remaining != 2 || a.Limit != 2 || len(a.Rules) != 2 || a.Shadows != nil || !a.Unenforced {
			t.Errorf("%v: got %+v, want it admitted with all left", verb, a)
		}
	}
	if n := store.(*memstore.Store).Stats().Keys; n != 0 {
		t.Errorf("%d keys are in the store, want none", n)
	}
	if err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "gone", Key: "k"}}, &engine.Answer{}); engine.ErrorKindOf(err) != engine.UnknownPolicy {
		t.Errorf("an unknown policy: got %v", err)
	}
	_ = store.Close()
	if err := e.Decide(t.Context(), headgate.Take, []engine.Check{check}, &engine.Answer{}); err != nil {
		t.Errorf("closed store: got %v, want that it is not used", err)
	}
}

// A key is treated the same each time and in each process. A larger percentage includes
// all keys of a smaller one, and about as many keys as configured.
func TestShadowPercentage(t *testing.T) {
	t.Parallel()
	const keys = 20_000
	var before []bool
	for _, share := range []engine.Percent{0, 10_000, 250_000, 500_000, 990_000, engine.All} {
		e, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Shadow: engine.All - share}, "")
		enforced, count := make([]bool, keys), 0
		for i := range keys {
			check := engine.Check{Policy: "p", Key: "user " + strconv.Itoa(i), Cost: 2}
			a := decide(t, e, headgate.Take, check)
			if enforced[i] = !a.Allowed; enforced[i] {
				count++
			}
			if before != nil && before[i] && !enforced[i] {
				t.Fatalf("key %d is enforced with a smaller share than %s and not with that", i, share)
			}
		}
		if want := int(share) * keys / int(engine.All); count < want-300 || count > want+300 || share == engine.All && count != keys || share == 0 && count != 0 {
			t.Errorf("%s: %d of %d keys are enforced, want about %d", share, count, keys, want)
		}
		before = enforced
	}
	// These values must not change: a change would treat other clients differently from
	// one day to the next.
	e, _ := newPolicyEngine(t, headgate.MustPolicy("1/1h"), engine.PolicyOptions{Shadow: 500_000}, "")
	got := ""
	for _, key := range []string{"", "a", "b", "c", "203.0.113.9", "acme", "2001:db8::/64", "user 1"} {
		got += strconv.FormatBool(decide(t, e, headgate.Take, engine.Check{Policy: "p", Key: key, Cost: 2}).Allowed)[:1]
	}
	if want := "ftffftft"; got != want {
		t.Errorf("who is spared by half a share: got %s want %s", got, want)
	}
}

func TestParsePercent(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]engine.Percent{
		"0%": 0, "25%": 250_000, "100%": engine.All, "0.1%": 1_000, "33.3333%": 333_333, "100.0%": engine.All, "07%": 70_000,
		"": -1, "%": -1, "25": -1, "101%": -1, "-1%": -1, "1.%": -1, ".5%": -1, "0.00001%": -1, "1e1%": -1, "99999999999%": -1, "100.0001%": -1, "١%": -1,
	} {
		got, err := engine.ParsePercent(text)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("%q: got %d, error %v want %d", text, got, err, want)
		}
		if again, err2 := engine.ParsePercent(got.String()); err == nil && (err2 != nil || again != got) {
			t.Errorf("%q is written %q, which is read as %d, %v", text, got.String(), again, err2)
		}
	}
}

// A limit as a value: different scopes have separate state, and share none with policies
// or with limits as text.
func TestInlineLimit(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("10/1m"), engine.PolicyOptions{}, "")
	own := func(scope, limit string, algorithm headgate.Algorithm) engine.Check {
		return engine.Check{Inline: &engine.InlineLimit{Scope: scope, Limit: headgate.MustParseLimit(limit), Algorithm: algorithm}, Key: "k", Cost: 1}
	}
	for i, c := range []struct {
		check engine.Check
		want  int64
	}{
		{own("api", "10/1m", ""), 9},
		{own("api", "10/1m", headgate.GCRA), 8},
		{own("api", "20/1h", headgate.TokenBucket), 18}, // 12 s are spent; one unit takes 180 s
		{own("api:1m", "10/1m", ""), 9},
		{own("api", "10/1m", headgate.FixedWindow), 9},
		{own("other", "10/1m", ""), 9},
		{inline("k", "10/1m"), 9},
		{engine.Check{Policy: "p", Key: "k", Cost: 1}, 9},
		{own("0:1m0s", "10/1m", ""), 9},
		{own("p", "10/1m", ""), 9},
	} {
		if a := decide(t, e, headgate.Take, c.check); a.Remaining != c.want || a.Policy != c.check.Policy {
			t.Errorf("%d: %d remain, want %d", i, a.Remaining, c.want)
		}
	}
	twice := []engine.Check{own("t", "10/1m", ""), inline("k", "9/1m"), own("t", "20/1m", ""), inline("k", "8/1m")}
	if got, want := remaining(decide(t, e, headgate.Take, twice...)), []int64{8, 7, 17, 7}; !slices.Equal(got, want) {
		t.Errorf("several in one request: %d remain, want %d", got, want)
	}
	named := own("n", "1/1h", "")
	named.Inline.Name = "configured rule"
	decide(t, e, headgate.Take, named)
	if a := decide(t, e, headgate.Take, named); a.Allowed || !slices.Equal(a.DeniedBy, []string{"configured rule"}) {
		t.Errorf("got %+v, want it denied by its name", a.Decision)
	}
	for _, wrong := range []engine.InlineLimit{{Limit: headgate.Limit{}}, {Limit: limits("1/s")[0], Algorithm: "x"}, {Limit: limits("1/s queue 2")[0]}} {
		err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Inline: &wrong, Key: "k"}}, &engine.Answer{})
		if engine.ErrorKindOf(err) != engine.InvalidRequest || err == nil {
			t.Errorf("%+v: got %v want an invalid request", wrong, err)
		}
	}
}

// A request is decided under one configuration, even if another replaces it meanwhile. An
// invalid configuration changes nothing.
func TestApply(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{}, "")
	before := e.ActiveConfig()
	for i, wrong := range []*engine.Options{
		{Policies: map[string]headgate.Policy{"p": {}}},
		{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("9/s")}, PolicyOptions: map[string]engine.PolicyOptions{"p": {Shadow: engine.All + 1}}},
		{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("9/s")}, PolicyOptions: map[string]engine.PolicyOptions{"q": {}}},
		{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("9/s")}, PolicyOptions: map[string]engine.PolicyOptions{"p": {Overrides: map[string][]headgate.Limit{"k": nil}}}},
		{Enforcement: "maybe"},
		{OnStoreError: "maybe"},
	} {
		if err := e.Apply(wrong); err == nil || e.ActiveConfig() != before {
			t.Errorf("%d: got error %v, another snapshot %v; want an error and the same", i, err, e.ActiveConfig() != before)
		}
	}
	if err := e.Apply(&engine.Options{Policies: map[string]headgate.Policy{"q": headgate.MustPolicy("7/1h")}, MaxChecks: 1}); err != nil {
		t.Fatal(err)
	}
	var a engine.Answer
	p := []engine.Check{{Policy: "p", Key: "k", Cost: 1}}
	if err := before.Decide(t.Context(), headgate.Take, p, &a); err != nil || a.Generation != 1 {
		t.Errorf("under the snapshot from before: got %v, generation %d", err, a.Generation)
	}
	if err := e.Decide(t.Context(), headgate.Take, p, &a); engine.ErrorKindOf(err) != engine.UnknownPolicy || e.MaxChecks() != 1 || e.ActiveConfig().Generation() != 2 {
		t.Errorf("under the one that took its place: got %v", err)
	}
	if err := e.Apply(nil); err != nil || e.MaxChecks() != engine.DefaultMaxChecks {
		t.Errorf("all defaults: got %v, %d checks", err, e.MaxChecks())
	}
}

// Unchanged rules keep their addresses, by which APIs identify them.
func TestApplyKeepsUnchangedRules(t *testing.T) {
	t.Parallel()
	opts := func(p string) *engine.Options {
		return &engine.Options{Policies: map[string]headgate.Policy{"p": headgate.MustPolicy(p), "other": headgate.MustPolicy("3/1h")}}
	}
	e, _ := newEngine(t, opts("5/1h"))
	checks := []engine.Check{{Policy: "p", Key: "k"}, {Policy: "other", Key: "k"}, inline("k", "1/1h")}
	rules := slices.Clone(decide(t, e, headgate.Peek, checks...).Rules)
	if err := e.Apply(opts("6/1h")); err != nil {
		t.Fatal(err)
	}
	for i, r := range decide(t, e, headgate.Peek, checks...).Rules {
		if (r == rules[i]) != (i > 0) {
			t.Errorf("rule %d: it is the same one: %v", i, r == rules[i])
		}
	}
}

func TestOptionsAllocateNothing(t *testing.T) {
	terms := engine.PolicyOptions{Shadow: 500_000, Overrides: map[string][]headgate.Limit{"acme": limits("1000000/s")}}
	for _, enforcement := range []engine.Enforcement{engine.On, engine.Shadow, engine.Off} {
		e, _ := newPolicyEngine(t, headgate.MustPolicy("1000000/s"), terms, enforcement)
		own := &engine.InlineLimit{Scope: "api", Limit: headgate.MustParseLimit("1000000/s")}
		for _, checks := range [][]engine.Check{
			{{Policy: "p", Key: "a", Cost: 1}}, {{Policy: "p", Key: "b", Cost: 1}}, {{Policy: "p", Key: "acme", Cost: 1}}, {{Inline: own, Key: "k", Cost: 1}},
		} {
			var a engine.Answer
			ctx := t.Context()
			got := testing.AllocsPerRun(1000, func() {
				if err := e.Decide(ctx, headgate.Take, checks, &a); err != nil {
					t.Fatal(err)
				}
			})
			if got > 0 {
				t.Errorf("%s, %+v: %v allocations, want 0", enforcement, checks, got)
			}
		}
	}
}

// Answers never mix the results of two configurations, under constant reloads.
func TestConcurrentApply(t *testing.T) {
	t.Parallel()
	opts := func(n int) *engine.Options {
		policies := make(map[string]headgate.Policy)
		for _, name := range []string{"a", "b", "c"} {
			policies[name] = headgate.MustPolicy(fmt.Sprintf("%d/1h", n))
		}
		return &engine.Options{Policies: policies}
	}
	e, _ := newEngine(t, opts(1_000_000))
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			var a engine.Answer
			for ctx.Err() == nil {
				if err := e.Decide(t.Context(), headgate.Peek, []engine.Check{{Policy: "a"}, {Policy: "b"}, {Policy: "c"}}, &a); err != nil {
					t.Error(err)
				}
				if a.Rules[0].Limit != a.Rules[1].Limit || a.Rules[1].Limit != a.Rules[2].Limit || uint64(a.Rules[0].Limit.Rate) != 999_999+a.Generation {
					t.Errorf("generation %d answers by %v, %v and %v", a.Generation, a.Rules[0].Limit, a.Rules[1].Limit, a.Rules[2].Limit)
				}
			}
		})
	}
	for i := range 2_000 {
		if err := e.Apply(opts(1_000_001 + i)); err != nil {
			t.Fatal(err)
		}
	}
	cancel()
	wg.Wait()
}
