// Package middleware wraps a trivial handler with HTTP rate limit middlewares and
// measures the cost that each of them adds.
//
// ../README.md documents what is compared and what cannot be compared.
package middleware

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/didip/tollbooth/v8"
	"github.com/go-chi/httprate"
	"github.com/sethvargo/go-limiter/httplimit"
	"github.com/sethvargo/go-limiter/memorystore"
	"github.com/ulule/limiter/v3"
	"github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	"github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/httpfields"
	headgatehttp "github.com/headgate/headgate/httplimit"
	"github.com/headgate/headgate/memstore"
)

// Row is one middleware with a limit by client address, configured as in the
// documentation of the middleware.
type Row struct {
	Name string
	// New returns the middleware for the given number of clients. Its limit is so high
	// that no client reaches it.
	New func(clients int) (func(http.Handler) http.Handler, error)
	// Ours is true for the rows of headgate.
	Ours bool
	// Fields lists the rate limit header fields that the middleware sends, or is
	// “none”.
	Fields string
}

// The limit in every row: a burst, and a number of units that are refilled per hour.
const (
	burst   = 1_000_000_000
	perHour = 1_000_000
)

// Rows returns all rows in the order of the tables. All other rows are compared with
// the first row.
func Rows() []Row {
	return []Row{
		{"headgate", headgateWith(httpfields.IETF), true, "RateLimit, RateLimit-Policy"},
		{"headgate, x-ratelimit", headgateWith(httpfields.XRateLimit), true, "X-RateLimit-*: 3"},
		{"headgate, no fields", headgateWith(httpfields.Off), true, "none"},
		{"httprate", newHTTPRate, false, "X-RateLimit-*: 3"},
		{"tollbooth", newTollbooth, false, "X-Rate-Limit-*, RateLimit-*: 6"},
		{"ulule", newUlule, false, "X-RateLimit-*: 3"},
		{"sethvargo", newSethvargo, false, "X-RateLimit-*: 3"},
		{"x/time/rate by hand", newByHand, false, "none"},
	}
}

// Named returns the row with the given name.
func Named(name string) (Row, error) {
	var known []string
	for _, r := range Rows() {
		if r.Name == name {
			return r, nil
		}
		known = append(known, r.Name)
	}
	return Row{}, fmt.Errorf("middleware: unknown row %q; must be one of %s", name, strings.Join(known, "; "))
}

func headgateWith(d httpfields.Dialect) func(int) (func(http.Handler) http.Handler, error) {
	return func(clients int) (func(http.Handler) http.Handler, error) {
		return headgatehttp.New(
			memstore.New(&memstore.Options{MaxEntries: max(clients, 1000)}),
			&headgatehttp.Options{Fields: &httpfields.Options{Dialects: []httpfields.Dialect{d}}},
			headgatehttp.Charge{Policy: headgate.Policy{
				Name: "api", Limits: []headgate.Limit{{Rate: perHour, Period: time.Hour, Burst: burst}},
			}},
		)
	}
}

// newHTTPRate uses github.com/go-chi/httprate with its local counter. The key is the
// client's address, as the documentation recommends, because KeyByIP is deprecated. The
// chi middleware that stores the address in the context is not used.
func newHTTPRate(int) (func(http.Handler) http.Handler, error) {
	return httprate.LimitBy(burst, time.Hour, func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	}), nil
}

// newTollbooth uses github.com/didip/tollbooth/v8. Its buckets are configured never to
// expire, which favours this row.
func newTollbooth(int) (func(http.Handler) http.Handler, error) {
	lmt := tollbooth.NewLimiter(float64(perHour)/3600, nil).SetBurst(burst)
	return tollbooth.HTTPMiddleware(lmt), nil
}

// newUlule uses github.com/ulule/limiter/v3 with its memory store. The store's cleanup
// is disabled, which favours this row.
func newUlule(int) (func(http.Handler) http.Handler, error) {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: limiter.DefaultPrefix, CleanUpInterval: 1000 * time.Hour})
	return stdlib.NewMiddleware(limiter.New(store, limiter.Rate{Period: time.Hour, Limit: burst})).Handler, nil
}

// newSethvargo uses httplimit of github.com/sethvargo/go-limiter with its memorystore.
// The store's sweep is disabled, which favours this row.
func newSethvargo(clients int) (func(http.Handler) http.Handler, error) {
	store, err := memorystore.New(&memorystore.Config{
		Tokens: burst, Interval: time.Hour, SweepInterval: 1000 * time.Hour, SweepMinTTL: 1000 * time.Hour, InitialAlloc: clients,
	})
	if err != nil {
		return nil, err
	}
	m, err := httplimit.NewMiddleware(store, httplimit.IPKeyFunc())
	if err != nil {
		return nil, err
	}
	return m.Handle, nil
}

// newByHand uses golang.org/x/time/rate, with a map that has a limiter for each
// address, as most programs do. No address is ever removed from the map, and the
// response has no rate limit header fields.
func newByHand(int) (func(http.Handler) http.Handler, error) {
	var limiters sync.Map // string → *rate.Limiter
	limiterOf := func(host string) *rate.Limiter {
		if l, ok := limiters.Load(host); ok {
			return l.(*rate.Limiter)
		}
		l, _ := limiters.LoadOrStore(host, rate.NewLimiter(rate.Limit(float64(perHour)/3600), burst))
		return l.(*rate.Limiter)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			host, _, err := net.SplitHostPort(r.RemoteAddr)
			if err != nil || !limiterOf(host).Allow() {
				http.Error(w, http.StatusText(http.StatusTooManyRequests), http.StatusTooManyRequests)
				return
			}
			next.ServeHTTP(w, r)
		})
	}, nil
}
