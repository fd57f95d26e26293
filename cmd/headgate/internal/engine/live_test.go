package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

func live(policy, target, limit string) engine.LiveOverride {
	l, err := headgate.ParsePolicyLimit(limit)
	if err != nil {
		panic(err)
	}
	return engine.LiveOverride{Policy: policy, Target: target, Limits: []headgate.Limit{l}}
}

// Live overrides precede those of the configuration, whatever their targets are. A live
// override of the whole policy applies to the keys without any override.
func TestLiveOverridePrecedence(t *testing.T) {
	t.Parallel()
	withoutStar := overridden
	withoutStar.Patterns = map[string][]headgate.Limit{"acme-*": limits("21/h"), "bad-*": {headgate.Blocked()}}
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), withoutStar, "")
	if err := e.ApplyLive([]engine.LiveOverride{
		live("p", "network:10.1.2.0/24", "41/h"), live("p", "key:bad-1", "unlimited"), live("p", "pattern:acme-e*", "42/h"),
		live("p", "pattern:vip-*", "43/h"), live("p", "key:", "44/h"), live("p", "policy", "45/h"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		key, name, limit string
		live             bool
	}{
		{"10.1.2.3", "network:10.1.2.0/24", "41/h", true}, // before key:10.1.2.3 of the configuration
		{"10.1.3.3", "network:10.1.0.0/16", "32/h", false},
		{"bad-1", "key:bad-1", "unlimited", true},
		{"bad-2", "pattern:bad-*", "0/s", false},
		{"acme-eu", "pattern:acme-e*", "42/h", true},
		{"acme-us", "pattern:acme-*", "21/h", false},
		{"vip-1", "pattern:vip-*", "43/h", true},
		{"", "key:", "44/h", true},
		{"other", "policy", "45/h", true},
	} {
		if name, isLive := e.ActiveConfig().AppliedOverride("p", c.key); name != c.name || isLive != c.live {
			t.Errorf("%q: got %q, live %v want %q, %v", c.key, name, isLive, c.name, c.live)
		}
		a := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: c.key, Cost: 1})
		if got := a.Rules[0].Limit.String(); got != c.limit {
			t.Errorf("%q: got limit %s want %s", c.key, got, c.limit)
		}
	}
	if err := e.ApplyLive(nil); err != nil {
		t.Fatal(err)
	}
	if got := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: "other"}).Rules[0].Limit.String(); got != "5/h" {
		t.Errorf("without live overrides: got %s want 5/h", got)
	}
}

// A key keeps what it has spent when a live override begins and ends, and live overrides
// stay when the configuration is applied again.
func TestLiveOverrideKeepsStateAndReloads(t *testing.T) {
	t.Parallel()
	policy := headgate.MustPolicy("5/1h")
	policy.Algorithm = headgate.FixedWindow
	e, _ := newPolicyEngine(t, policy, engine.PolicyOptions{}, "")
	check := engine.Check{Policy: "p", Key: "k", Cost: 3}
	if a := decide(t, e, headgate.Take, check); a.Remaining != 2 {
		t.Fatalf("got %d remaining want 2", a.Remaining)
	}
	if err := e.ApplyLive([]engine.LiveOverride{live("p", "key:k", "50/h"), live("later", "key:k", "7/h")}); err != nil {
		t.Fatal(err)
	}
	if a := decide(t, e, headgate.Take, check); a.Remaining != 44 {
		t.Errorf("with the override: got %d remaining want 44", a.Remaining)
	}
	if ignored := e.ActiveConfig().IgnoredLive(); len(ignored) != 1 || ignored[0].Policy != "later" || !errors.Is(ignored[0].Err, engine.ErrUnknownPolicy) {
		t.Errorf("got ignored %v want the policy later", ignored)
	}
	if err := e.Apply(&engine.Options{Policies: map[string]headgate.Policy{"p": policy, "later": policy}}); err != nil {
		t.Fatal(err)
	}
	if a := decide(t, e, headgate.Take, check); a.Remaining != 41 {
		t.Errorf("after a reload: got %d remaining want 41", a.Remaining)
	}
	if a := decide(t, e, headgate.Peek, engine.Check{Policy: "later", Key: "k"}); a.Limit != 7 || len(e.ActiveConfig().IgnoredLive()) != 0 {
		t.Errorf("a policy that was added later: got limit %d want 7", a.Limit)
	}
	if err := e.ApplyLive(nil); err != nil {
		t.Fatal(err)
	}
	if a := decide(t, e, headgate.Peek, check); a.Allowed || a.Limit != 5 {
		t.Errorf("without the override: got allowed %v of %d want denied of 5", a.Allowed, a.Limit)
	}
}

// An override that a policy does not accept has no effect, and does not affect others.
func TestLiveOverrideErrors(t *testing.T) {
	t.Parallel()
	policy := headgate.MustPolicy("5/1h")
	policy.Algorithm = headgate.FixedWindow
	e, _ := newPolicyEngine(t, policy, engine.PolicyOptions{}, "")
	wrong := live("p", "key:a", "5/1h burst 7")
	if err := e.ApplyLive([]engine.LiveOverride{wrong, live("p", "pattern:exact", "6/h"), live("p", "key:b", "8/h")}); err != nil {
		t.Fatal(err)
	}
	if got := len(e.ActiveConfig().IgnoredLive()); got != 2 {
		t.Errorf("got %d ignored want 2: %v", got, e.ActiveConfig().IgnoredLive())
	}
	for key, want := range map[string]int64{"a": 5, "b": 8} {
		if a := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: key}); a.Limit != want {
			t.Errorf("%s: got limit %d want %d", key, a.Limit, want)
		}
	}
	for text, want := range map[string]string{
		"acme": "must begin with", "pattern:acme": "no *", "pattern:**": "written *", "network:10.0.0.1/8": "10.0.0.0/8", "network:x": "CIDR",
		"network:::ffff:10.0.0.0/104": "IPv4",
	} {
		if _, err := engine.ParseTarget(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v want one with %q", text, err, want)
		}
	}
}

// The index finds the pattern that precedes all others which match the key alone.
func TestPatternsAgainstAllComparisons(t *testing.T) {
	t.Parallel()
	texts := []string{"a*", "ab*", "*b", "*ab", "a*b", "*", "*a*", "abc*", "b*a", "*c*b"}
	nameOf := func(key string, texts ...string) string {
		var all []engine.LiveOverride
		for _, text := range texts {
			all = append(all, live("p", "pattern:"+text, "5/h"))
		}
		e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{}, "")
		if err := e.ApplyLive(all); err != nil {
			t.Fatal(err)
		}
		return strings.TrimPrefix(e.ActiveConfig().OverrideOf("p", key), "pattern:")
	}
	literals := func(s string) int { return len(strings.ReplaceAll(s, "*", "")) }
	for _, key := range []string{"", "a", "b", "ab", "abc", "ba", "cab", "acb", "bca", "c", "xcyb"} {
		want := ""
		for _, text := range texts {
			if nameOf(key, text) == "" {
				continue
			}
			if want == "" || literals(text) > literals(want) || literals(text) == literals(want) && text < want {
				want = text
			}
		}
		if got := nameOf(key, texts...); got != want {
			t.Errorf("%q: got %q want %q", key, got, want)
		}
	}
}

// Decisions with 10,000 overrides of every kind allocate nothing, and find theirs.
func TestManyLiveOverrides(t *testing.T) {
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{}, "")
	var all []engine.LiveOverride
	for i := range 3333 {
		all = append(all, live("p", fmt.Sprintf("key:k%d", i), "100/h"), live("p", fmt.Sprintf("pattern:t%d-*", i), "200/h"),
			live("p", fmt.Sprintf("network:10.%d.%d.0/24", i/256, i%256), "300/h"))
	}
	if err := e.ApplyLive(all); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]int64{"k77": 100, "t3332-x": 200, "10.5.7.9": 300, "k3333": 5, "t3333-x": 5} {
		if a := decide(t, e, headgate.Peek, engine.Check{Policy: "p", Key: key}); a.Limit != want {
			t.Errorf("%s: got limit %d want %d", key, a.Limit, want)
		}
	}
	var a engine.Answer
	check := []engine.Check{{Policy: "p", Key: "t3332-x", Cost: 0}}
	if n := testing.AllocsPerRun(100, func() { _ = e.Decide(t.Context(), headgate.Take, check, &a) }); n != 0 {
		t.Errorf("got %v allocations for a decision want 0", n)
	}
}
