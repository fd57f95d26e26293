package httplimit_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// planLimits are the limits of requests, by the field X-Plan.
var planLimits = map[string][]headgate.Limit{
	"pro": headgate.MustPolicy("20/24h").Limits, "max": headgate.MustPolicy("30/24h", "100/48h").Limits,
	"staff": headgate.MustPolicy("unlimited").Limits, "banned": headgate.MustPolicy("0/s").Limits, "wrong": {{Rate: -1}},
}

func planOf(r *http.Request) []headgate.Limit { return planLimits[r.Header.Get("X-Plan")] }

func planHandler(t *testing.T, opts *httplimit.Options, charges ...httplimit.Charge) http.Handler {
	t.Helper()
	limit, err := httplimit.New(memstore.New(nil), opts, charges...)
	if err != nil {
		t.Fatal(err)
	}
	return limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
}

func send(h http.Handler, plan string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("X-Plan", plan)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func windowPolicy(name, limit string) headgate.Policy {
	p := headgate.MustNamedPolicy(name, limit)
	p.Algorithm = headgate.FixedWindow
	return p
}

// A request has the limits of its plan, and all plans count the same requests.
func TestLimitsOfPlans(t *testing.T) {
	t.Parallel()
	h := planHandler(t, nil, httplimit.Charge{Policy: windowPolicy("api", "10/24h"), Limits: planOf})
	for i, c := range []struct {
		plan   string
		status int
		policy string // RateLimit-Policy
		left   string // of RateLimit
	}{
		{"", 200, `"api";q=10;w=86400`, `"api";r=9;`},
		{"pro", 200, `"api";q=20;w=86400`, `"api";r=18;`},
		{"max", 200, `"api:30/d";q=30;w=86400, "api:100/2d";q=100;w=172800`, `"api:30/d";r=27;`},
		{"unknown", 200, `"api";q=10;w=86400`, `"api";r=6;`},
		{"staff", 200, "", ""},
		{"banned", 429, "", ""},
		{"wrong", 500, "", ""},
		{"", 200, `"api";q=10;w=86400`, `"api";r=5;`},
	} {
		w := send(h, c.plan)
		if w.Code != c.status || w.Header().Get("RateLimit-Policy") != c.policy || !strings.HasPrefix(w.Header().Get("RateLimit"), c.left) {
			t.Errorf("request %d, plan %q: got %d %v %s want %d, %s, %s…", i+1, c.plan, w.Code, w.Header(), w.Body, c.status, c.policy, c.left)
		}
		if c.plan == "banned" && (w.Header().Get("Retry-After") != "" || !strings.Contains(w.Body.String(), "Requests with this key are blocked")) {
			t.Errorf("a blocked request: got %v %s", w.Header(), w.Body)
		}
	}
}

// The fields list the limits of every charge, also with several charges.
func TestLimitsWithOtherCharges(t *testing.T) {
	t.Parallel()
	h := planHandler(t, nil,
		httplimit.Charge{Policy: windowPolicy("all", "100/24h"), Key: httplimit.Global()},
		httplimit.Charge{Policy: windowPolicy("api", "10/24h"), Limits: planOf},
	)
	for plan, want := range map[string]string{
		"": `"all";q=100;w=86400, "api";q=10;w=86400`, "pro": `"all";q=100;w=86400, "api";q=20;w=86400`, "staff": `"all";q=100;w=86400`,
		"banned": `"all";q=100;w=86400`,
	} {
		for range 2 {
			if got := send(h, plan).Header().Get("RateLimit-Policy"); got != want {
				t.Errorf("plan %q: got %q want %q", plan, got, want)
			}
		}
	}
}

// The cost of a plan is adjusted after the handler, also of one that needs no counter.
func TestLimitsWithAdjustedCost(t *testing.T) {
	t.Parallel()
	h := planHandler(t, nil, httplimit.Charge{
		Policy: windowPolicy("api", "10/24h"), Limits: planOf, Cost: func(*http.Request) int64 { return 5 },
		AdjustCost: func(httplimit.Response) int64 { return 1 },
	})
	for i, c := range []struct{ plan, left string }{{"", `"api";r=5;`}, {"staff", ""}, {"pro", `"api";r=14;`}, {"banned", ""}, {"", `"api";r=3;`}} {
		if got := send(h, c.plan).Header().Get("RateLimit"); !strings.HasPrefix(got, c.left) {
			t.Errorf("request %d, plan %q: got %s want %s…", i+1, c.plan, got, c.left)
		}
	}
}

// Plans may have different numbers of slots, or none.
func TestLimitsWithSlots(t *testing.T) {
	t.Parallel()
	plans := map[string][]headgate.Limit{
		"pro": headgate.MustPolicy("2 concurrent").Limits, "staff": headgate.MustPolicy("unlimited").Limits, "banned": headgate.MustPolicy("0/s").Limits,
	}
	limitsOf := func(r *http.Request) []headgate.Limit { return plans[r.Header.Get("X-Plan")] }
	h := planHandler(t, nil, httplimit.Charge{Policy: headgate.MustNamedPolicy("slots", "1 concurrent"), Limits: limitsOf})
	for plan, want := range map[string]int{"": 200, "pro": 200, "staff": 200, "banned": 429} {
		for range 3 {
			if got := send(h, plan).Code; got != want {
				t.Errorf("plan %q: got %d want %d", plan, got, want)
			}
		}
	}
}

func TestLimitsRequireName(t *testing.T) {
	t.Parallel()
	_, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy("10/s"), Limits: planOf})
	if !errors.Is(err, httplimit.ErrInvalidOptions) || !strings.Contains(err.Error(), "MustNamedPolicy") {
		t.Errorf("got %v want ErrInvalidOptions", err)
	}
}

// A policy that is unlimited or blocked needs no Limits function.
func TestUnlimitedAndBlockedPolicies(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "p"} {
		if w := send(planHandler(t, nil, httplimit.Charge{Policy: headgate.MustNamedPolicy(name, "unlimited")}), ""); w.Code != 200 || len(w.Header()) != 0 {
			t.Errorf("unlimited: got %d %v want 200 without fields", w.Code, w.Header())
		}
		w := send(planHandler(t, nil, httplimit.Charge{Policy: headgate.MustNamedPolicy(name, "0/s")}), "")
		if w.Code != 429 || w.Header().Get("RateLimit-Reason") != "blocked" || w.Header().Get("RateLimit") != "" {
			t.Errorf("blocked: got %d %v want 429", w.Code, w.Header())
		}
	}
}
