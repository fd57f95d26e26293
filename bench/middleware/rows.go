// Package middleware puts HTTP middlewares that limit before one trivial handler, to measure what each of them adds to it.
//
// What is compared, and what cannot be, is told in ../README.md.
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

// Row is one middleware, as its documentation has it for a limit by the peer's address.
type Row struct {
	Name string
	// New makes it for a number of clients, under a limit that none of them reaches.
	New func(clients int) (func(http.Handler) http.Handler, error)
	// Ours says that it is headgate's.
	Ours bool
	// Fields says which header fields it sends.
	Fields string
}

// The limit of every row: so many units at once, and so many more in an hour.
const (
	burst   = 1_000_000_000
	perHour = 1_000_000
)

// Rows lists everything that is measured, in the order of the tables. The first is what the others are compared with.
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

// Named is the row of that name.
func Named(name string) (Row, error) {
	var known []string
	for _, r := range Rows() {
		if r.Name == name {
			return r, nil
		}
		known = append(known, r.Name)
	}
	return Row{}, fmt.Errorf("middleware: unknown row %q; there are %s", name, strings.Join(known, "; "))
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

// newHTTPRate is github.com/go-chi/httprate with its local counter. The key is what its documentation says since its KeyByIP is
// deprecated: the address, without the middleware of chi that would put it into the context.
func newHTTPRate(int) (func(http.Handler) http.Handler, error) {
	return httprate.LimitBy(burst, time.Hour, func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	}), nil
}

// newTollbooth is github.com/didip/tollbooth/v8. Its buckets never expire here, which favours it.
func newTollbooth(int) (func(http.Handler) http.Handler, error) {
	lmt := tollbooth.NewLimiter(float64(perHour)/3600, nil).SetBurst(burst)
	return tollbooth.HTTPMiddleware(lmt), nil
}

// newUlule is github.com/ulule/limiter/v3 over its memory store. Its clean-up is put off, which favours it.
func newUlule(int) (func(http.Handler) http.Handler, error) {
	store := memory.NewStoreWithOptions(limiter.StoreOptions{Prefix: limiter.DefaultPrefix, CleanUpInterval: 1000 * time.Hour})
	return stdlib.NewMiddleware(limiter.New(store, limiter.Rate{Period: time.Hour, Limit: burst})).Handler, nil
}

// newSethvargo is github.com/sethvargo/go-limiter's httplimit over its memorystore. Its sweep is put off, which favours it.
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

// newByHand is golang.org/x/time/rate with a limiter for each address in a map, as most programs write it: nothing is ever dropped,
// the map grows with the addresses, and the answer tells nothing.
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
