// Package httplimit is net/http middleware for rate limiting. It limits requests by
// client address, user, path or a key of your choice, and reports limits in standard
// header fields.
//
//	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
//		Policy: headgate.MustPolicy("100/1m"),
//	})
//	…
//	http.ListenAndServe(addr, limit(mux))
//
// # What a request is charged
//
// A [Charge] takes its cost from the budget of its key. All charges whose When returns
// true are made in one atomic store operation: all of them or none. The header fields
// of package httpfields report every limit that was checked.
//
// # Responses
//
//   - Allowed: the handler's response, with the header fields. A leaky bucket delays
//     the request until its turn first.
//   - Denied: 429, written by [Problem] or by Options.DeniedHandler. Retry-After is set
//     unless no wait helps, because the cost is above the limit.
//   - The store is unavailable or full: 503 with Retry-After, or the response of
//     Options.ErrorHandler. The cause is the server's capacity, not the client's quota.
//   - A cost below zero, which is a mistake in the program: 500.
//   - The client disconnected before the handler ran: 499, for logs only. The handler
//     does not run.
//
// # Cost
//
// An allowed request under one limit in memory takes about a third of a microsecond and
// two allocations, header fields included, in every dialect: one for their text (with
// the text of the key if the key must be written), one for the list of their values.
// Without header fields, keyed by IPv4 address, it allocates nothing. A request that is
// skipped, or to which no charge applies, allocates nothing. Keys that have to be
// hashed or escaped, several charges, queues and AdjustCost take more.
package httplimit

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// ErrInvalidOptions is matched by the errors of [New], except errors about a policy, an
// address or header fields.
var ErrInvalidOptions = errors.New("httplimit: invalid options")

// Charge is a policy, the key whose budget a request spends, and how much it spends.
type Charge struct {
	// Policy is the policy. Its name appears in header fields, problem bodies and
	// events, and identifies its state in all middlewares over one store. Charges of
	// one [New] whose policies have the same name must have the same key. A policy
	// without a name is identified by its limits and the kind of key; all functions are
	// one kind.
	Policy headgate.Policy
	// Key selects the budget. The zero value means [Address].
	Key Key
	// Cost returns the cost in units, at least 0. nil means 1; a cost of 0 peeks. A
	// cost above the limit is denied, and no wait helps.
	Cost func(*http.Request) int64
	// When reports whether the charge applies to a request. nil means it always
	// applies. A request to which no charge applies is not limited.
	When func(*http.Request) bool
	// AdjustCost returns the final cost of the request after the handler has returned.
	// A lower cost refunds the difference. A higher cost spends the difference, at most
	// what remains. nil keeps the original charge. See [OnlyFailures] and [OnlyStatus].
	//
	// Only the original charge limits parallel requests, so charge the highest likely
	// cost first. Adjusting takes one store operation for each limit, between the
	// handler's return and the end of the response. The header fields are sent before
	// and do not change. The cost is adjusted even if the client disconnected or the
	// handler panicked. Errors are reported to the observer only, and the original
	// charge stays. If AdjustCost itself panics, the charges that are not yet adjusted
	// stay, too.
	//
	// No unit is refunded twice: units that the budget regained while the handler ran
	// are not refunded. Units are refunded only to the store or the local fallback that
	// granted them. A place in a leaky bucket's queue is never refunded, because later
	// requests were already given their times.
	AdjustCost func(Response) int64
}

// Response describes how a request ended.
type Response struct {
	Request *http.Request
	// Status is the response status: 200 if the handler set none, 500 if it panicked
	// first, 101 if it hijacked the connection.
	Status   int
	Bytes    int64 // body bytes that were written through the response writer
	Charged  int64 // units charged before the handler ran
	Panicked bool  // the handler panicked; the panic continues after AdjustCost
}

// Options are the middleware's settings. A field that is zero has its default; nil
// options mean all defaults.
type Options struct {
	// Client configures how the client's address is found. nil trusts no header field.
	Client *clientaddr.Options
	// Fields configures the header fields. nil sends the IETF draft's fields in every
	// response.
	Fields *httpfields.Options
	// Skip reports whether a request is exempt from limiting, such as a health check. nil
	// exempts no request.
	Skip func(*http.Request) bool
	// DeniedHandler writes the response to a denied request; the header fields are
	// already set. It must write a status: net/http sends 200 otherwise. nil means
	// [Problem].
	DeniedHandler func(http.ResponseWriter, *http.Request, *Denial)
	// ErrorHandler writes the response if the store returned an error, or if the
	// request's deadline is before its turn in the queue. nil means [Unavailable]. To
	// fail open instead, set the policy's OnStoreError, which requires package fallback
	// around the store.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
	// Observer receives every decision, one event for each charge. It also receives each
	// refund and each further charge by AdjustCost, and each cancellation or refund for a
	// request that left a queue before its turn. nil means no observer.
	Observer headgate.Observer
}

// Denial describes why a request was denied.
type Denial struct {
	headgate.Decision // the combined decision of all charges
	// Policies lists the names of the limits that denied, without duplicates. Header
	// fields replace non-ASCII characters in them.
	Policies []string
}

// New returns middleware that allows a request if every charge that applies allows it.
// If one charge denies, none is spent. New returns an error for everything that
// headgate.New rejects, and for charges that contradict each other. The middleware may
// be used concurrently and with any number of handlers, which then share its budgets;
// it panics if a handler is nil. The caller must close the store. opts may be nil.
func New(store headgate.Store, opts *Options, charges ...Charge) (func(http.Handler) http.Handler, error) {
	m, err := newMiddleware(store, opts, charges)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: handler is nil; pass http.DefaultServeMux to wrap handlers registered with http.Handle")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}, nil
}

func newMiddleware(store headgate.Store, opts *Options, charges []Charge) (m *middleware, err error) {
	if store == nil {
		return nil, fmt.Errorf("%w: store is nil; memstore.New(nil) returns an in-memory store", ErrInvalidOptions)
	}
	m = &middleware{core: admission.Core{Store: store}}
	if opts != nil {
		m.opts = *opts
		m.core.Observer = opts.Observer
	}
	if m.opts.DeniedHandler == nil {
		m.opts.DeniedHandler = Problem
	}
	if m.opts.ErrorHandler == nil {
		m.opts.ErrorHandler = Unavailable
	}
	if m.resolver, err = clientaddr.New(m.opts.Client); err != nil {
		return nil, err
	}
	if m.writer, err = httpfields.New(m.opts.Fields); err != nil {
		return nil, err
	}
	var bound []admission.Charge
	if m.charges, bound, err = bindAll(store, charges); err != nil {
		return nil, err
	}
	m.needsTime = m.writer.NeedsTime()
	m.sets = admission.NewFieldSets(m.writer, bound)
	m.single, m.fieldRoom = m.fastPathCharge(), m.fieldRoomOf()
	return m, nil
}
