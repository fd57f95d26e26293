// Tiers gives each user of an API the limits of what he pays for: the policy is chosen request by request, by who asks. Whoever
// has no key is known by his address, and gets least.
package main

import (
	"context"
	"fmt"
	"log"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

type account struct{ name, tier string }

// accounts stands for a database, by API key.
var accounts = map[string]account{
	"k-alice": {"alice", "free"},
	"k-bob":   {"bob", "pro"},
}

type contextKey struct{}

// identify finds out who asks, before anything is limited. A key that nobody has is as good as none.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who := accounts[r.Header.Get("X-API-Key")]
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, who)))
	})
}

func accountOf(r *http.Request) account {
	who, _ := r.Context().Value(contextKey{}).(account)
	return who
}

// tier is a charge for the requests of one tier. The policy's name is in the answer's header fields.
func tier(name string, key httplimit.Key, limits ...string) httplimit.Charge {
	policy := headgate.MustPolicy(limits...)
	policy.Name = name
	if name == "" {
		policy.Name = "anonymous"
	}
	return httplimit.Charge{Policy: policy, Key: key, When: func(r *http.Request) bool { return accountOf(r).tier == name }}
}

func newHandler() (http.Handler, error) {
	user := httplimit.Func(func(r *http.Request) (string, bool) { return accountOf(r).name, true })
	limit, err := httplimit.New(memstore.New(nil), nil,
		tier("", httplimit.Address(), "2/1m"),
		tier("free", user, "10/1m burst 3", "1000/24h"), // all of them, or the request spends nothing
		tier("pro", user, "100/1s", "100000/24h"),
	)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "hello %s\n", accountOf(r).name) })
	return identify(limit(mux)), nil
}

func main() {
	handler, err := newHandler()
	if err != nil {
		log.Fatal(err)
	}
	log.Print("listening on http://localhost:8080")
	log.Fatal(http.ListenAndServe("localhost:8080", handler))
}
