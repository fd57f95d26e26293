package rlsapi

import (
	"math"
	"strconv"
	"strings"
	"time"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/envoyconfig"
	"github.com/headgate/headgate/internal/micros"
)

// respond returns the response to a request whose descriptors are decided. isOver is
// the result of charge.
func (r *requestState) respond(req *pb.RateLimitRequest, isOver bool) *pb.RateLimitResponse {
	resp, opts := r.newResponse(), &r.handler.opts
	switch {
	case isOver && opts.Shadow:
		r.handler.stats.shadowed.Add(1)
	case isOver:
		resp.OverallCode = pb.RateLimitResponse_OVER_LIMIT
	}
	if opts.Headers != nil {
		resp.ResponseHeadersToAdd = opts.Headers.fields(r.tightestStatus(resp.Statuses))
	}
	if opts.DynamicMetadata {
		resp.DynamicMetadata = r.metadata(req)
	}
	return resp
}

// singleResponse is the memory for a response with one status, as most have: one
// allocation instead of four.
type singleResponse struct {
	response pb.RateLimitResponse
	status   pb.RateLimitResponse_DescriptorStatus
	statuses [1]*pb.RateLimitResponse_DescriptorStatus
	reset    durationpb.Duration
}

// newResponse returns a response with the overall code OK and one status for each
// descriptor.
func (r *requestState) newResponse() *pb.RateLimitResponse {
	if len(r.descriptors) == 1 {
		s := new(singleResponse)
		s.statuses[0] = &s.status
		s.response.OverallCode = pb.RateLimitResponse_OK
		s.response.Statuses = s.statuses[:]
		r.descriptors[0].describe(r.now, &s.status, &s.reset)
		return &s.response
	}
	statuses := make([]pb.RateLimitResponse_DescriptorStatus, len(r.descriptors))
	resets := make([]durationpb.Duration, len(r.descriptors))
	all := make([]*pb.RateLimitResponse_DescriptorStatus, len(r.descriptors))
	for i := range r.descriptors {
		r.descriptors[i].describe(r.now, &statuses[i], &resets[i])
		all[i] = &statuses[i]
	}
	return &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OK, Statuses: all}
}

// describe fills in the status s of a descriptor. reset is memory for a duration in s.
func (d *descriptor) describe(now headgate.Instant, s *pb.RateLimitResponse_DescriptorStatus, reset *durationpb.Duration) {
	s.Code = pb.RateLimitResponse_OK
	switch d.disposition {
	case unmatched:
		return
	case unlimited:
		s.LimitRemaining = math.MaxUint32
		return
	case counted:
		if d.verdict == over {
			s.Code = pb.RateLimitResponse_OVER_LIMIT
		}
	}
	tightest := d.tightest()
	limit, decision := &d.limits[tightest], &d.decisions[tightest]
	s.CurrentLimit = d.reported[tightest]
	if d.verdict != over {
		s.LimitRemaining = remaining(limit, decision)
	}
	wait := d.wait(limit, decision, now)
	reset.Seconds, reset.Nanos = int64(wait/time.Second), int32(wait%time.Second)
	s.DurationUntilReset = reset
}

// remaining returns how many units of a limit remain, at most the maximum of uint32. If
// the store counts fewer units than the limit has, the difference is added; see
// [envoyconfig.Limit].
func remaining(l *envoyconfig.Limit, d *headgate.Decision) uint32 {
	left := d.Remaining
	if l.Requests == 0 {
		left = 0
	} else {
		left += max(0, int64(l.Requests)-l.Inline.Limit.Rate)
	}
	return uint32(min(left, math.MaxUint32))
}

// wait returns the reset time of a limit in a response. For a fixed window it is the
// time until the window ends, in whole seconds, at least 1. For other limits, it is the
// time until the same hits are allowed if they were denied, or else until all units are
// available again.
func (d *descriptor) wait(l *envoyconfig.Limit, decision *headgate.Decision, now headgate.Instant) time.Duration {
	if !l.Windows {
		if d.verdict == over && decision.RetryAfter > 0 {
			return decision.RetryAfter
		}
		return decision.ResetAfter
	}
	left := max(decision.ResetAfter, decision.RetryAfter)
	if left == 0 || left > longest(l) { // an unused window: the store does not return its end
		left = untilNext(l, sinceEpoch(now))
	}
	return (left + time.Second - 1).Truncate(time.Second)
}

// longest returns an upper bound on the length of a limit's windows.
func longest(l *envoyconfig.Limit) time.Duration {
	if l.Calendar != nil {
		return micros.Duration(l.Calendar.Longest())
	}
	return l.Period
}

// untilNext returns the time from t, the time since the epoch, to the limit's next
// window.
func untilNext(l *envoyconfig.Limit, t time.Duration) time.Duration {
	if l.Calendar != nil {
		_, end := l.Calendar.Window(t.Microseconds())
		return micros.Duration(end) - t
	}
	return l.Period - t%l.Period
}

func sinceEpoch(now headgate.Instant) time.Duration {
	if now == headgate.StoreClock {
		return time.Duration(time.Now().UnixNano())
	}
	return micros.Duration(int64(now))
}

// tightestStatus returns the status with the fewest remaining units, or the first of
// them if several have equally many. But if descriptors without quota mode are over
// their limits, it returns the status of the last one of these. It returns nil if no
// status has a limit.
func (r *requestState) tightestStatus(all []*pb.RateLimitResponse_DescriptorStatus) (tightest *pb.RateLimitResponse_DescriptorStatus) {
	least := uint32(math.MaxUint32)
	for i, s := range all {
		if s.CurrentLimit != nil && (tightest == nil || s.LimitRemaining < least) {
			tightest, least = s, s.LimitRemaining
		}
		if s.Code == pb.RateLimitResponse_OVER_LIMIT && !r.descriptors[i].quota {
			tightest, least = s, 0
		}
	}
	return tightest
}

// fields returns the header fields for status s, or none if s is nil.
func (n *Headers) fields(s *pb.RateLimitResponse_DescriptorStatus) []*core.HeaderValue {
	if s == nil {
		return nil
	}
	seconds := s.DurationUntilReset.GetSeconds()
	if s.DurationUntilReset.GetNanos() > 0 {
		seconds++
	}
	return []*core.HeaderValue{
		{Key: n.Limit, Value: strconv.FormatUint(uint64(s.CurrentLimit.GetRequestsPerUnit()), 10)},
		{Key: n.Remaining, Value: strconv.FormatUint(uint64(s.LimitRemaining), 10)},
		{Key: n.Reset, Value: strconv.FormatInt(seconds, 10)},
	}
}

// metadata returns the dynamic metadata of the response: the content of the request,
// and the merged metadata of the matching rules that did not deny it.
func (r *requestState) metadata(req *pb.RateLimitRequest) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(req.GetDescriptors()))
	for i, d := range req.GetDescriptors() {
		descriptors[i] = structpb.NewStructValue(toStruct(d))
	}
	fields := map[string]*structpb.Value{
		"domain":      toText(req.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if n := req.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	passed := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i := range r.descriptors {
		d := &r.descriptors[i]
		if d.rule != nil && d.disposition != unlimited && !(d.disposition == counted && d.verdict == over) {
			merge(passed, d.rule.Metadata)
		}
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: fields}
}

func toStruct(d *ratelimit.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = toText(e.GetKey() + "=" + e.GetValue())
	}
	fields := map[string]*structpb.Value{"entries": structpb.NewListValue(&structpb.ListValue{Values: entries})}
	if d.GetLimit() != nil {
		fields["limit"] = structpb.NewStringValue(d.GetLimit().String())
	}
	if n := d.GetHitsAddend(); n != nil {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n.GetValue()))
	}
	return &structpb.Struct{Fields: fields}
}

// toText returns a value for a text of the request. Each sequence of bytes that is not
// UTF-8 is replaced by U+FFFD, because a protobuf text must be UTF-8.
func toText(s string) *structpb.Value {
	return structpb.NewStringValue(strings.ToValidUTF8(s, "\uFFFD"))
}

// merge adds the fields of from to into, recursively in nested mappings. It does not
// replace a value that into already has. Values are shared with from, but mappings are
// copied, because later merges may add to them.
func merge(into, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		inner := value.GetStructValue()
		existing, exists := into.Fields[name]
		switch {
		case !exists && inner != nil:
			made := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
			merge(made, inner)
			into.Fields[name] = structpb.NewStructValue(made)
		case !exists:
			into.Fields[name] = value
		case inner != nil && existing.GetStructValue() != nil:
			merge(existing.GetStructValue(), inner)
		}
	}
}
