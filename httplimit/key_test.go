package httplimit_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

func user(r *http.Request) (string, bool) {
	name, ok := r.Context().Value(userKey{}).(string)
	return name, ok
}

type userKey struct{}

func TestKeyText(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1025)
	noUser := httplimit.Func(func(*http.Request) (string, bool) { return "u", false })
	for _, c := range []struct {
		name string
		key  httplimit.Key
		want string
	}{
		{"zero value", httplimit.Key{}, "203.0.113.9"},
		{"address", httplimit.Address(), "203.0.113.9"},
		{"a block does not change IPv4", httplimit.AddressBlock(48), "203.0.113.9"},
		{"field name in any case", httplimit.Header("x-API-key"), "k1"},
		{"Host", httplimit.Header("host"), "example.com"},
		{"missing field", httplimit.Header("X-None"), ""},
		{"method", httplimit.Method(), "GET"},
		{"path", httplimit.Path(), "/a/b/é"},
		{"path as written", httplimit.RawPath(), "/a%2Fb/%C3%A9"},
		{"a path with bytes that are invalid in URLs", httplimit.RawPath(), "/%22%C3%A9"},
		{"no pattern", httplimit.Pattern(), ""},
		{"a function", httplimit.Func(func(*http.Request) (string, bool) { return "u", true }), "u"},
		{"a function without a result", noUser, ""},
		{"global", httplimit.Global(), ""},
		{"joined", httplimit.Join(httplimit.Method(), httplimit.Header("X-Api-Key"), httplimit.Header("X-None")), "GET+k1+"},
		{"first alternative that exists", httplimit.First(httplimit.Header("X-None"), httplimit.Header("X-Api-Key")), "header:x-api-key=k1"},
		{"first alternative is missing", httplimit.First(httplimit.Header("X-None"), httplimit.Key{}), "203.0.113.9"},
		{"all alternatives are missing", httplimit.First(httplimit.Header("X-None"), httplimit.Header("X-Missing")), "header:x-missing="},
		{
			"a join with a missing part", httplimit.First(httplimit.Join(httplimit.Path(), httplimit.Header("X-None")), httplimit.Address()),
			"203.0.113.9",
		},
		{"the second function", httplimit.First(noUser, httplimit.Func(func(*http.Request) (string, bool) { return "u", true })), "func:2=u"},
		{"nested", httplimit.Join(httplimit.First(httplimit.Join(httplimit.Global()), httplimit.Method()), httplimit.Method()), "+GET"},
		{"1 KiB is not hashed", httplimit.Func(func(*http.Request) (string, bool) { return long[1:], true }), long[1:]},
		{
			"above 1 KiB is hashed", httplimit.Func(func(*http.Request) (string, bool) { return long, true }),
			"sha256=",
		},
	} {
		r := httptest.NewRequest("GET", "http://example.com/a%2Fb/%C3%A9?q", nil)
		if strings.HasPrefix(c.name, "a path with") {
			r.URL.Path, r.URL.RawPath = "/\"é", "/\"é"
		}
		r.RemoteAddr = "203.0.113.9:4711"
		r.Header["X-Api-Key"] = []string{"k1", "k2"}
		if got := httplimit.KeyText(c.key, r); got != c.want && !(c.name == "above 1 KiB is hashed" && strings.HasPrefix(got, "sha256=") && len(got) == 71) {
			t.Errorf("%s: got %q want %q", c.name, got, c.want)
		}
	}
}

// T11, T39: different pairs of part texts give different keys, for every way to combine
// parts.
func TestDistinctPartsGiveDistinctKeys(t *testing.T) {
	t.Parallel()
	texts := []string{
		"a", "b", "a+b", "+", `\`, `a\`, `\+b`, "a=", "header:a=", "method=GET", "é", "e\u0301", "e", "E", "\x00", "a\x00", "\xff", "\xfe", "203.0.113.9", "unknown",
		strings.Repeat("a", 1025), strings.Repeat("a", 1026), "sha256=" + strings.Repeat("0", 64),
	}
	keys := map[string]httplimit.Key{
		"join":          httplimit.Join(httplimit.Header("A"), httplimit.Header("B")),
		"three":         httplimit.Join(httplimit.Header("A"), httplimit.Global(), httplimit.Header("B")),
		"first in join": httplimit.Join(httplimit.First(httplimit.Header("A"), httplimit.Method()), httplimit.Header("B")),
		"join in join":  httplimit.Join(httplimit.Join(httplimit.Header("A")), httplimit.Header("B")),
	}
	for name, key := range keys {
		seen := map[string]string{}
		for _, a := range append(texts, "") {
			for _, b := range append(texts, "") {
				r := request("203.0.113.9:1")
				r.Header["A"], r.Header["B"] = []string{a}, []string{b}
				text := httplimit.KeyText(key, r)
				if pair := fmt.Sprintf("%.40q and %.40q", a, b); seen[text] != "" {
					t.Errorf("%s: %s have the key of %s: %q", name, pair, seen[text], text)
				} else {
					seen[text] = pair
				}
			}
		}
	}
}

func FuzzJoin(f *testing.F) {
	f.Add("a+b", "c", "a", "b+c")
	f.Add("", `\`, "+", "a")
	key := httplimit.Join(httplimit.Header("A"), httplimit.Header("B"))
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		text := func(a, b string) string {
			r := &http.Request{Header: http.Header{"A": {a}, "B": {b}}}
			return httplimit.KeyText(key, r)
		}
		if same := text(a, b) == text(c, d); same != (a == c && b == d) {
			t.Errorf("%q, %q and %q, %q: got the same key %v", a, b, c, d, same)
		}
	})
}

// A client cannot send the hash of a long key as its own key.
func TestHashOfLongKeyCannotBeSent(t *testing.T) {
	t.Parallel()
	r := request("203.0.113.9:1")
	r.Header.Set("A", strings.Repeat("secret", 1000))
	hash := httplimit.KeyText(httplimit.Header("A"), r)
	r.Header.Set("A", hash)
	if got := httplimit.KeyText(httplimit.Header("A"), r); got == hash {
		t.Errorf("%q is the key of 6000 bytes and of itself", got)
	}
}

// An API key that looks like an address spends nothing of the budget of that address.
func TestHeaderValueNeverSpendsAddressBudget(t *testing.T) {
	t.Parallel()
	for name, charges := range map[string][2]httplimit.Charge{
		"first": {
			{Policy: policy("p", "1/h"), Key: httplimit.First(httplimit.Header("Key"), httplimit.Address())},
			{Policy: policy("p", "1/h"), Key: httplimit.First(httplimit.Header("Key"), httplimit.Address())},
		},
		"two middlewares without a name": {
			{Policy: policy("", "1/h"), Key: httplimit.Header("Key")},
			{Policy: policy("", "1/h")},
		},
	} {
		store := memstore.New(nil)
		attacker, victim := newMiddlewareOn(t, store, nil, charges[0])(ok), newMiddlewareOn(t, store, nil, charges[1])(ok)
		r := request("198.51.100.1:1")
		r.Header["Key"] = []string{"203.0.113.9"}
		serve(attacker, r)
		if got := serve(victim, request("203.0.113.9:1")); got.Code != 200 {
			t.Errorf("%s: the address that another client sent as its key: got %d want 200", name, got.Code)
		}
		if got := serve(attacker, r); got.Code != 429 {
			t.Errorf("%s: the second request with the key: got %d want 429", name, got.Code)
		}
	}
}

// Requests without the part share one budget.
func TestRequestsWithoutKeyShareOneBudget(t *testing.T) {
	t.Parallel()
	h := newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "2/h"), Key: httplimit.Header("Key")})(ok)
	empty := request("203.0.113.3:1")
	empty.Header["Key"] = []string{""}
	for i, r := range []*http.Request{request("203.0.113.1:1"), empty, request("203.0.113.2:1")} {
		if got, want := serve(h, r).Code, []int{200, 200, 429}[i]; got != want {
			t.Errorf("request %d without a key: got %d want %d", i+1, got, want)
		}
	}
}

// The key is the pattern that the mux matched, if the middleware runs after the mux.
func TestPatternKey(t *testing.T) {
	t.Parallel()
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}", newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "1/h"), Key: httplimit.Pattern()})(ok))
	s := listen(t, mux)
	if got := s.get("/items/1").status; got != 200 {
		t.Errorf("the first item: got %d want 200", got)
	}
	if got := s.get("/items/2").status; got != 429 {
		t.Errorf("another item of the pattern: got %d want 429", got)
	}
}

// A limiter with the same policy and store uses the same state, with the part's text as
// the key.
func TestLimiterSharesState(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	named, unnamed := policy("api", "10/h"), policy("", "10/h")
	header := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: named, Key: httplimit.Header("User")})(ok)
	byAddress := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: unnamed})(ok)
	r := request("203.0.113.9:1")
	r.Header["User"] = []string{"alice"}
	serve(header, r)
	serve(byAddress, r)
	for key, p := range map[string]headgate.Policy{"alice": named, "203.0.113.9": unnamed} {
		if got := remaining(t, store, p, key); got != 9 {
			t.Errorf("%s: a limiter has %d units remaining want 9", key, got)
		}
	}
}

// Malformed values over a real connection: what net/http accepts has its own budget.
func TestMalformedHeaderValues(t *testing.T) {
	t.Parallel()
	s := listen(t, newMiddleware(t, nil, httplimit.Charge{Policy: policy("p", "1/h"), Key: httplimit.Header("Key")})(ok))
	for _, value := range []string{strings.Repeat("k", 64<<10), "é", "e", "E", "{}", "a b", "\xff", "a:b", "%00", "203.0.113.9"} {
		for _, want := range []int{200, 429} {
			if got := s.raw("GET / HTTP/1.1\nHost: x\nKey: " + value + "\nConnection: close\n\n"); got.status != want {
				t.Errorf("%.20q: got %d want %d", value, got.status, want)
			}
		}
	}
	if got := s.raw("GET / HTTP/1.1\nHost: x\nKey: " + strings.Repeat("k", 1<<20+5000) + "\nConnection: close\n\n"); got.status != 431 {
		t.Errorf("more than 1 MiB of header: got %d want 431 by net/http", got.status)
	}
	var many strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&many, "Key: %d\n", i)
	}
	if got := s.raw("GET / HTTP/1.1\nHost: x\n" + many.String() + "Connection: close\n\n"); got.status != 200 {
		t.Errorf("5000 keys: got %d want 200: the first value is used", got.status)
	}
}

// textOf returns a function that reads the key from a header field.
func textOf(field string) func(*http.Request) (string, bool) {
	return func(r *http.Request) (string, bool) { return r.Header.Get(field), true }
}

// Two middlewares on one store whose policies have no name, and whose keys are two
// functions, would share budgets. The second New returns an error.
func TestUnnamedPoliciesWithTwoFunctions(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	user, tenant := textOf("User"), textOf("Tenant")
	byUser := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: headgate.MustPolicy("2/1m"), Key: httplimit.Func(user)})(ok)
	_, err := httplimit.New(store, nil, httplimit.Charge{Policy: headgate.MustPolicy("2/1m"), Key: httplimit.Func(tenant)})
	if !errors.Is(err, httplimit.ErrInvalidOptions) || !strings.Contains(err.Error(), "MustNamedPolicy") {
		t.Fatalf("the second function: got error %v want the advice to give the policy a name", err)
	}

	// With a name, each has its own budget. The same function may be used again.
	byTenant := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: headgate.MustNamedPolicy("tenant", "2/1m"), Key: httplimit.Func(tenant)})(ok)
	again := newMiddlewareOn(t, store, nil, httplimit.Charge{Policy: headgate.MustPolicy("2/1m"), Key: httplimit.Func(user)})(ok)
	r := request("203.0.113.9:1")
	r.Header.Set("User", "alice")
	r.Header.Set("Tenant", "alice")
	for i, c := range []struct {
		h    http.Handler
		want int
	}{{byUser, 200}, {byTenant, 200}, {byTenant, 200}, {byTenant, 429}, {again, 200}, {byUser, 429}, {again, 429}} {
		if got := serve(c.h, r).Code; got != c.want {
			t.Errorf("request %d: got %d want %d", i+1, got, c.want)
		}
	}
}
