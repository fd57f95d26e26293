// Tiers gives each user of an API the limits of their plan: the policy of a request
// depends on the account of the user. Requests without a valid API key are limited per
// client address, with the lowest limit.
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

// accounts is a placeholder for a database. It maps API keys to accounts.
var accounts = map[string]account{
	"k-alice": {"alice", "free"},
	"k-bob":   {"bob", "pro"},
}

type contextKey struct{}

// identify adds the account of the API key to the context of a request, before the
// request is limited. For an unknown API key it adds the zero account.
func identify(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		found := accounts[r.Header.Get("X-API-Key")]
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), contextKey{}, found)))
	})
}

func accountOf(r *http.Request) account {
	found, _ := r.Context().Value(contextKey{}).(account)
	return found
}

// tier returns the charge for the requests of the tier called name; the empty name is
// for requests without an account. Header fields of the responses contain the policy's
// name.
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
		// a request is charged to both limits of a policy or to neither
		tier("free", user, "10/1m burst 3", "1000/24h"),
		tier("pro", user, "100/1s", "100000/24h"),
	)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello %s\n", accountOf(r).name)
	})
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
