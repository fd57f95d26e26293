package httplimit_test

import (
	"context"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// Ten requests per minute for each client address.
func Example() {
	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustPolicy("10/1m burst 2"),
	})
	if err != nil {
		log.Fatal(err)
	}
	hello := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	for range 3 {
		w := httptest.NewRecorder()
		hello.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		fmt.Println(w.Code, w.Header()["Retry-After"])
	}
	// Output:
	// 200 []
	// 200 []
	// 429 [6]
}

type account struct{ name, tier string }

type accountKey struct{}

// signIn is a placeholder for the authentication of a program.
func signIn(r *http.Request, name, tier string) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), accountKey{}, account{name, tier}))
}

func accountOf(r *http.Request) account {
	a, _ := r.Context().Value(accountKey{}).(account)
	return a
}

// Each user has a budget. Requests without a user are limited per client address.
func ExampleFunc() {
	byUser := httplimit.Func(func(r *http.Request) (string, bool) {
		name := accountOf(r).name
		return name, name != ""
	})
	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
		Policy: headgate.MustPolicy("1/1m"),
		Key:    httplimit.First(byUser, httplimit.Address()),
	})
	if err != nil {
		log.Fatal(err)
	}
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, name := range []string{"alice", "bob", "", "alice"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, signIn(httptest.NewRequest("GET", "/", nil), name, ""))
		fmt.Println(w.Code)
	}
	// Output:
	// 200
	// 200
	// 200
	// 429
}

// The policy is selected per request.
func ExampleCharge_tiers() {
	tier := func(name string) func(*http.Request) bool {
		return func(r *http.Request) bool { return accountOf(r).tier == name }
	}
	byUser := httplimit.Func(func(r *http.Request) (string, bool) { return accountOf(r).name, true })
	named := func(name, limit string) headgate.Policy {
		p := headgate.MustPolicy(limit)
		p.Name = name
		return p
	}
	limit, err := httplimit.New(memstore.New(nil), nil,
		httplimit.Charge{Policy: named("free", "1/1m"), Key: byUser, When: tier("free")},
		httplimit.Charge{Policy: named("pro", "1000/1m"), Key: byUser, When: tier("pro")},
	)
	if err != nil {
		log.Fatal(err)
	}
	h := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	for _, user := range []account{{"alice", "free"}, {"alice", "free"}, {"bob", "pro"}, {"bob", "pro"}} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, signIn(httptest.NewRequest("GET", "/", nil), user.name, user.tier))
		fmt.Println(user.name, w.Code, w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// alice 200 "free";q=1;w=60
	// alice 429 "free";q=1;w=60
	// bob 200 "pro";q=1000;w=60
	// bob 200 "pro";q=1000;w=60
}

// A request is charged on several policies atomically: each address has its own budget,
// and all addresses share one budget for uploads.
func ExampleNew_severalPolicies() {
	uploads := headgate.MustPolicy("100/1m")
	uploads.Name = "uploads"
	perAddress := headgate.MustPolicy("10/1m burst 5", "100/24h")
	perAddress.Name = "address"
	limit, err := httplimit.New(memstore.New(nil), nil,
		httplimit.Charge{Policy: perAddress},
		httplimit.Charge{
			Policy: uploads,
			Key:    httplimit.Global(),
			When:   func(r *http.Request) bool { return r.Method == http.MethodPost },
			// plus one unit per MiB
			Cost: func(r *http.Request) int64 { return 1 + max(0, r.ContentLength)>>20 },
		},
	)
	if err != nil {
		log.Fatal(err)
	}
	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("POST", "/", nil))
	for _, item := range strings.Split(w.Header().Get("RateLimit-Policy"), ", ") {
		fmt.Println(item)
	}
	// Output:
	// "address:10/m burst 5";q=10;w=60;headgate-burst=5
	// "address:100/d";q=100;w=86400
	// "uploads";q=100;w=60
}

// Only wrong passwords count: the charge is refunded if the status is below 400.
func ExampleOnlyFailures() {
	limit, err := httplimit.New(memstore.New(nil), &httplimit.Options{DeniedHandler: httplimit.JSON}, httplimit.Charge{
		Policy:     headgate.MustPolicy("2/15m"),
		AdjustCost: httplimit.OnlyFailures,
	})
	if err != nil {
		log.Fatal(err)
	}
	login := limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.FormValue("password") != "correct" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	for _, password := range []string{"correct", "correct", "correct", "guess", "guess", "guess"} {
		w := httptest.NewRecorder()
		login.ServeHTTP(w, httptest.NewRequest("POST", "/?password="+password, nil))
		fmt.Println(password, w.Code)
	}
	// Output:
	// correct 200
	// correct 200
	// correct 200
	// guess 401
	// guess 401
	// guess 429
}

// The cost depends on the response: one unit for each KiB.
func ExamplePerBytes() {
	store := memstore.New(nil)
	traffic := headgate.MustPolicy("1000/1h")
	limit, err := httplimit.New(store, nil, httplimit.Charge{Policy: traffic, AdjustCost: httplimit.PerBytes(1 << 10)})
	if err != nil {
		log.Fatal(err)
	}
	h := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100<<10)) }))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/", nil))
	limiter, err := headgate.New(store, traffic, nil)
	if err != nil {
		log.Fatal(err)
	}
	d, err := limiter.PeekN(context.Background(), "192.0.2.1", 0)
	fmt.Println(d.Remaining, err)
	// Output: 900 <nil>
}

// Header fields in two dialects.
func Example_dialects() {
	store, charge := memstore.New(nil), httplimit.Charge{Policy: headgate.MustNamedPolicy("api", "100/1m")}
	// [snippet dialects]
	limit, err := httplimit.New(store, &httplimit.Options{
		Fields: &httpfields.Options{Dialects: []httpfields.Dialect{httpfields.IETF, httpfields.GitHub}},
	}, charge)
	// [end dialects]
	if err != nil {
		panic(err)
	}
	w := httptest.NewRecorder()
	limit(http.NotFoundHandler()).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	fmt.Println(w.Header()["Ratelimit-Policy"], w.Header()["X-Ratelimit-Used"])
	// Output: ["api";q=100;w=60] [1]
}
