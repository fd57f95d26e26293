package rlsapi

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// The error messages of envoyproxy/ratelimit for these cases.
var (
	errNoDomain      = status.Error(codes.InvalidArgument, "rate limit domain must not be empty")
	errNoDescriptors = status.Error(codes.InvalidArgument, "rate limit descriptor list must not be empty")
	errNoConfig      = status.Error(codes.Unavailable, "no rate limit configuration loaded")
)

// requestState is the memory for processing one request. It is reused for later
// requests. Each stage of [Handler.process] writes its own fields.
type requestState struct {
	watch    stopwatch
	handler  *Handler
	now      headgate.Instant
	rules    *ruleSet
	snapshot *engine.ActiveConfig

	// match
	matcher envoyconfig.Matcher
	entries []envoyconfig.Entry // entries of the descriptor that is being matched
	name    []byte              // name of that descriptor's counter
	keys    []byte              // concatenated keys of all descriptors
	matches []match

	// plan
	descriptors []descriptor

	// charge
	asked     []*descriptor // descriptors in the last store operation, in its order
	checks    []engine.Check
	answer    engine.Answer
	decisions []headgate.Decision // decisions of all store operations for the request
}

// descriptor is the state of one descriptor of a request, from the plan stage on.
type descriptor struct {
	plan
	result
}

var requestStates = sync.Pool{New: func() any { return &requestState{watch: stopwatch{lane: stopwatches.Add(1)}} }}

// release clears r and keeps its memory for another request.
func (r *requestState) release() {
	r.matcher.Forget()
	clear(r.entries[:cap(r.entries)])
	clear(r.matches)
	clear(r.descriptors)
	clear(r.checks[:cap(r.checks)])
	r.descriptors, r.handler, r.rules, r.snapshot = r.descriptors[:0], nil, nil, nil
	if max(cap(r.keys), cap(r.name), r.matcher.Size()) <= maxReusedBytes && max(cap(r.entries), cap(r.matches)) <= maxReusedItems {
		requestStates.Put(r)
	}
}

// The maximum sizes of the buffers of a requestState that is reused. Larger ones are
// rare, and would keep their memory.
const (
	maxReusedBytes = 64 << 10
	maxReusedItems = 128
)

// ShouldRateLimit decides one request at the store's clock. It returns an
// InvalidArgument error for an invalid request, and an Unavailable error if no decision
// could be made. After an Unavailable error, Envoy's setting failure_mode_deny applies.
func (h *Handler) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (resp *pb.RateLimitResponse, err error) {
	r := requestStates.Get().(*requestState)
	r.watch.start(moment)
	defer h.finish(r, &resp, &err)
	return h.handle(ctx, headgate.StoreClock, req, r)
}

// finish records the duration of a request, releases r, and converts a panic to an
// error.
func (h *Handler) finish(r *requestState, resp **pb.RateLimitResponse, err *error) {
	h.stats.times.add(r.watch.lane, r.watch.stop(moment))
	r.release()
	if cause := recover(); cause != nil {
		h.opts.Log.Error("panic while handling request", "error", cause, "stack", string(debug.Stack()))
		*resp, *err = nil, status.Error(codes.Internal, "internal error")
	}
}

// ShouldRateLimitAt is like [Handler.ShouldRateLimit], but uses the parameter now as
// the current time, and its durations are not recorded.
func (h *Handler) ShouldRateLimitAt(ctx context.Context, now headgate.Instant, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	r := requestStates.Get().(*requestState)
	defer r.release()
	return h.handle(ctx, now, req, r)
}

// handle processes a request and, if this fails, counts the error.
func (h *Handler) handle(ctx context.Context, now headgate.Instant, req *pb.RateLimitRequest, r *requestState) (*pb.RateLimitResponse, error) {
	r.handler, r.now = h, now
	resp, err := h.process(ctx, req, r)
	switch {
	case err == nil:
	case status.Code(err) == codes.InvalidArgument || errors.Is(err, errNoConfig):
		h.stats.serviceErrors.Add(1)
	default:
		h.stats.storeErrors.Add(1)
	}
	return resp, err
}

// process runs a request through all stages. Each stage is in a file of this package:
// match, plan, charge, stats and response.
func (h *Handler) process(ctx context.Context, req *pb.RateLimitRequest, r *requestState) (*pb.RateLimitResponse, error) {
	if err := validate(req); err != nil {
		return nil, err
	}
	r.rules, r.snapshot = h.rules.Load(), h.engine.ActiveConfig()
	if r.rules == nil {
		return nil, errNoConfig
	}
	if isTooLarge(req) {
		return h.deny(tooManyDescriptors)
	}
	r.matchDescriptors(req)
	r.planDescriptors(req)
	if r.hasTooManyRules() {
		return h.deny(tooManyRules)
	}
	over, err := r.charge(ctx)
	if err != nil {
		return nil, toStatus(ctx, err)
	}
	h.stats.countHits(r.descriptors, !over || r.chargesEach())
	return r.respond(req, over), nil
}

// validate returns an error for a request without a domain or without descriptors. The
// configuration of Envoy determines both, and not Envoy's client.
func validate(req *pb.RateLimitRequest) error {
	switch {
	case req.GetDomain() == "":
		return errNoDomain
	case len(req.GetDescriptors()) == 0:
		return errNoDescriptors
	}
	return nil
}

// toStatus converts an error of the engine to a gRPC status error.
func toStatus(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case engine.ErrorKindOf(err) == engine.InvalidRequest:
		return status.Error(codes.InvalidArgument, engine.Reason(err))
	}
	return status.Error(codes.Unavailable, engine.Reason(err))
}
