// Package rlsapi is the service's door for Envoy: the Rate Limit Service v3 over gRPC, and envoyproxy/ratelimit's two HTTP paths, /json
// and /healthcheck. It answers as envoyproxy/ratelimit does from the same configuration, and knows its protocol and nothing of
// arithmetic or storage. docs/envoy.md says it all to users.
//
// # What a request is charged
//
// The descriptors of a request are charged all or none, in one operation of the store: a request that is denied spends nothing. With
// [Each] every descriptor is charged by itself, as envoyproxy/ratelimit does it.
//
//   - Rules in shadow mode have no say: they are charged if the others admit the request, each by itself.
//   - Rules in quota mode deny only all together: those that have something left are charged, in their order, behind all others.
//   - Negative hits are given back, whatever the others say.
package rlsapi

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// Limits on input, unless [Options] say otherwise.
const (
	DefaultMaxDescriptors = 32
	DefaultMaxEntryBytes  = 1 << 10
	DefaultMaxBodyBytes   = 64 << 10
)

// Charge is how the descriptors of one request are charged.
type Charge string

// How descriptors are charged. The zero value means [AllOrNone].
const (
	// AllOrNone charges all descriptors, or none if one is over its limit.
	AllOrNone Charge = "all_or_none"
	// Each charges each descriptor by itself, whatever the others say. One that crosses its fixed window's limit uses up what was left, and
	// one hit more, by which hits of 0 are over, too.
	Each Charge = "each"
)

// Headers are names of header fields that answers tell Envoy to add for its client.
type Headers struct {
	Limit     string // empty means RateLimit-Limit
	Remaining string // empty means RateLimit-Remaining
	Reset     string // empty means RateLimit-Reset
}

// Options are a handler's settings. The zero value of each field is its default; nil means all defaults.
type Options struct {
	// Charge is how descriptors are charged.
	Charge Charge
	// Shadow makes every answer OK; the statuses say what it would have been. Each descriptor is then charged by itself.
	Shadow bool
	// Quota has all descriptors deny only together, those without a rule counted as passed.
	Quota bool
	// DynamicMetadata adds to each answer what was asked, and the metadata of the rules that passed.
	DynamicMetadata bool
	// Headers adds header fields about the tightest limit; nil means none.
	Headers *Headers
	// NearLimitRatio is the part of a limit from which on hits are counted as near it; 0 means 0.8, and less than 0 that
	// all are.
	NearLimitRatio float64
	// NeedDomains makes the health checks fail until a configuration with at least one domain is there.
	NeedDomains bool
	// Unavailable503 answers /json with 503 while the store is away, and not with 400 as envoyproxy/ratelimit does.
	Unavailable503 bool
	// MaxDescriptors is the most descriptors in one request; 0 means [DefaultMaxDescriptors].
	MaxDescriptors int
	// MaxEntries is the most entries of a descriptor; 0 means [envoyconfig.DefaultMaxEntries].
	MaxEntries int
	// MaxEntryBytes is the longest domain, key and value, in bytes; 0 means [DefaultMaxEntryBytes].
	MaxEntryBytes int
	// MaxBodyBytes is the longest body of /json, in bytes; 0 means [DefaultMaxBodyBytes].
	MaxBodyBytes int
	// Log hears of panics; nil means nobody does. No key is in it.
	Log *slog.Logger
}

// Handler answers requests. It is made with [New] and may be used concurrently.
type Handler struct {
	pb.UnimplementedRateLimitServiceServer

	engine  *engine.Engine
	opts    Options
	using   sync.Mutex // held by Use
	holds   atomic.Pointer[rules]
	stats   *stats
	stopped atomic.Bool
	onReady atomic.Pointer[func(bool)]
}

// New makes the door of e, without a configuration: until [Handler.Use] it answers that there is none. opts may be nil.
func New(e *engine.Engine, opts *Options) (*Handler, error) {
	if opts == nil {
		opts = &Options{}
	}
	h := &Handler{engine: e, opts: *opts}
	switch h.opts.Charge {
	case "":
		h.opts.Charge = AllOrNone
	case AllOrNone, Each:
	default:
		return nil, fmt.Errorf("rlsapi: charge is %.20q; accepted are all_or_none and each", string(opts.Charge))
	}
	if h.opts.NearLimitRatio == 0 {
		h.opts.NearLimitRatio = 0.8
	}
	h.opts.NearLimitRatio = max(0, h.opts.NearLimitRatio)
	h.opts.MaxDescriptors = orDefault(opts.MaxDescriptors, DefaultMaxDescriptors)
	h.opts.MaxEntries = orDefault(opts.MaxEntries, envoyconfig.DefaultMaxEntries)
	h.opts.MaxEntryBytes = orDefault(opts.MaxEntryBytes, DefaultMaxEntryBytes)
	h.opts.MaxBodyBytes = orDefault(opts.MaxBodyBytes, DefaultMaxBodyBytes)
	if h.opts.Log == nil {
		h.opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.Headers != nil {
		h.opts.Headers = opts.Headers.named()
	}
	h.stats = newStats(h.opts.NearLimitRatio)
	return h, nil
}

func orDefault(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}

// rules are a configuration, ready to be answered from.
type rules struct {
	config *envoyconfig.Config
	ready  []ready // by the index of the rule
}

// ready is what of a rule is the same in every answer.
type ready struct {
	limits  []*pb.RateLimitResponse_RateLimit
	beyond  []envoyconfig.Limit // what is charged in the place of the rule's limits; nil if they are
	counter *Counter            // nil if its name depends on the request
}

// ErrConfig is what an error of [Handler.Use] matches.
var ErrConfig = errors.New("rlsapi: configuration refused")

// Use puts a configuration in the place of what holds, all of it, or changes nothing and says why: a rule may ask for what the store
// cannot do. Requests that are being answered end under what held when they came. Counters of rules that are gone are
// dropped, those of rules that stay go on. It does no I/O.
func (h *Handler) Use(c *envoyconfig.Config) error {
	h.using.Lock()
	defer h.using.Unlock()
	if err := h.suits(c); err != nil {
		h.stats.configLoad(false)
		return err
	}
	next := &rules{config: c, ready: make([]ready, len(c.Rules()))}
	for i, r := range c.Rules() {
		for j := range r.Limits {
			next.ready[i].limits = append(next.ready[i].limits, limitOf(r.Name, &r.Limits[j]))
		}
		if h.opts.Charge == Each {
			next.ready[i].beyond = beyond(r.Limits)
		}
		if !r.StatVaries() {
			next.ready[i].counter = h.stats.counter(r.Path)
		}
	}
	h.holds.Store(next)
	h.stats.keep(next)
	h.stats.configLoad(true)
	h.tellReady()
	return nil
}

// suits says which rule asks for what the store cannot do.
func (h *Handler) suits(c *envoyconfig.Config) error {
	snapshot := h.engine.Snapshot()
	for _, r := range c.Rules() {
		for j := range r.Limits {
			if own := r.Limits[j].Own; own != nil {
				if err := snapshot.Ready(own); err != nil {
					return fmt.Errorf("%w: %s: %w", ErrConfig, r.Path, err)
				}
			}
		}
	}
	return nil
}

// Refused counts a configuration that could not be read, for [Handler.Snapshot].
func (h *Handler) Refused() { h.stats.configLoad(false) }

// limitOf is a limit as answers say it; it is shared by all of them.
func limitOf(name string, l *envoyconfig.Limit) *pb.RateLimitResponse_RateLimit {
	return &pb.RateLimitResponse_RateLimit{
		Name: name, RequestsPerUnit: l.Requests, Unit: pb.RateLimitResponse_RateLimit_Unit(l.Unit),
	}
}

// Healthy reports whether this instance should be sent requests: it is not going away, and has the configuration that it needs.
func (h *Handler) Healthy() bool {
	if h.stopped.Load() {
		return false
	}
	holds := h.holds.Load()
	return !h.opts.NeedDomains || holds != nil && holds.config.Domains() > 0
}

// Drain makes the health checks fail. Requests are still answered.
func (h *Handler) Drain() {
	h.stopped.Store(true)
	h.tellReady()
}

func (h *Handler) tellReady() {
	if tell := h.onReady.Load(); tell != nil {
		(*tell)(h.Healthy())
	}
}
