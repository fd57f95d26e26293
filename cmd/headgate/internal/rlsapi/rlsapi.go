// Package rlsapi is the service's endpoint for Envoy: the Rate Limit Service v3 over
// gRPC, and the HTTP paths /json and /healthcheck of envoyproxy/ratelimit. It responds
// like envoyproxy/ratelimit with the same configuration. docs/envoy.md is the user's
// documentation.
//
// # What a request is charged
//
// The descriptors of a request are charged all or none, in one operation of the store:
// a denied request spends nothing. With [Each] every descriptor is charged separately,
// like in envoyproxy/ratelimit.
//
//   - Rules in shadow mode never deny. They are charged separately, if the other rules
//     allow the request.
//   - Rules in quota mode deny only if all of them do. Quota rules that allow the request
//     are charged after the other rules.
//   - Negative hits are always refunded, in an operation before all charges. If a charge
//     then fails, the refund stays, and a client that repeats the request refunds again.
package rlsapi

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// Default limits on input; see [Options].
const (
	DefaultMaxDescriptors = 32
	DefaultMaxEntryBytes  = 1 << 10
	DefaultMaxBodyBytes   = 64 << 10
)

// ChargeMode is how the descriptors of one request are charged.
type ChargeMode string

// How descriptors are charged. The zero value means [AllOrNone].
const (
	// AllOrNone charges all descriptors, or none if one is over its limit.
	AllOrNone ChargeMode = "all_or_none"
	// Each charges each descriptor separately. One that crosses its fixed window's limit
	// spends what was left and one hit more, so that 0 hits are over the limit, too.
	Each ChargeMode = "each"
)

// Headers are the names of the header fields that Envoy adds to responses.
type Headers struct {
	Limit     string // empty means RateLimit-Limit
	Remaining string // empty means RateLimit-Remaining
	Reset     string // empty means RateLimit-Reset
}

// Options are a handler's settings. A field that is zero has its default.
type Options struct {
	Charge          ChargeMode // empty means AllOrNone
	Shadow          bool       // every overall code is OK; each descriptor is charged separately
	Quota           bool       // all descriptors are in quota mode; those without a rule allow
	DynamicMetadata bool       // responses repeat the request, with the metadata of rules that allow it
	Headers         *Headers   // header fields about the tightest limit; nil means none
	// NearLimitRatio is the part of a limit above which hits are near it; 0 means 0.8,
	// below 0 all are.
	NearLimitRatio float64
	// NeedDomains makes health checks fail until there is a configuration with a domain.
	NeedDomains bool
	// Unavailable503 is for /json: 503 if the store is unavailable, not 400 as
	// envoyproxy/ratelimit.
	Unavailable503 bool
	MaxDescriptors int          // of a request; 0 means DefaultMaxDescriptors
	MaxEntries     int          // of a descriptor; 0 means envoyconfig.DefaultMaxEntries
	MaxEntryBytes  int          // of a domain, a key or a value; 0 means DefaultMaxEntryBytes
	MaxBodyBytes   int          // of a request to /json; 0 means DefaultMaxBodyBytes
	Log            *slog.Logger // receives panics, without any key; nil means no log
}

// Handler decides requests. It is made with [New] and may be used concurrently.
type Handler struct {
	pb.UnimplementedRateLimitServiceServer

	engine   *engine.Engine
	opts     Options
	applying sync.Mutex // held by Apply
	rules    atomic.Pointer[ruleSet]
	stats    stats
	stopped  atomic.Bool

	publishing sync.Mutex // held from the evaluation of the health until it is published
	publish    func(healthy bool)
}

// New makes a handler of e: until [Handler.Apply], every request is Unavailable. opts may
// be nil.
func New(e *engine.Engine, opts *Options) (*Handler, error) {
	opts = cmp.Or(opts, &Options{})
	h := &Handler{engine: e, opts: *opts}
	o := &h.opts
	o.Charge = cmp.Or(o.Charge, AllOrNone)
	if o.Charge != AllOrNone && o.Charge != Each {
		return nil, fmt.Errorf("rlsapi: charge is %.20q; must be all_or_none or each", string(o.Charge))
	}
	o.NearLimitRatio = max(0, cmp.Or(o.NearLimitRatio, 0.8))
	o.MaxDescriptors = cmp.Or(o.MaxDescriptors, DefaultMaxDescriptors)
	o.MaxEntries = cmp.Or(o.MaxEntries, envoyconfig.DefaultMaxEntries)
	o.MaxEntryBytes = cmp.Or(o.MaxEntryBytes, DefaultMaxEntryBytes)
	o.MaxBodyBytes = cmp.Or(o.MaxBodyBytes, DefaultMaxBodyBytes)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if n := o.Headers; n != nil {
		o.Headers = &Headers{
			Limit:     cmp.Or(n.Limit, "RateLimit-Limit"),
			Remaining: cmp.Or(n.Remaining, "RateLimit-Remaining"),
			Reset:     cmp.Or(n.Reset, "RateLimit-Reset"),
		}
	}
	h.stats.ratio, h.stats.counters = float32(o.NearLimitRatio), newCounters()
	return h, nil
}

// Healthy reports whether this instance is not draining, and has the configuration that
// it needs.
func (h *Handler) Healthy() bool {
	if h.stopped.Load() {
		return false
	}
	rules := h.rules.Load()
	return !h.opts.NeedDomains || rules != nil && rules.config.Domains() > 0
}

// Drain makes health checks fail. Requests are still decided.
func (h *Handler) Drain() {
	h.stopped.Store(true)
	h.publishHealth()
}

// publishHealth reports the health to the server of this handler, if it has one.
func (h *Handler) publishHealth() {
	h.publishing.Lock()
	defer h.publishing.Unlock()
	if h.publish != nil {
		h.publish(h.Healthy())
	}
}

// publishTo has every change of the health published from now on, and the current one.
func (h *Handler) publishTo(publish func(healthy bool)) {
	h.publishing.Lock()
	h.publish = publish
	h.publishing.Unlock()
	h.publishHealth()
}
