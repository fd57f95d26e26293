package httplimit_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// Each user has a budget, and so has each address without a user. Wrong passwords have a
// second budget.
func ExampleNew_users() {
	store := memstore.New(nil)
	// [snippet users]
	api := headgate.MustNamedPolicy("api", "100/1m burst 20", "5000/24h") // both, or the request spends nothing
	guesses := headgate.MustNamedPolicy("guesses", "20/15m")
	user := httplimit.Func(func(r *http.Request) (string, bool) {
		name, _, ok := r.BasicAuth() // must be verified first: invented names would each get a budget
		return name, ok
	})
	limit, err := httplimit.New(store, nil,
		httplimit.Charge{Policy: api, Key: httplimit.First(user, httplimit.Address())},
		httplimit.Charge{Policy: guesses, AdjustCost: httplimit.OnlyStatus(http.StatusUnauthorized)},
	)
	// [end users]
	if err != nil {
		panic(err)
	}
	wrong := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "wrong password", http.StatusUnauthorized)
	}))
	codes := map[int]int{}
	for i := range 30 {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(fmt.Sprint("user", i%2), "guess")
		w := httptest.NewRecorder()
		wrong.ServeHTTP(w, r)
		codes[w.Code]++
	}
	fmt.Println(codes)
	// Output: map[401:20 429:10]
}

// Behind a proxy the client is the last address in X-Forwarded-For that is not a proxy.
func ExampleNew_behindProxy() {
	store := memstore.New(nil)
	charge := httplimit.Charge{Policy: headgate.MustPolicy("1/1m")}
	// [snippet proxy]
	limit, err := httplimit.New(store, &httplimit.Options{
		Client: &clientaddr.Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}},
	}, charge)
	// [end proxy]
	if err != nil {
		panic(err)
	}
	hello := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "hello") }))
	for _, client := range []string{"203.0.113.9", "203.0.113.9", "198.51.100.7"} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = "10.0.0.5:4711"
		r.Header.Set("X-Forwarded-For", client)
		w := httptest.NewRecorder()
		hello.ServeHTTP(w, r)
		fmt.Println(client, w.Code)
	}
	// Output:
	// 203.0.113.9 200
	// 203.0.113.9 429
	// 198.51.100.7 200
}
