// Package httplimit is middleware for net/http that limits how often requests come: by address, user, path or what you choose,
// with answers that clients understand.
//
//	limit, err := httplimit.New(memstore.New(nil), nil, httplimit.Charge{Policy: headgate.MustPolicy("100/1m")})
//	…
//	http.ListenAndServe(addr, limit(mux))
//
// # What a request is asked for
//
// Each [Charge] whose When holds takes its cost from the budget that its key names: all of them do or none does, in one operation
// of the store. The header fields of package httpfields then tell of every limit that took part.
//
// # What is answered
//
//   - Admitted: the handler's answer, with the header fields. Behind a leaky bucket it is held for its turn first.
//   - Denied: 429, [Problem] or what Options.DeniedHandler makes of it. Retry-After says when, unless no wait helps: the cost is above the limit.
//   - The store could not decide, or is full: 503 with Retry-After, or what Options.ErrorHandler makes of it. That is our capacity, not the
//     client's quota.
//   - A cost below zero, which only a mistake in the program can make: 500.
//   - The client has gone meanwhile: 499, which nobody reads, for the logs. The handler does not run.
//
// # What it costs
//
// About a third of a microsecond and two allocations for an admitted request under one limit over memory, header fields included,
// of whatever dialect: their text, with that of the key if it has to be written, and the list of their values. Without fields, by
// IPv4 address, none. A request that is skipped, or for which no charge holds, allocates nothing. Keys that have to be hashed or
// escaped, several charges, queues and Settle take more.
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

// ErrInvalidOptions is what the errors of [New] match that are not about a policy, an address or a field.
var ErrInvalidOptions = errors.New("httplimit: invalid options")

// Charge is a policy, and whose budget of it a request spends how much of.
type Charge struct {
	// Policy is the policy. Its name is what header fields, problem bodies and events call it, and whose state it is, in all
	// middlewares over one store: charges of one [New] with policies of the same name must have the same key. A policy without a
	// name is known by its limits, and counts apart for each sort of key; all functions are one sort.
	Policy headgate.Policy
	// Key is whose budget; the zero value means [Address].
	Key Key
	// Cost is how much, in units, at least 0; nil means 1. 0 only asks. More than the limit is denied, and no wait helps.
	Cost func(*http.Request) int64
	// When says which requests it is for; nil means all. A request for which no charge holds is not limited.
	When func(*http.Request) bool
	// Settle returns the final cost of the request after the handler has answered: a lower cost refunds the rest, a higher cost
	// spends up to the rest. nil keeps what was charged. See [OnlyFailures] and [OnlyStatus].
	//
	// What was charged before is what keeps parallel requests from passing all at once, so charge the most that is likely.
	// Settling is one operation of the store for each limit, between the handler's return and the end of the answer; the header
	// fields were sent before. It is done although the client has gone, or the handler panicked. Errors are reported to the
	// observer alone, and the charge stays; if Settle panics, the charges not yet settled stay as well.
	//
	// Nothing comes back twice: what a budget has regained while the handler ran is not refunded, and units are refunded only to
	// the store or the local fallback that granted them. A place in a leaky bucket's queue stays taken, as the
	// requests behind it were promised their instants.
	AdjustCost func(Response) int64
}

// Outcome is how a request ended.
type Response struct {
	Request  *http.Request
	Status   int   // 200 if the handler said nothing, 500 if it panicked before it did, 101 if it took over the connection
	Bytes    int64 // of the body, as far as it was written through the response writer
	Charged  int64 // units taken before the handler ran
	Panicked bool  // it goes on panicking after Settle
}

// Options are the middleware's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Client is how the client's address is found; nil trusts no header field.
	Client *clientaddr.Options
	// Fields is what answers tell; nil means the IETF draft's fields on every answer.
	Fields *httpfields.Options
	// Skip lets requests pass unlimited: health checks, say. nil skips none.
	Skip func(*http.Request) bool
	// Denied answers a request that is denied; header fields are set already. It has to write a status: net/http says 200 for who
	// writes nothing. nil means [Problem].
	DeniedHandler func(http.ResponseWriter, *http.Request, *Denial)
	// Undecided answers a request for which the store could not decide, or whose deadline is before its turn. nil means
	// [Unavailable]. To let requests pass instead, set the policy's OnStoreError, which needs package fallback around the store.
	ErrorHandler func(http.ResponseWriter, *http.Request, error)
	// Observer receives every decision, once for each charge; every refund or further take by Settle; and what is cancelled or
	// refunded for a request that leaves a queue before its turn. nil means none.
	Observer headgate.Observer
}

// Denial describes why a request was denied.
type Denial struct {
	headgate.Decision          // of all charges together
	Policies          []string // the names of the limits that denied, each once; header fields replace what is not ASCII in them
}

// New makes middleware that admits a request if every charge that holds for it does, and else spends nothing. It refuses what
// headgate.New refuses, and charges that contradict each other. The middleware may be used concurrently, and around any number of
// handlers, which then share its budgets; it panics if one is nil. It does not own the store. opts may be nil.
func New(store headgate.Store, opts *Options, charges ...Charge) (func(http.Handler) http.Handler, error) {
	g, err := newGate(store, opts, charges)
	if err != nil {
		return nil, err
	}
	return func(next http.Handler) http.Handler {
		if next == nil {
			panic("httplimit: the handler is nil; http.DefaultServeMux is the one that http.Handle registers with")
		}
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { g.serve(w, r, next) })
	}, nil
}

func newGate(store headgate.Store, opts *Options, charges []Charge) (g *gate, err error) {
	if store == nil {
		return nil, fmt.Errorf("%w: no store was given; memstore.New(nil) makes the embedded one", ErrInvalidOptions)
	}
	g = &gate{core: admission.Core{Store: store}}
	if opts != nil {
		g.opts = *opts
		g.core.Observer = opts.Observer
	}
	if g.opts.DeniedHandler == nil {
		g.opts.DeniedHandler = Problem
	}
	if g.opts.ErrorHandler == nil {
		g.opts.ErrorHandler = Unavailable
	}
	if g.resolver, err = clientaddr.New(g.opts.Client); err != nil {
		return nil, err
	}
	if g.writer, err = httpfields.New(g.opts.Fields); err != nil {
		return nil, err
	}
	var bound []admission.Charge
	if g.charges, bound, err = bindAll(store, charges); err != nil {
		return nil, err
	}
	g.needsTime = g.writer.NeedsTime()
	g.sets = admission.NewFieldSets(g.writer, bound)
	g.only, g.room = g.shortWay(), g.fieldsRoom()
	return g, nil
}
