package rlsapi

import (
	"context"
	"math"
	"runtime/debug"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
)

// ShouldRateLimit answers one request, at the store's own clock. What makes no sense is answered InvalidArgument, and what could not be
// decided Unavailable; Envoy does then what its failure_mode_deny says.
func (h *Handler) ShouldRateLimit(ctx context.Context, req *pb.RateLimitRequest) (resp *pb.RateLimitResponse, err error) {
	c := calls.Get().(*call)
	c.watch.start(moment)
	defer h.end(c, &resp, &err)
	return h.decided(ctx, headgate.StoreClock, req, c)
}

// end counts a request, and answers one that brought us to a panic.
func (h *Handler) end(c *call, resp **pb.RateLimitResponse, err *error) {
	h.stats.times.add(c.watch.lane, c.watch.stop(moment))
	c.release()
	if cause := recover(); cause != nil {
		h.opts.Log.Error("a request brought the service to a panic", "cause", cause, "stack", string(debug.Stack()))
		*resp, *err = nil, status.Error(codes.Internal, "internal error")
	}
}

// ShouldRateLimitAt is [Handler.ShouldRateLimit] at the instant now.
func (h *Handler) ShouldRateLimitAt(ctx context.Context, now headgate.Instant, req *pb.RateLimitRequest) (*pb.RateLimitResponse, error) {
	c := calls.Get().(*call)
	defer c.release()
	return h.decided(ctx, now, req, c)
}

// decided is the answer, or an error that is counted.
func (h *Handler) decided(ctx context.Context, now headgate.Instant, req *pb.RateLimitRequest, c *call) (*pb.RateLimitResponse, error) {
	resp, err := h.answer(ctx, now, req, c)
	if err != nil {
		h.stats.serviceError(status.Code(err) == codes.Unavailable)
		return nil, err
	}
	return resp, nil
}

func (h *Handler) answer(ctx context.Context, now headgate.Instant, req *pb.RateLimitRequest, c *call) (*pb.RateLimitResponse, error) {
	if err := h.check(req); err != nil {
		return nil, err
	}
	c.now, c.holds, c.snapshot = now, h.holds.Load(), h.engine.Snapshot()
	if c.holds == nil {
		return nil, errNoConfig
	}
	if err := h.resolve(req, c); err != nil {
		return nil, err
	}
	over, err := h.decide(ctx, c)
	if err != nil {
		return nil, failure(ctx, err)
	}
	resp := c.response()
	if over {
		resp.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if h.opts.Headers != nil {
		h.addHeaders(resp, c)
	}
	if over && h.opts.Shadow {
		resp.OverallCode = pb.RateLimitResponse_OK
		h.stats.globalShadow()
	}
	if h.opts.DynamicMetadata {
		resp.DynamicMetadata = metadataOf(req, c)
	}
	h.stats.count(c)
	return resp, nil
}

// failure is an error of the engine in gRPC's words.
func failure(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return status.FromContextError(ctx.Err()).Err()
	case engine.KindOf(err) == engine.BadInput:
		return status.Error(codes.InvalidArgument, engine.Reason(err))
	}
	return status.Error(codes.Unavailable, engine.Reason(err))
}

// reply is an answer for one descriptor, as most are, in one piece of memory.
type reply struct {
	response pb.RateLimitResponse
	status   pb.RateLimitResponse_DescriptorStatus
	statuses [1]*pb.RateLimitResponse_DescriptorStatus
	reset    durationpb.Duration
}

// response has one status for each descriptor, and says OK.
func (c *call) response() *pb.RateLimitResponse {
	if len(c.items) == 1 {
		r := new(reply)
		r.statuses[0] = &r.status
		r.response.OverallCode = pb.RateLimitResponse_OK
		r.response.Statuses = r.statuses[:]
		c.items[0].describe(c.now, &r.status, &r.reset)
		return &r.response
	}
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(c.items))
	resets := make([]durationpb.Duration, len(c.items))
	all := make([]*pb.RateLimitResponse_DescriptorStatus, len(c.items))
	for i := range c.items {
		c.items[i].describe(c.now, &statuses[i], &resets[i])
		all[i] = &statuses[i]
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: all}
}

// describe says how it stands with a descriptor.
func (it *item) describe(now headgate.Instant, s *pb.RateLimitResponse_DescriptorStatus, reset *durationpb.Duration) {
	s.Code = pb.RateLimitResponse_OK
	switch it.part {
	case unmatched:
		return
	case unlimited:
		s.LimitRemaining = math.MaxUint32
		return
	case counted:
		if it.over {
			s.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	tightest := it.tightest()
	limit, d := &it.limits[tightest], &it.decisions[tightest]
	s.CurrentLimit = it.shown[tightest]
	if !it.over {
		s.LimitRemaining = remainingOf(limit, d)
	}
	wait := it.wait(limit, d, now)
	reset.Seconds, reset.Nanos = int64(wait/time.Second), int32(wait%time.Second)
	s.DurationUntilReset = reset
}

// tightest is the limit that an answer speaks of: of those that deny the one with the longest wait, or else that with the least left.
func (it *item) tightest() int {
	best := 0
	for i := 1; i < len(it.decisions); i++ {
		a, b := &it.decisions[best], &it.decisions[i]
		switch {
		case a.Allowed != b.Allowed:
			if a.Allowed {
				best = i
			}
		case a.Allowed && b.Remaining < a.Remaining, !a.Allowed && b.RetryAfter > a.RetryAfter:
			best = i
		}
	}
	return best
}

// remainingOf is what is left, of as much as the limit says: more than can be counted is left unless it was spent.
func remainingOf(l *envoyconfig.Limit, d *headgate.Decision) uint32 {
	left := d.Remaining
	if l.Requests == 0 {
		left = 0
	} else if l.Requests > headgate.MaxUnits {
		left += int64(l.Requests) - headgate.MaxUnits
	}
	return uint32(min(left, math.MaxUint32))
}

// wait is the time until a fixed window ends, in whole seconds from 1; of other limits, until the same hits are admitted if they are
// not, or else until nothing is spent any more.
func (it *item) wait(l *envoyconfig.Limit, d *headgate.Decision, now headgate.Instant) time.Duration {
	if !l.Windows {
		if it.over && d.RetryAfter > 0 {
			return d.RetryAfter
		}
		return d.ResetAfter
	}
	left := max(d.ResetAfter, d.RetryAfter)
	if left == 0 || left > l.Period { // nothing is spent: the store did not say where in the window it is
		left = l.Period - sinceEpoch(now)%l.Period
	}
	return (left + time.Second - 1).Truncate(time.Second)
}

func sinceEpoch(now headgate.Instant) time.Duration {
	if now == headgate.StoreClock {
		return time.Duration(time.Now().UnixNano())
	}
	return headgate.Micros(int64(now))
}
