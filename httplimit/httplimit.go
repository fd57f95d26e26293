// Package httplimit is middleware for net/http that limits how often requests come: by address, user, path or what you choose,
// with answers that clients understand.
package httplimit

import (
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
)

// Charge is a policy, and whose budget of it a request spends how much of.
type Charge struct {
	// Policy is the policy. Its name is what header fields, problem bodies and events call it.
	Policy headgate.Policy
	// Key is whose budget; the zero value means [Address].
	Key Key
	// Cost is how much, in units, at least 0; nil means 1.
	Cost func(*http.Request) int64
	// When says which requests it is for; nil means all. A request for which no charge holds is not limited.
	When func(*http.Request) bool
	// Settle says, once the handler has answered, what the request has really cost: less gives the rest back, more spends the rest as
	// far as it is there. nil keeps what was charged. See [OnlyFailures] and [OnlyStatus].
	Settle func(Outcome) int64
}

// Outcome is how a request ended.
type Outcome struct {
	Request  *http.Request
	Status   int   // 500 for a handler that panicked before it answered
	Bytes    int64 // of the body
	Charged  int64 // units taken before the handler ran
	Panicked bool
}

// Options are the middleware's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Client is how the client's address is found; nil trusts no header field.
	Client *clientaddr.Options
	// Fields is what answers tell; nil means the IETF draft's fields on every answer.
	Fields *httpfields.Options
	// Skip lets requests pass unlimited: health checks, say. nil skips none.
	Skip func(*http.Request) bool
	// Denied answers a request that is denied; header fields are set already. nil means [Problem].
	Denied func(http.ResponseWriter, *http.Request, *Denial)
	// Undecided answers a request for which the store could not decide. nil answers 503 and the type temporary-reduced-capacity. To
	// let requests pass instead, set the policy's OnStoreError, which needs package fallback around the store.
	Undecided func(http.ResponseWriter, *http.Request, error)
	// Observer hears of every decision; nil means nobody does.
	Observer headgate.Observer
}

// Denial is what a denied request is told.
type Denial struct {
	headgate.Decision          // of all charges together
	Policies          []string // the names of the policies that denied, each once
}

// New makes middleware that admits a request if every charge that holds for it does, and else spends nothing. It refuses what
// headgate.New refuses. opts may be nil.
func New(store headgate.Store, opts *Options, charges ...Charge) (func(http.Handler) http.Handler, error) {
	_, _, _ = store, opts, charges
	return func(next http.Handler) http.Handler { return next }, nil
}

// Problem answers 429 with application/problem+json: type quota-exceeded, and the policies that were violated.
func Problem(w http.ResponseWriter, r *http.Request, d *Denial) { _, _, _ = w, r, d }

// JSON answers 429 with {"error": …}, for clients that expect it.
func JSON(w http.ResponseWriter, r *http.Request, d *Denial) { _, _, _ = w, r, d }
