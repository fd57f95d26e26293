package httplimit_test

import (
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/lease"
	"github.com/headgate/headgate/memstore"
)

// Requests of a user are decided in memory, except those to /search, whose cost is known
// after the handler has run.
func Example_leases() {
	store, err := lease.New(memstore.New(nil), nil) // a program uses redisstore.Open and fallback.New here
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	pages := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "page") })
	search := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "no index", http.StatusInternalServerError)
	})

	// [snippet leases]
	policy := headgate.MustNamedPolicy("user", "6000/1h")
	policy.Lease = headgate.LeaseSettings{Share: 20}
	user := httplimit.Header("X-User")
	limitPages, err := httplimit.New(store, nil, httplimit.Charge{Policy: policy, Key: user})
	if err != nil {
		log.Fatal(err)
	}
	limitSearch, err := httplimit.New(store, nil, httplimit.Charge{
		Policy: policy, Key: user,
		Cost: func(*http.Request) int64 { return 5 },
		AdjustCost: func(r httplimit.Response) int64 {
			if r.Status >= http.StatusInternalServerError {
				return 1
			}
			return r.Charged
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/", limitPages(pages))
	mux.Handle("/search", limitSearch(search))
	// [end leases]

	for _, path := range []string{"/", "/search", "/"} {
		r, w := httptest.NewRequest("GET", path, nil), httptest.NewRecorder()
		r.Header.Set("X-User", "ann")
		mux.ServeHTTP(w, r)
		fmt.Println(path, w.Code)
	}
	// Output:
	// / 200
	// /search 500
	// / 200
}
