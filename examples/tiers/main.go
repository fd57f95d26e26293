// Tiers gives each user of an API the limits of their plan: the limits of a request
// depend on the account of the user. Requests without a valid API key are limited per
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

type account struct{ name, plan string }

// accounts is a placeholder for a database. It maps API keys to accounts.
var accounts = map[string]account{
	"k-alice": {"alice", "free"},
	"k-bob":   {"bob", "pro"},
	"k-cleo":  {"cleo", "staff"},
	"k-dan":   {"dan", "banned"},
	"k-eve":   {"eve", "a plan of last year"},
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

// [snippet plans]

// plans has the limits of each plan. A request is charged to all limits of its plan or to
// none.
var plans = map[string][]headgate.Limit{
	"free":   headgate.MustPolicy("10/1m burst 3", "1000/24h").Limits,
	"pro":    headgate.MustPolicy("100/1s", "100000/24h").Limits,
	"staff":  headgate.MustPolicy("unlimited").Limits,
	"banned": headgate.MustPolicy("0/s").Limits,
}

// limitsOf returns the limits of a request's plan. nil means the limits of the policy,
// which apply to a plan that is not in the table.
func limitsOf(r *http.Request) []headgate.Limit { return plans[accountOf(r).plan] }

// [end plans]

func newHandler() (http.Handler, error) {
	isKnown := func(r *http.Request) bool { return accountOf(r).name != "" }
	isAnonymous := func(r *http.Request) bool { return !isKnown(r) }
	user := httplimit.Func(func(r *http.Request) (string, bool) { return accountOf(r).name, true })
	// [snippet charges]
	// All plans have one policy, so an account that changes its plan keeps what it has
	// spent.
	limit, err := httplimit.New(memstore.New(nil), nil,
		httplimit.Charge{Policy: headgate.MustNamedPolicy("anonymous", "2/1m"), When: isAnonymous},
		httplimit.Charge{Policy: headgate.MustNamedPolicy("api", "1/1m"), Key: user, When: isKnown, Limits: limitsOf},
	)
	// [end charges]
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
