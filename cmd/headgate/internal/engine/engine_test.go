package engine_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/algo"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/memstore"
)

// start is the instant of every test: on a boundary of all the windows used.
const start = headgate.Instant(1_747_785_600_000_000)

func newEngine(t *testing.T, opts *engine.Options) (*engine.Engine, headgate.Store) {
	t.Helper()
	store := memstore.New(nil)
	t.Cleanup(func() { _ = store.Close() })
	e, err := engine.New(store, opts)
	if err != nil {
		t.Fatalf("engine.New: %v", err)
	}
	return e, store
}

func decide(t *testing.T, e *engine.Engine, verb headgate.Verb, checks ...engine.Check) engine.Answer {
	t.Helper()
	var a engine.Answer
	if err := e.DecideAt(t.Context(), start, verb, checks, &a); err != nil {
		t.Fatalf("%v %+v: %v", verb, checks, err)
	}
	return a
}

// inline returns a check that brings its own limit: “10/s”, or “10/s sliding_log”.
func inline(key, limit string) engine.Check {
	c := engine.Check{Limit: limit, Key: key, Cost: 1}
	if i := strings.LastIndexByte(limit, ' '); strings.Contains(limit, "_") || strings.HasSuffix(limit, "gcra") {
		c.Limit, c.Algorithm = limit[:i], limit[i+1:]
	}
	return c
}

func remaining(a engine.Answer) []int64 {
	var all []int64
	for _, d := range a.Decisions {
		all = append(all, d.Remaining)
	}
	return all
}

// T45, T11: the state of a check without a policy.
func TestInlineState(t *testing.T) {
	type request []engine.Check
	type remain []int64
	for _, tt := range []struct {
		name      string
		requests  []request
		remaining remain // of each check of the last
	}{
		{"the same check goes on counting", []request{{inline("k", "10/1m")}, {inline("k", "10/1m")}}, remain{8}},
		{"a raised rate keeps the time that was spent", []request{{inline("k", "10/1m")}, {inline("k", "20/1m")}}, remain{17}},
		{"a raised window keeps its count", []request{{inline("k", "10/1m fixed_window")}, {inline("k", "20/1m fixed_window")}}, remain{18}},
		{"a changed burst keeps what was spent", []request{{inline("k", "10/1m burst 5")}, {inline("k", "10/1m burst 10")}}, remain{8}},
		{"60s is 1m", []request{{inline("k", "10/60s")}, {inline("k", "10/1m")}}, remain{8}},
		{"blanks do not matter", []request{{inline("k", " 10 / 1m ")}, {inline("k", "10/1m")}}, remain{8}},
		{"gcra is token_bucket", []request{{inline("k", "10/1m gcra")}, {inline("k", "10/1m token_bucket")}}, remain{8}},
		{"token_bucket is the default", []request{{inline("k", "10/1m token_bucket")}, {inline("k", "10/1m")}}, remain{8}},
		{"another key is another's", []request{{inline("a", "10/1m")}, {inline("b", "10/1m")}}, remain{9}},
		{"another period is another state", []request{{inline("k", "10/1m")}, {inline("k", "10/1h")}}, remain{9}},
		{"another algorithm is another state", []request{{inline("k", "10/1m")}, {inline("k", "10/1m sliding_log")}}, remain{9}},
		{"twice in one request counts twice", []request{{inline("k", "10/1m"), inline("k", "10/1m gcra")}, {inline("k", "10/1m")}}, remain{7}},
		{
			"two limits of one period in one request are apart and stay apart",
			[]request{
				{inline("k", "1/s burst 20"), inline("k", "10/s burst 10")},
				{inline("k", "1/s burst 20"), inline("k", "10/s burst 10")},
				{inline("k", "1/s burst 20"), inline("k", "10/s burst 10")},
			},
			remain{17, 7},
		},
		{
			"a limit alone counts with the first of a pair",
			[]request{{inline("k", "20/1m fixed_window"), inline("k", "10/1m fixed_window")}, {inline("k", "10/1m fixed_window")}},
			remain{8},
		},
		{
			"a limit on another key is not counted",
			[]request{{inline("address", "10/1m"), inline("account", "100/1m")}, {inline("account", "100/1m")}},
			remain{98},
		},
		{
			"different periods in one request are both first",
			[]request{{inline("k", "10/s"), inline("k", "100/1m")}, {inline("k", "100/1m")}, {inline("k", "100/1m"), inline("k", "10/s")}},
			remain{97, 8},
		},
		{
			"different algorithms in one request are both first",
			[]request{{inline("k", "10/1m"), inline("k", "20/1m fixed_window")}, {inline("k", "20/1m fixed_window")}},
			remain{18},
		},
		{
			"a policy on the key is not counted",
			[]request{{{Policy: "quarter", Key: "k", Cost: 1}, inline("k", "20/15m")}, {inline("k", "20/15m")}},
			remain{18},
		},
		{
			"another burst in one request is another limit",
			[]request{{inline("k", "10/1m burst 10"), inline("k", "10/1m burst 20")}},
			remain{9, 19},
		},
		{
			"the third is apart from both",
			[]request{{inline("k", "10/1m"), inline("k", "11/1m"), inline("k", "12/1m"), inline("k", "12/1m"), inline("k", "11/1m")}},
			remain{9, 9, 10, 10, 9},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{"quarter": headgate.MustPolicy("10/15m")}})
			var last engine.Answer
			for i, r := range tt.requests {
				if last = decide(t, e, headgate.Take, r...); !last.Allowed {
					t.Fatalf("request %d was denied by %q", i+1, last.DeniedBy)
				}
			}
			if got := remaining(last); !slices.Equal(got, tt.remaining) {
				t.Errorf("remaining after %+v: got %v, want %v", tt.requests, got, tt.remaining)
			}
		})
	}
}

var twoPolicies = &engine.Options{Policies: map[string]headgate.Policy{
	"login": {Limits: []headgate.Limit{headgate.MustParseLimit("5/15m"), headgate.MustParseLimit("20/24h")}, Algorithm: headgate.SlidingLog},
	"api":   {Name: "api", Limits: []headgate.Limit{headgate.MustParseLimit("100/s burst 200")}, Algorithm: headgate.GCRA},
}}

func TestNamedPolicies(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	a := decide(t, e, headgate.Take, engine.Check{Policy: "login", Key: "k", Cost: 4})
	if !a.Allowed || a.Policy != "login" || a.Limit != 5 || a.Remaining != 1 || len(a.Rules) != 2 {
		t.Errorf("login, cost 4: got %+v", a)
	}
	a = decide(t, e, headgate.Take, engine.Check{Policy: "login", Key: "k", Cost: 2})
	if want := []string{"login:5/15m"}; a.Allowed || !slices.Equal(a.DeniedBy, want) || a.RetryAfter != 15*time.Minute {
		t.Errorf("login, cost 2 of the 1 left: got %+v, want it denied by %q for 15m", a.Decision, want)
	}
	a = decide(t, e, headgate.Take, engine.Check{Policy: "api", Key: "k", Cost: 201})
	if want := []string{"api"}; a.Allowed || !a.Never || a.RetryAfter != 0 || !slices.Equal(a.DeniedBy, want) {
		t.Errorf("api, cost 201 of at most 200: got %+v, want never, denied by %q", a.Decision, want)
	}
	if got := a.Rules[0].Algorithm; got != headgate.TokenBucket {
		t.Errorf("api's algorithm: got %q, want the name %q for gcra", got, headgate.TokenBucket)
	}
}

// A limiter in a program and the service share state over the same store.
func TestLimiterSharesPolicyState(t *testing.T) {
	e, store := newEngine(t, twoPolicies)
	for name, policy := range twoPolicies.Policies {
		policy.Name = name
		l, err := headgate.New(store, policy, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.AllowAt(t.Context(), start.Time(), "k", 3)
		if err != nil || !d.Allowed {
			t.Fatalf("limiter of %s: %+v, %v", name, d, err)
		}
		a := decide(t, e, headgate.Peek, engine.Check{Policy: name, Key: "k"})
		if a.Remaining != d.Remaining || a.Remaining != a.Limit-3 {
			t.Errorf("%s: the engine sees %d remaining, the limiter left %d of %d", name, a.Remaining, d.Remaining, d.Limit)
		}
	}
}

// T3: several checks are allowed together, or nothing is spent.
func TestAllOrNone(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	both := []engine.Check{
		{Policy: "api", Key: "k", Cost: 1},
		{Limit: "2/1h", Key: "k", Cost: 1},
		{Policy: "login", Key: "k", Cost: 1},
	}
	for i, want := range []struct {
		allowed   bool
		remaining int64
	}{{true, 1}, {true, 0}, {false, 0}} {
		a := decide(t, e, headgate.Take, both...)
		if a.Allowed != want.allowed || a.Remaining != want.remaining || a.Policy != "" || a.Limit != 2 || a.Tightest != 1 {
			t.Errorf("request %d: got %+v, want allowed %v with %d of 2 remaining under no policy", i+1, a, want.allowed, want.remaining)
		}
	}
	for _, tt := range []struct {
		check engine.Check
		want  int64
	}{{both[0], 198}, {both[2], 3}} {
		tt.check.Cost = 0
		if a := decide(t, e, headgate.Peek, tt.check); a.Remaining != tt.want {
			t.Errorf("%+v after a denied request: %d remaining, want %d", tt.check, a.Remaining, tt.want)
		}
	}
	a := decide(t, e, headgate.Take, both...)
	if want := []string{"2/1h"}; !slices.Equal(a.DeniedBy, want) || a.RetryAfter != 30*time.Minute {
		t.Errorf("denied by %q for %v, want %q for 30m", a.DeniedBy, a.RetryAfter, want)
	}
	both[2].Cost = 6
	a = decide(t, e, headgate.Take, both...)
	if want := []string{"2/1h", "login:5/15m"}; !slices.Equal(a.DeniedBy, want) || !a.Never || a.RetryAfter != 0 {
		t.Errorf("denied by %q, never %v, for %v; want %q, true, 0", a.DeniedBy, a.Never, a.RetryAfter, want)
	}
}

func TestTightestOfEqualLimits(t *testing.T) {
	e, _ := newEngine(t, nil)
	a := decide(t, e, headgate.Take, engine.Check{Limit: "5/1h", Key: "k", Cost: 1}, engine.Check{Limit: "6/1d", Key: "k", Cost: 2})
	if a.Limit != 5 || a.Remaining != 4 || a.Tightest != 0 {
		t.Errorf("4 of 5 and 4 of 6 remain: got %d of %d, place %d; want the first, 4 of 5", a.Remaining, a.Limit, a.Tightest)
	}
}

func TestRefundAndResetSeveralChecks(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	checks := []engine.Check{{Policy: "login", Key: "k", Cost: 2}, {Limit: "10/1h", Key: "k", Cost: 3}, {Limit: "10/1h", Key: "k", Cost: 1}}
	decide(t, e, headgate.Take, checks...)
	half := slices.Clone(checks)
	half[0].Cost, half[1].Cost = 1, 1
	a := decide(t, e, headgate.Refund, half...)
	if want := []int64{4, 19, 8, 8}; !a.Allowed || !slices.Equal(remaining(a), want) {
		t.Errorf("refund: remaining %v, want %v: what a peek after it sees", remaining(a), want)
	}
	a = decide(t, e, headgate.Refund, checks...)
	if want := []int64{5, 20, 10, 10}; !slices.Equal(remaining(a), want) {
		t.Errorf("refund of more than was spent: remaining %v, want %v", remaining(a), want)
	}
	huge := slices.Clone(checks)
	huge[0].Cost, huge[1].Cost = 100, 100
	if a = decide(t, e, headgate.Refund, huge...); !a.Allowed || a.Never || a.DeniedBy != nil {
		t.Errorf("refund of more than the limits: got %+v, want the answer of a peek with cost 0", a.Decision)
	}
	decide(t, e, headgate.Take, checks...)
	a = decide(t, e, headgate.Reset, checks...)
	if want := []int64{5, 20, 10, 10}; !a.Allowed || !slices.Equal(remaining(a), want) || a.ResetAfter != 0 {
		t.Errorf("reset: remaining %v, reset after %v, want %v, 0", remaining(a), a.ResetAfter, want)
	}
}

// T26: a peek returns what the next take decides, for one check and for several.
func TestPeekAgreesWithTake(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	r := rand.New(rand.NewPCG(1, 2))
	limits := []string{"3/1s", "7/2s burst 9", "5/1s sliding_log", "4/1s fixed_window", "4/3s sliding_window", "6/1s queue 3 leaky_bucket"}
	var peek, take engine.Answer
	for i := range 20_000 {
		now := start + headgate.Instant(i)*headgate.Instant(r.Int64N(300_000))
		checks := make([]engine.Check, 1+r.IntN(3))
		for j := range checks {
			if checks[j] = inline(fmt.Sprint(r.IntN(3)), limits[r.IntN(len(limits))]); r.IntN(4) == 0 {
				checks[j] = engine.Check{Policy: "login", Key: "k"}
			}
			checks[j].Cost = r.Int64N(5)
		}
		if err := e.DecideAt(t.Context(), now, headgate.Peek, checks, &peek); err != nil {
			t.Fatal(err)
		}
		if err := e.DecideAt(t.Context(), now, headgate.Take, checks, &take); err != nil {
			t.Fatal(err)
		}
		if peek.Allowed != take.Allowed || peek.RetryAfter != take.RetryAfter || peek.Never != take.Never || !slices.Equal(peek.DeniedBy, take.DeniedBy) {
			t.Fatalf("request %d %+v: peek %+v, take %+v", i, checks, peek.Decision, take.Decision)
		}
	}
}

// T1: one key, a frozen clock, many goroutines: the allowed requests are the limit, also
// if each brings the limit as text.
func TestConcurrentTakes(t *testing.T) {
	const goroutines, limit = 64, 100
	for round := range 20 {
		e, _ := newEngine(t, nil)
		var admitted atomic.Int64
		var wg sync.WaitGroup
		for range goroutines {
			wg.Go(func() {
				var a engine.Answer
				for range 5 {
					if err := e.DecideAt(t.Context(), start, headgate.Take, []engine.Check{inline("k", "100/1h")}, &a); err != nil {
						t.Error(err)
					}
					if a.Allowed {
						admitted.Add(1)
					}
				}
			})
		}
		wg.Wait()
		if got := admitted.Load(); got != limit {
			t.Fatalf("round %d: %d of %d requests were admitted, want %d", round, got, goroutines*5, limit)
		}
	}
}

const secret = "person@example.com"

func TestCheckErrors(t *testing.T) {
	good := inline(secret, "10/s")
	with := func(change func(*engine.Check)) []engine.Check {
		c := good
		change(&c)
		return []engine.Check{good, c}
	}
	for _, tt := range []struct {
		name   string
		checks []engine.Check
		index  int
		field  string
		kind   engine.ErrorKind
		cause  error
		said   string
	}{
		{"no check", nil, -1, "checks", engine.InvalidRequest, engine.ErrInvalidRequest, "0 checks"},
		{"too many checks", slices.Repeat([]engine.Check{good}, 33), -1, "checks", engine.InvalidRequest, engine.ErrInvalidRequest, "at most 32|1 to 32"},
		{"key too long", with(func(c *engine.Check) { c.Key = strings.Repeat(secret, 100) }), 1, "key", engine.InvalidRequest, engine.ErrInvalidRequest, "1800 bytes"},
		{"negative cost", with(func(c *engine.Check) { c.Cost = -5 }), 1, "cost", engine.InvalidRequest, headgate.ErrInvalidCost, "-5"},
		{"unknown policy", with(func(c *engine.Check) { c.Policy = "logn" }), 1, "policy", engine.UnknownPolicy, engine.ErrUnknownPolicy, `"logn"`},
		{"nonsense limit", with(func(c *engine.Check) { c.Limit = "ten/s" }), 1, "limit", engine.InvalidRequest, headgate.ErrInvalidLimit, "column 1"},
		{"no limit", with(func(c *engine.Check) { c.Limit = "" }), 1, "limit", engine.InvalidRequest, headgate.ErrInvalidLimit, "column 1"},
		{"limit outside", with(func(c *engine.Check) { c.Limit = "2000000000/s" }), 1, "limit", engine.InvalidRequest, headgate.ErrInvalidLimit, "1000000000"},
		{"queue without a queue", with(func(c *engine.Check) { c.Limit = "5/s queue 5" }), 1, "limit", engine.InvalidRequest, headgate.ErrInvalidLimit, "leaky_bucket"},
		{"burst under a window", with(func(c *engine.Check) { c.Limit, c.Algorithm = "5/s burst 9", "sliding_log" }), 1, "limit", engine.InvalidRequest, headgate.ErrInvalidLimit, "burst is 9"},
		{"unknown algorithm", with(func(c *engine.Check) { c.Algorithm = "leaky" }), 1, "algorithm", engine.InvalidRequest, headgate.ErrUnknownAlgorithm, "sliding_log"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e, _ := newEngine(t, twoPolicies)
			var a engine.Answer
			err := e.DecideAt(t.Context(), start, headgate.Take, tt.checks, &a)
			var at *engine.CheckError
			if !errors.As(err, &at) || at.Index != tt.index || at.Field != tt.field {
				t.Fatalf("got %#v, want a CheckError at %d, %s", err, tt.index, tt.field)
			}
			if got := engine.ErrorKindOf(err); got != tt.kind || !errors.Is(err, tt.cause) {
				t.Errorf("%v: kind %v, want %v because of %v", err, got, tt.kind, tt.cause)
			}
			if !slices.ContainsFunc(strings.Split(tt.said, "|"), func(s string) bool { return strings.Contains(err.Error(), s) }) {
				t.Errorf("error %q does not contain %q", err, tt.said)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("error %q contains the key", err)
			}
			if a := decide(t, e, headgate.Peek, good); a.Remaining != 10 {
				t.Errorf("after the refusal a peek of cost 1 sees %d remaining, want 10 untouched", a.Remaining)
			}
		})
	}
}

func TestUnknownPolicyWithoutPolicies(t *testing.T) {
	e, _ := newEngine(t, nil)
	err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: strings.Repeat("p", 1000)}}, &engine.Answer{})
	if err == nil || !strings.Contains(err.Error(), "send a limit") || len(err.Error()) > 300 {
		t.Errorf("got %v, want a short error that offers a limit", err)
	}
}

func TestUnknownPolicySuggestsSimilarName(t *testing.T) {
	many := map[string]headgate.Policy{}
	for i := range 101 {
		many[fmt.Sprintf("policy-%d", i)] = headgate.MustPolicy("10/s")
	}
	for _, c := range []struct {
		policies   map[string]headgate.Policy
		name, want string
	}{
		{map[string]headgate.Policy{"api": headgate.MustPolicy("10/s"), "login": headgate.MustPolicy("5/m")}, "logn", `unknown policy "logn"; did you mean "login"?`},
		{map[string]headgate.Policy{"api": headgate.MustPolicy("10/s")}, "upload", `unknown policy "upload"`},
		{many, "policy-1000", `unknown policy "policy-1000"`}, // too many to compare
	} {
		e, _ := newEngine(t, &engine.Options{Policies: c.policies})
		err := e.Decide(t.Context(), headgate.Take, []engine.Check{{Policy: c.name, Key: secret}}, &engine.Answer{})
		if err == nil || engine.Reason(err) != c.want || !errors.Is(err, engine.ErrUnknownPolicy) {
			t.Errorf("%s: got %v, want %s", c.name, err, c.want)
		}
	}
}

func TestStoreFailure(t *testing.T) {
	for _, checks := range [][]engine.Check{{inline("k", "10/s")}, {inline("k", "10/s"), inline("j", "10/s")}} {
		e, store := newEngine(t, nil)
		decide(t, e, headgate.Take, checks...)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		for verb := headgate.Take; verb <= headgate.Reset; verb++ {
			err := e.Decide(t.Context(), verb, checks, &engine.Answer{})
			if !errors.Is(err, headgate.ErrClosed) || engine.ErrorKindOf(err) != engine.StoreFailure {
				t.Errorf("%v of %d checks on a closed store: %v, %v; want ErrClosed, undecided", verb, len(checks), err, engine.ErrorKindOf(err))
			}
		}
	}
	if got := engine.ErrorKindOf(context.Canceled); got != engine.StoreFailure {
		t.Errorf("KindOf(Canceled) = %v, want undecided", got)
	}
}

func TestNewInvalidPolicies(t *testing.T) {
	limits := []headgate.Limit{headgate.MustParseLimit("1/s")}
	for _, tt := range []struct {
		name    string
		listed  string
		policy  headgate.Policy
		because error
	}{
		{"no limit", "p", headgate.Policy{}, headgate.ErrInvalidPolicy},
		{"no name", "", headgate.Policy{Limits: limits}, headgate.ErrInvalidPolicy},
		{"two names", "p", headgate.Policy{Name: "q", Limits: limits}, headgate.ErrInvalidPolicy},
		{"unknown algorithm", "p", headgate.Policy{Limits: limits, Algorithm: "x"}, headgate.ErrUnknownAlgorithm},
		{"limit outside", "p", headgate.Policy{Limits: []headgate.Limit{{Rate: 1}}}, headgate.ErrInvalidLimit},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := engine.New(memstore.New(nil), &engine.Options{Policies: map[string]headgate.Policy{tt.listed: tt.policy}})
			if !errors.Is(err, tt.because) || !strings.Contains(err.Error(), fmt.Sprintf("policy %q", tt.listed)) {
				t.Errorf("got %v, want %v and the policy's name", err, tt.because)
			}
		})
	}
}

func TestInputLimits(t *testing.T) {
	e, _ := newEngine(t, &engine.Options{MaxKeyBytes: 3, MaxChecks: 2})
	if got := e.MaxChecks(); got != 2 {
		t.Errorf("MaxChecks() = %d, want 2", got)
	}
	decide(t, e, headgate.Take, inline("abc", "1/s"), inline("", "1/s"))
	for _, checks := range [][]engine.Check{{inline("abcd", "1/s")}, slices.Repeat([]engine.Check{inline("k", "9/s")}, 3)} {
		err := e.Decide(t.Context(), headgate.Take, checks, &engine.Answer{})
		if engine.ErrorKindOf(err) != engine.InvalidRequest || err == nil {
			t.Errorf("%d checks, first key of %d bytes: %v, want bad input", len(checks), len(checks[0].Key), err)
		}
	}
}

// The largest cost and unusual keys are decided like all others.
func TestLargeCostsAndUnusualKeys(t *testing.T) {
	e, _ := newEngine(t, nil)
	for _, a := range algo.Rates() {
		algorithm := string(a.Name)
		for _, key := range []string{"", "\x00", "}{", strings.Repeat("k", 1024), "\xff\xfe", "é"} {
			c := engine.Check{Limit: "1000000000/366d", Algorithm: algorithm, Key: key, Cost: math.MaxInt64}
			if a := decide(t, e, headgate.Take, c); a.Allowed || !a.Never || a.Remaining != 1_000_000_000 {
				t.Errorf("%s, key %q: a cost of 2^63-1 gave %+v, want never, nothing spent", algorithm, key, a.Decision)
			}
			c.Cost = 1_000_000_000
			if a := decide(t, e, headgate.Take, c); !a.Allowed || a.Remaining != 0 {
				t.Errorf("%s, key %q: a cost of all gave %+v, want it allowed", algorithm, key, a.Decision)
			}
			c.Cost = headgate.MaxWindowUnits
			if a := decide(t, e, headgate.Refund, c); a.Remaining != 1_000_000_000 {
				t.Errorf("%s, key %q: a refund of 2^53-1 left %d, want all", algorithm, key, a.Remaining)
			}
		}
	}
}

// A refund above 2^53-1 is the same error as a debit of so much, except for the next step
// of the debit, and changes nothing.
func TestRefundAboveExactUnits(t *testing.T) {
	t.Parallel()
	e, _ := newEngine(t, twoPolicies)
	checks := []engine.Check{{Policy: "api", Key: "k", Cost: 3}, inline("k", "5/1m")}
	decide(t, e, headgate.Take, checks...)
	for _, n := range []int64{headgate.MaxWindowUnits + 1, math.MaxInt64} {
		checks[1].Cost = n
		var refunded, debited engine.Answer
		err, want := e.Decide(t.Context(), headgate.Refund, checks, &refunded), e.ActiveConfig().Debit(t.Context(), start, checks, &debited)
		var field *engine.CheckError
		if !errors.As(err, &field) || field.Index != 1 || field.Field != "cost" || want == nil || !strings.HasPrefix(want.Error(), err.Error()+" in a debit ") {
			t.Errorf("refund of %d: got %v want %v", n, err, want)
		}
	}
	checks[1].Cost = 0
	if a := decide(t, e, headgate.Peek, checks[0]); a.Remaining != a.Limit-3 {
		t.Errorf("got %d of %d remaining want 3 fewer", a.Remaining, a.Limit)
	}
}

func TestDecideAllocatesNothing(t *testing.T) {
	e, _ := newEngine(t, twoPolicies)
	for _, checks := range [][]engine.Check{{inline("k", "1000000/s")}, {{Policy: "api", Key: "k", Cost: 1}}} {
		var a engine.Answer
		ctx := t.Context()
		got := testing.AllocsPerRun(1000, func() {
			if err := e.Decide(ctx, headgate.Take, checks, &a); err != nil {
				t.Fatal(err)
			}
		})
		if got > 0 {
			t.Errorf("%+v: %v allocations, want 0", checks, got)
		}
	}
}

func BenchmarkInlineCheck(b *testing.B) {
	store := memstore.New(nil)
	defer store.Close()
	e, err := engine.New(store, nil)
	if err != nil {
		b.Fatal(err)
	}
	checks, a := []engine.Check{{Limit: "100/1m", Key: "k", Cost: 1}}, engine.Answer{}
	for b.Loop() {
		if err := e.Decide(b.Context(), headgate.Take, checks, &a); err != nil {
			b.Fatal(err)
		}
	}
}

// A check cannot take slots. It is an invalid request that names what to use, and nothing
// is charged, also not to other checks of the request.
func TestChecksOfConcurrency(t *testing.T) {
	e, _ := newEngine(t, &engine.Options{Policies: map[string]headgate.Policy{"streams": headgate.MustPolicy("2 concurrent")}})
	for name, checks := range map[string][]engine.Check{
		"a policy":       {{Policy: "streams", Key: "k", Cost: 1}},
		"with a rate":    {inline("k", "10/s"), {Policy: "streams", Key: "k", Cost: 1}},
		"a text":         {inline("k", "2 concurrent")},
		"a cost of zero": {{Policy: "streams", Key: "k"}},
	} {
		for _, verb := range []headgate.Verb{headgate.Take, headgate.Refund} {
			err := e.Decide(t.Context(), verb, checks, &engine.Answer{})
			if !errors.Is(err, headgate.ErrHoldRequired) || engine.ErrorKindOf(err) != engine.InvalidRequest || !strings.Contains(engine.Reason(err), "/v1/hold") {
				t.Errorf("%s, %s: got error %v want ErrHoldRequired that names /v1/hold", name, verb, err)
			}
		}
		for _, c := range checks {
			c.Cost = 1
			if a := decide(t, e, headgate.Peek, c); !a.Allowed || a.ResetAfter != 0 {
				t.Errorf("%s: peek afterwards: got %+v want an unused key", name, a.Decision)
			}
		}
	}
}
