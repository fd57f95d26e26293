// Package httplimit is net/http middleware for rate limiting. It limits requests by
// client address, user, path or another key, and reports the limits in standard header
// fields.
//
//	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{
//		Policy: headgate.MustPolicy("100/1m"),
//	})
//	…
//	http.ListenAndServe(addr, limit(mux))
//
// # Charging a request
//
// A [Charge] spends units from the budget of a key. All charges whose function When
// returns true are made in one atomic store operation: either all of them are made, or
// none. Package httpfields writes the header fields, which report every limit that was
// checked.
//
// # Responses
//
//   - Allowed: the handler's response, with the header fields. A leaky bucket first
//     delays the request for the decision's Delay.
//   - Denied: 429, written by [Problem] or by Options.DeniedHandler. Retry-After is set,
//     unless waiting does not help because the cost is above the limit.
//   - The store is unavailable or full: 503 with Retry-After, or the response of
//     Options.ErrorHandler. The cause is the server's capacity, not the client's quota.
//   - A cost below zero, which is a mistake in the program: 500.
//   - The client disconnected before the handler ran: 499, for logs only. The handler
//     does not run.
//
// # Cost
//
// An allowed request under one limit in memory takes about a third of a microsecond and
// two allocations, including the header fields of any dialect. One allocation is for
// the text of the fields (and of the key, if the key is not part of a string in the
// request), the other for the list of their values. With an IPv4 address as key and
// without header fields, there is no allocation. A request that is skipped, or to which
// no charge applies, allocates nothing. Keys that must be hashed or escaped, several
// charges, queues and AdjustCost take more time.
package httplimit

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// ErrInvalidOptions is matched by the errors of [New], except for errors in a policy,
// in an address or in the options of the header fields.
var ErrInvalidOptions = errors.New("httplimit: invalid options")

// Charge defines a policy, the key whose budget a request spends, and the cost of the
// request.
type Charge struct {
	// Policy is the policy of the charge. Its name appears in header fields, problem
	// bodies and events, and identifies its state in all middlewares that use one
	// store. If two charges of one [New] have policies with the same name, their keys
	// must be the same. A policy without a name is identified by its limits and the
	// kind of key; all keys made with [Func] are of one kind. New returns an error if
	// two middlewares on one store would therefore share budgets although their
	// functions differ: see [headgate.MustNamedPolicy]. It cannot find this for two
	// programs that share a store, so name the policies there.
	//
	// Under a limit such as “16 concurrent”, a request has slots until the handler ends
	// in any way: it returns, panics, or returns after the client has disconnected. Rates
	// and slots of all charges are taken together or not at all. The cost of a request is
	// its number of slots. The store must support holds. See Options.HoldTTL.
	Policy headgate.Policy
	// Limits returns the limits of a request, such as those of the plan of its user, in
	// place of those of Policy. An empty result selects those of Policy, which must have
	// a name. The state of a key is the same under all limits: a key whose limits change
	// keeps what it has spent. Nothing is allocated for limits that were used before, so
	// return slices that exist already, with at most four limits each. Invalid limits
	// cause a response with the status 500. If Limits is nil, the limits of Policy apply.
	Limits func(*http.Request) []headgate.Limit
	// Key selects the budget that is charged. The zero value means [Address].
	Key Key
	// Cost returns the cost of a request in units, at least 0. If Cost is nil, the cost
	// is 1. A cost of 0 spends nothing. A request with a cost above the limit is
	// denied, and waiting does not help.
	Cost func(*http.Request) int64
	// When reports whether the charge applies to a request. If When is nil, the charge
	// always applies. A request to which no charge applies is not limited.
	When func(*http.Request) bool
	// AdjustCost returns the final cost of the request after the handler has returned. A
	// lower cost than the charge has the same effect as if it had been charged at the
	// beginning. For a higher cost, HoldSettings.ExcessPolicy of the policy defines
	// whether the difference is owed, which is the default, or spent as far as units
	// remain. If AdjustCost is nil, the charge is not changed. See [OnlyFailures] and
	// [OnlyStatus].
	//
	// Only the original charge limits parallel requests, so Cost should return the
	// highest likely cost. The middleware opens a hold before the handler and commits it
	// after the handler, before the end of the response: see [headgate.Limiter.Hold].
	// Each takes one store operation for all charges of the request together. The header
	// fields are sent earlier and do not change. The cost is also adjusted if the client
	// disconnected or the handler panicked. The original charge stays if the handler ran
	// for longer than Options.HoldTTL, if the key has too many open holds (HoldSettings),
	// and after an error of the commit, which is reported only to the observer. If
	// AdjustCost itself panics, the charges that are not yet adjusted stay, too.
	//
	// New returns an error if a charge of the middleware has a leaky bucket, because
	// later requests have already been given their delays, and if the store does not
	// support holds.
	AdjustCost func(Response) int64
}

// Response describes how a request ended.
type Response struct {
	Request *http.Request
	// Status is the response status. It is 200 if the handler set no status, 500 if the
	// handler panicked before setting one, and 101 if it hijacked the connection.
	Status   int
	Bytes    int64 // number of body bytes that were written through the response writer
	Charged  int64 // units charged before the handler ran
	Panicked bool  // true if the handler panicked; the panic continues after AdjustCost
}

// Options are the settings of the middleware. A field with the zero value has the
// default given in its comment; nil options select all defaults.
type Options struct {
	// Client configures how the client's address is found. If Client is nil, no header
	// field is trusted.
	Client *clientaddr.Options
	// Fields configures the header fields. If Fields is nil, every response has the
	// fields of the IETF draft.
	Fields *httpfields.Options
	// Skip reports whether a request is exempt from limiting, such as a health check.
	// If Skip is nil, no request is exempt.
	Skip func(*http.Request) bool
	// DeniedHandler writes the response to a denied request. The header fields are
	// already set. The function must write a status, because otherwise net/http sends
	// 200. nil means [Problem].
	DeniedHandler func(http.ResponseWriter, *http.Request, *Denial)
	// ErrorHandler writes the response if the store returned an error, or if a queued
	// request could not proceed before the deadline of its context. nil means
	// [Unavailable]. To fail open instead, set OnStoreError in the policy, which
	// requires a store wrapped by package fallback.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
	// HoldTTL is the time that handlers may take if a charge has an AdjustCost function:
	// [headgate.MinHoldTTL] to [headgate.MaxHoldTTL]. After that time the original
	// charge stays. 0 means 10 minutes. If a policy limits concurrent work, such as “16
	// concurrent”, 0 means 30 seconds. Holds are then extended while the handler runs,
	// all of them together every third of HoldTTL, so that handlers may take any time.
	// After a crash, slots become available after at most HoldTTL.
	HoldTTL time.Duration
	// Observer receives one event for each charge of a decided request. It also
	// receives each cost that AdjustCost changed, with the verb “commit”, and each
	// cancellation of a reservation when a request left a queue early. nil means no
	// observer.
	Observer headgate.Observer
}

// Denial describes why a request was denied.
type Denial struct {
	headgate.Decision // combined decision of all charges
	// Policies has the names of the limits that denied, without duplicates. In header
	// fields, non-ASCII characters in these names are replaced.
	Policies []string
	slots    bool // true if only limits of concurrent work denied
}

// New returns middleware that allows a request if every charge that applies allows it.
// If one charge is denied, no units are spent. New returns an error for everything that
// headgate.New rejects, and for charges that contradict each other. The middleware may
// be used concurrently and with any number of handlers, which then share the budgets.
// It panics if a handler is nil. The caller must close the store. opts may be nil.
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
	if err := m.checkHolds(bound); err != nil {
		return nil, err
	}
	m.needsTime = m.writer.NeedsTime()
	m.sets = admission.NewFieldSets(m.writer, bound)
	m.single, m.fieldRoom = m.fastPathCharge(), m.fieldRoomOf()
	return m, nil
}

// defaultHoldTTL is the default of Options.HoldTTL.
const defaultHoldTTL = 10 * time.Minute

// checkHolds sets the default of HoldTTL, and returns an error if a charge has an
// AdjustCost function that does not work.
func (m *middleware) checkHolds(charges []admission.Charge) error {
	ttl, slots := &m.opts.HoldTTL, slices.ContainsFunc(charges, func(c admission.Charge) bool { return c.Slots })
	switch {
	case *ttl == 0 && slots:
		*ttl = headgate.DefaultKeepAliveTTL
	case *ttl == 0:
		*ttl = defaultHoldTTL
	}
	if *ttl < headgate.MinHoldTTL || *ttl > headgate.MaxHoldTTL {
		return fmt.Errorf("%w: HoldTTL is %v; must be 1ms to 168h (7 days)", ErrInvalidOptions, *ttl)
	}
	m.keeper = admission.NewKeeper(m.core.Store, *ttl)
	switch {
	case slots:
		return admission.CheckHolds(m.core.Store, charges, "a limit of concurrent work", ErrInvalidOptions)
	case !slices.ContainsFunc(m.charges, func(c charge) bool { return c.adjust != nil }):
		return nil
	}
	return admission.CheckHolds(m.core.Store, charges, "AdjustCost", ErrInvalidOptions)
}
