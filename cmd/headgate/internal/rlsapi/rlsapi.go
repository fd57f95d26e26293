// Package rlsapi is the service's endpoint for Envoy: the Rate Limit Service v3 over
// gRPC, and the HTTP paths /json and /healthcheck of envoyproxy/ratelimit. It responds
// like envoyproxy/ratelimit with the same configuration. docs/reference/envoy.md is the
// user's documentation.
//
// # What a request is charged
//
// The descriptors of a request are charged in one atomic operation of the store: all of
// them, or none if the request is denied. With [Each], every descriptor is charged
// separately, in the order of the request, as in envoyproxy/ratelimit.
//
//   - Rules in shadow mode never deny. Except with [Each], they are charged in a separate
//     operation, if the other rules allow the request.
//   - Rules in quota mode deny only if all of them do. Quota rules that allow the request
//     are charged after the other rules.
//   - Negative hits are always refunded, in an operation before all charges. If a charge
//     then fails, the refund is kept, and a client that repeats the request refunds
//     again.
//
// # What a client of Envoy can choose
//
// Envoy forwards a request if this endpoint returns an error, unless failure_mode_deny is
// set. Nothing that a client of Envoy can choose therefore leads to an error: values of
// any length with any bytes, every number of descriptors and entries, and every number of
// hits. A request with more rules than [engine.ActiveConfig.MaxChecks] is denied.
package rlsapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
)

// DefaultMaxMessageBytes is the default of [ServerOptions].MaxMessageBytes and of
// [Options].MaxBodyBytes. It is more than Envoy sends with its own defaults: Envoy
// accepts header fields of 60 KiB in total, and sends the value of a field once for
// each descriptor that contains it.
const DefaultMaxMessageBytes = 4 << 20

// ChargeMode is whether the descriptors of one request are charged together or
// separately.
type ChargeMode string

// The values of [ChargeMode]. The zero value means [AllOrNone].
const (
	// AllOrNone charges all descriptors, or none if one is over its limit.
	AllOrNone ChargeMode = "all_or_none"
	// Each charges each descriptor separately, and counts hits that are over the limit of
	// a fixed window. A later request of 0 hits is then over the limit, too.
	Each ChargeMode = "each"
)

// Headers are the names of the header fields that Envoy adds to responses.
type Headers struct {
	Limit     string // empty means RateLimit-Limit
	Remaining string // empty means RateLimit-Remaining
	Reset     string // empty means RateLimit-Reset
}

// Options are the settings of a handler. A field with its zero value has the default in
// its comment.
type Options struct {
	Charge ChargeMode // empty means AllOrNone
	// LocalDenials reduces the operations of the store with [Each]: hits of a window that
	// is over its limit are not counted any more, as with the local cache of
	// envoyproxy/ratelimit.
	LocalDenials bool
	// Shadow mode for all rules: every overall code is OK; each descriptor is charged
	// separately.
	Shadow          bool
	Quota           bool     // quota mode for all descriptors; a descriptor without a rule then counts as allowed
	DynamicMetadata bool     // responses contain the request and the metadata of rules that allow it
	Headers         *Headers // names of the header fields for the tightest limit; nil means no header fields
	// NearLimitRatio is the fraction of a limit above which statistics count hits as
	// near the limit. 0 means 0.8; a negative value means all hits.
	NearLimitRatio float64
	// CalendarMonths makes the windows of the unit month, in limits that descriptors
	// contain, the months of the calendar in UTC; by default, they are 30 days long. For
	// rules, see [envoyconfig.ParseOptions].
	CalendarMonths bool
	// SampleTimes keeps a sample of the durations of requests for [Handler.TakeTimes].
	SampleTimes bool
	// NeedDomains makes health checks fail until a configuration with a domain is
	// loaded.
	NeedDomains bool
	// Unavailable503 makes /json return status 503 if the store is unavailable.
	// Otherwise it returns 400, like envoyproxy/ratelimit.
	Unavailable503 bool
	MaxBodyBytes   int // maximum body size of a request to /json; 0 means DefaultMaxMessageBytes
	// Log is the logger for panics and for requests that are denied because of their
	// size. Its lines contain no keys. nil means no log.
	Log *slog.Logger
}

// Handler decides requests. It is created with [New] and may be used concurrently.
type Handler struct {
	pb.UnimplementedRateLimitServiceServer

	engine   *engine.Engine
	opts     Options
	applying sync.Mutex // held by Apply
	rules    atomic.Pointer[ruleSet]
	stats    stats
	stopped  atomic.Bool
	warned   [refusals]atomic.Bool // whether a request with this reason has been logged

	publishing sync.Mutex // held while the health is evaluated and published
	publish    func(healthy bool)
}

// New creates a handler that decides with e. Before the first [Handler.Apply], every
// request gets an Unavailable error. opts may be nil.
func New(e *engine.Engine, opts *Options) (*Handler, error) {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, opts: *opts}
	o := &h.opts
	o.Charge = cmp.Or(o.Charge, AllOrNone)
	if o.Charge != AllOrNone && o.Charge != Each {
		return nil, fmt.Errorf("rlsapi: charge is %.20q; must be all_or_none or each", string(o.Charge))
	}
	o.NearLimitRatio = max(0, cmp.Or(o.NearLimitRatio, 0.8))
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, DefaultMaxMessageBytes)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if n := o.Headers; n != nil {
		o.Headers = &Headers{
			Limit:     cmp.Or(n.Limit, "RateLimit-Limit"),
			Remaining: cmp.Or(n.Remaining, "RateLimit-Remaining"),
			Reset:     cmp.Or(n.Reset, "RateLimit-Reset"),
		}
	}
	h.stats.ratio, h.stats.counters = float32(o.NearLimitRatio), newCounters()
	if o.SampleTimes {
		h.stats.times.samples = new([timeShards]timeSample)
	}
	return h, nil
}

// Healthy reports whether this instance is not draining, and has a configuration with a
// domain if [Options].NeedDomains is set.
func (h *Handler) Healthy() bool {
	if h.stopped.Load() {
		return false
	}
	rules := h.rules.Load()
	return !h.opts.NeedDomains || rules != nil && rules.config.Domains() > 0
}

// Drain makes health checks fail. Requests are still processed.
func (h *Handler) Drain() {
	h.stopped.Store(true)
	h.publishHealth()
}

// publishHealth publishes the current health to the gRPC server of this handler, if
// there is one.
func (h *Handler) publishHealth() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	if h.publish != nil {
		h.publish(h.Healthy())
	}
}

// publishTo calls publish with the current health, and again for every later change.
func (h *Handler) publishTo(publish func(healthy bool)) {
	h.publishing.Lock()
	h.publish = publish
	h.publishing.Unlock()
	h.publishHealth()
}
