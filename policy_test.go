package headgate_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/memstore"
)

func TestPolicyValidate(t *testing.T) {
	t.Parallel()
	limit := headgate.MustParseLimit("10/s")
	many := func(n int) []headgate.Limit { return make([]headgate.Limit, n) }
	full := many(headgate.MaxLimits)
	for i := range full {
		full[i] = limit
	}
	for _, c := range []struct {
		name   string
		policy headgate.Policy
		want   error
		says   string
	}{
		{"zero value", headgate.Policy{}, headgate.ErrInvalidPolicy, "0 limits"},
		{"one limit", headgate.Policy{Limits: []headgate.Limit{limit}}, nil, ""},
		{"as many limits as may be", headgate.Policy{Limits: full}, nil, ""},
		{"one too many", headgate.Policy{Limits: append(full[:len(full):len(full)], limit)}, headgate.ErrInvalidPolicy, "33 limits; must be 1 to 32"},
		{"a long name", headgate.Policy{Name: strings.Repeat("n", 256), Limits: []headgate.Limit{limit}}, nil, ""},
		{"too long a name", headgate.Policy{Name: strings.Repeat("n", 257), Limits: []headgate.Limit{limit}}, headgate.ErrInvalidPolicy, "257 bytes; must be at most 256"},
		{"an invalid limit", headgate.Policy{Name: "login", Limits: []headgate.Limit{limit, {Rate: 5}}}, headgate.ErrInvalidLimit, `limit 2 of policy "login"`},
	} {
		err := c.policy.Validate()
		if !errors.Is(err, c.want) {
			t.Errorf("%s: got error %v want %v", c.name, err, c.want)
		} else if err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %q want it to say %q", c.name, err, c.says)
		}
	}
}

// ruleStore records the rules that are bound.
type ruleStore struct {
	headgate.Store
	rules []headgate.Rule
}

func (s *ruleStore) Bind(rule headgate.Rule) (headgate.Bound, error) {
	s.rules = append(s.rules, rule)
	return s.Store.Bind(rule)
}

func rulesOf(t *testing.T, p headgate.Policy) []headgate.Rule {
	t.Helper()
	store := &ruleStore{Store: memstore.New(nil)}
	if _, err := headgate.New(store, p, nil); err != nil {
		t.Fatal(err)
	}
	return store.rules
}

// Two limits share a scope only if their policies have the same name and algorithm and
// the limits have the same index.
func TestPolicyScopes(t *testing.T) {
	t.Parallel()
	policy := func(name string, limits ...string) headgate.Policy {
		p := headgate.MustPolicy(limits...)
		p.Name = name
		return p
	}
	seen := make(map[string]string)
	for _, p := range []headgate.Policy{
		policy("", "10/s"), policy("", "10/m"), policy("", "10/s burst 20"), policy("", "10/s queue 9", "10/s queue 8"),
		policy("10/s", "10/s"), policy("a", "1/s"), policy("A", "1/s"), policy("é", "1/s"), policy("e\u0301", "1/s"),
		policy("a:b", "1/s"), policy("0:a", "1/s"), policy("1:a", "1/s"), policy("limit:0:10/s", "10/s"), policy("policy:0:a", "1/s"),
		policy("b", "1/s", "1/s", "1/s"), policy("0:b", "1/s", "1/s"), policy("\x00", "1/s"), policy(" ", "1/s"),
	} {
		if strings.Contains(p.Limits[0].String(), "queue") {
			p.Algorithm = headgate.LeakyBucket
		}
		for _, r := range rulesOf(t, p) {
			if other, shared := seen[r.Scope]; shared {
				t.Errorf("policy %q and %s: both have scope %q", p.Name, other, r.Scope)
			}
			seen[r.Scope] = "policy " + p.Name
		}
	}
	for _, p := range []struct{ one, other headgate.Policy }{
		{policy("login", "10/s", "100/h"), policy("login", "20/s", "200/h")}, // a changed limit keeps its scope
		{policy("", "60/1m"), policy("", "60/60s")},                          // one limit in two spellings
	} {
		one, other := rulesOf(t, p.one), rulesOf(t, p.other)
		for i := range one {
			if one[i].Scope != other[i].Scope {
				t.Errorf("policies %v and %v: got scopes %q and %q want one", p.one, p.other, one[i].Scope, other[i].Scope)
			}
		}
	}
}

func TestDecisionNamesDenyingLimits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		limits []string
		want   string
	}{
		{"", []string{"1/m"}, "1/m"},
		{"login", []string{"1/1m"}, "login"},
		{"login", []string{"1/1m", "9/h"}, "login:1/m"},
		{"", []string{"9/h", "1/m"}, "1/m"},
	} {
		p := headgate.MustPolicy(c.limits...)
		p.Name = c.name
		l, err := headgate.New(memstore.New(nil), p, nil)
		if err != nil {
			t.Fatal(err)
		}
		mustAllow(t, l, "key", 1)
		d, err := l.Allow(t.Context(), "key")
		if err != nil || strings.Join(d.DeniedBy, ", ") != c.want {
			t.Errorf("policy %q of %v: got denied by %q, error %v want %q", c.name, c.limits, d.DeniedBy, err, c.want)
		}
	}
}

func TestMustPolicy(t *testing.T) {
	t.Parallel()
	p := headgate.MustPolicy("10/s", "100/m burst 5")
	want := headgate.Limit{Rate: 100, Period: time.Minute, Burst: 5}
	if p.Name != "" || p.Algorithm != "" || len(p.Limits) != 2 || p.Limits[1] != want {
		t.Errorf("got %+v want an unnamed policy of 10/s and %v", p, want)
	}
	defer func() {
		if recover() == nil {
			t.Error("MustPolicy of nonsense: got a policy want a panic")
		}
	}()
	headgate.MustPolicy("10/s", "nonsense")
}
