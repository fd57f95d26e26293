package engine_test

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

var overridden = engine.PolicyOptions{
	Overrides: map[string][]headgate.Limit{"acme-eu": limits("11/h"), "10.1.2.3": limits("12/h"), "friend": {headgate.Unlimited()}},
	Patterns: map[string][]headgate.Limit{
		"acme-*": limits("21/h"), "acme-*-test": limits("22/h"), "*": limits("23/h"), "10.9.*": limits("24/h"), "bad-*": {headgate.Blocked()},
	},
	Networks: map[netip.Prefix][]headgate.Limit{
		netip.MustParsePrefix("10.0.0.0/8"): limits("31/h"), netip.MustParsePrefix("10.1.0.0/16"): limits("32/h"),
		netip.MustParsePrefix("2001:db8::/32"): limits("33/h"), netip.MustParsePrefix("2001:db8:0:1::/64"): limits("34/h"),
		netip.MustParsePrefix("0.0.0.0/0"): limits("35/h"),
	},
}

// An override for the key precedes patterns, of which the one with the most literal
// characters applies, and these precede networks, of which the longest prefix applies.
func TestOverridePrecedence(t *testing.T) {
	t.Parallel()
	withoutStar := overridden
	withoutStar.Patterns = map[string][]headgate.Limit{"acme-*": limits("21/h"), "acme-*-test": limits("22/h"), "10.9.*": limits("24/h"), "bad-*": {headgate.Blocked()}}
	for _, c := range []struct {
		key, name string
		limit     string
	}{
		{"acme-eu", "key:acme-eu", "11/h"},
		{"acme-us", "pattern:acme-*", "21/h"},
		{"acme-us-test", "pattern:acme-*-test", "22/h"},
		{"acme--test", "pattern:acme-*-test", "22/h"},
		{"acme-test", "pattern:acme-*", "21/h"},
		{"acme", "", "5/h"},
		{"xacme-eu", "", "5/h"},
		{"10.1.2.3", "key:10.1.2.3", "12/h"},
		{"10.1.2.4", "network:10.1.0.0/16", "32/h"},
		{"10.2.2.4", "network:10.0.0.0/8", "31/h"},
		{"10.9.2.4", "pattern:10.9.*", "24/h"},
		{"11.0.0.1", "network:0.0.0.0/0", "35/h"},
		{"::ffff:10.1.2.4", "network:10.1.0.0/16", "32/h"},
		{"2001:db8:0:1::/64", "network:2001:db8:0:1::/64", "34/h"},
		{"2001:db8:0:2::/64", "network:2001:db8::/32", "33/h"},
		{"2001:db8::/16", "", "5/h"},
		{"2001:db9::/64", "", "5/h"},
		{"2001:db8::1%eth0", "", "5/h"},
		{"10.1.2", "", "5/h"},
		{"10.1.2.3.4", "", "5/h"},
		{"10.1.2.4/33", "", "5/h"},
		{"10.1.2.4/x", "", "5/h"},
		{"", "", "5/h"},
		{"unknown", "", "5/h"},
		{"friend", "key:friend", "unlimited"},
		{"bad-1", "pattern:bad-*", "0/s"},
	} {
		e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), withoutStar, "")
		if got := e.ActiveConfig().OverrideOf("p", c.key); got != c.name {
			t.Errorf("%q: got override %q want %q", c.key, got, c.name)
		}
		var a engine.Answer
		if err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: "p", Key: c.key, Cost: 1}}, &a); err != nil {
			t.Fatalf("%q: %v", c.key, err)
		}
		if got := a.Rules[0].Limit.String(); got != c.limit || a.Allowed != (c.limit != "0/s") {
			t.Errorf("%q: got limit %s, allowed %v want %s", c.key, got, a.Allowed, c.limit)
		}
	}
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), overridden, "")
	if got := e.ActiveConfig().OverrideOf("p", "10.1.2.4"); got != "pattern:*" {
		t.Errorf("10.1.2.4 with the pattern *: got %q want pattern:*, which precedes networks", got)
	}
}

// Of two patterns with as many literal characters, the first in alphabetical order
// applies.
func TestEqualPatterns(t *testing.T) {
	t.Parallel()
	e, _ := newPolicyEngine(t, headgate.MustPolicy("5/1h"), engine.PolicyOptions{
		Patterns: map[string][]headgate.Limit{"*-b": limits("1/h"), "a-*": limits("2/h"), "a*b": limits("3/h")},
	}, "")
	for key, want := range map[string]string{"a-b": "pattern:*-b", "a-c": "pattern:a-*", "acb": "pattern:a*b", "b": ""} {
		if got := e.ActiveConfig().OverrideOf("p", key); got != want {
			t.Errorf("%q: got %q want %q", key, got, want)
		}
	}
}

// A key that gets another limit keeps what it has spent.
func TestOverrideByPatternSharesState(t *testing.T) {
	t.Parallel()
	policy := headgate.MustPolicy("5/1h")
	policy.Algorithm = headgate.FixedWindow
	e, _ := newPolicyEngine(t, policy, engine.PolicyOptions{}, "")
	var a engine.Answer
	check := []engine.Check{{Policy: "p", Key: "acme-1", Cost: 3}}
	if err := e.DecideAt(t.Context(), 0, headgate.Take, check, &a); err != nil || a.Remaining != 2 {
		t.Fatalf("got %d remaining, error %v want 2", a.Remaining, err)
	}
	opts := &engine.Options{
		Policies:      map[string]headgate.Policy{"p": policy},
		PolicyOptions: map[string]engine.PolicyOptions{"p": {Patterns: map[string][]headgate.Limit{"acme-*": limits("50/h")}}},
	}
	if err := e.Apply(opts); err != nil {
		t.Fatal(err)
	}
	if err := e.DecideAt(t.Context(), 0, headgate.Take, check, &a); err != nil || a.Remaining != 44 {
		t.Errorf("with the pattern: got %d remaining, error %v want 44", a.Remaining, err)
	}
}

func TestOverrideErrorsNameTheOverride(t *testing.T) {
	t.Parallel()
	for name, terms := range map[string]engine.PolicyOptions{
		"pattern:a-*":        {Patterns: map[string][]headgate.Limit{"a-*": {{}}}},
		"network:10.0.0.0/8": {Networks: map[netip.Prefix][]headgate.Limit{netip.MustParsePrefix("10.0.0.0/8"): {{}}}},
		"pattern:**":         {Patterns: map[string][]headgate.Limit{"**": limits("1/s")}},
	} {
		opts := &engine.Options{
			Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("5/1h")}, PolicyOptions: map[string]engine.PolicyOptions{"p": terms},
		}
		_, err := engine.New(memstore.New(nil), opts)
		var e *engine.PolicyError
		if !errors.As(err, &e) || e.Override != name || strings.Contains(e.Error(), "a-*") {
			t.Errorf("%s: got %v want an error of the override", name, err)
		}
	}
}

func TestOverridesDoNotAllocate(t *testing.T) {
	e, _ := newPolicyEngine(t, headgate.MustPolicy("1000000/s"), overridden, "")
	var a engine.Answer
	for _, key := range []string{"acme-eu", "acme-us", "10.1.2.4", "2001:db8:0:2::/64", "friend", "none of them"} {
		checks := []engine.Check{{Policy: "p", Key: key, Cost: 1}}
		got := testing.AllocsPerRun(500, func() {
			if err := e.Decide(t.Context(), headgate.Peek, checks, &a); err != nil {
				t.Fatal(err)
			}
		})
		if got != 0 {
			t.Errorf("%q: got %v allocations want 0", key, got)
		}
	}
}

// BenchmarkOverrides measures a lookup among many overrides of each kind.
func BenchmarkOverrides(b *testing.B) {
	terms := engine.PolicyOptions{
		Overrides: make(map[string][]headgate.Limit), Patterns: make(map[string][]headgate.Limit),
		Networks: make(map[netip.Prefix][]headgate.Limit),
	}
	for i := range 100 {
		terms.Overrides[fmt.Sprint("key-", i)] = limits("10/s")
		terms.Patterns[fmt.Sprint("tenant-", i, "-*")] = limits("10/s")
		terms.Networks[netip.PrefixFrom(netip.AddrFrom4([4]byte{10, byte(i), 0, 0}), 16)] = limits("10/s")
	}
	e, err := engine.New(memstore.New(nil), &engine.Options{
		Policies: map[string]headgate.Policy{"p": headgate.MustPolicy("5/1h")}, PolicyOptions: map[string]engine.PolicyOptions{"p": terms},
	})
	if err != nil {
		b.Fatal(err)
	}
	for _, key := range []string{"key-50", "tenant-50-x", "10.50.1.1", "no override at all"} {
		b.Run(key, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_ = e.ActiveConfig().OverrideOf("p", key)
			}
		})
	}
}
