package rlsapi

import (
	"math"
	"strconv"

	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/structpb"
)

// named has the default names where none is said.
func (n Headers) named() *Headers {
	for _, one := range []struct {
		name      *string
		otherwise string
	}{{&n.Limit, "RateLimit-Limit"}, {&n.Remaining, "RateLimit-Remaining"}, {&n.Reset, "RateLimit-Reset"}} {
		if *one.name == "" {
			*one.name = one.otherwise
		}
	}
	return &n
}

// addHeaders tells of the limit with the least left, the first of equals; of one that denies, if there are some, the last.
func (h *Handler) addHeaders(resp *pb.RateLimitResponse, c *call) {
	var tightest *pb.RateLimitResponse_DescriptorStatus
	least := uint32(math.MaxUint32)
	for i, s := range resp.Statuses {
		if s.CurrentLimit != nil && (tightest == nil || s.LimitRemaining < least) {
			tightest, least = s, s.LimitRemaining
		}
		if s.Code == pb.RateLimitResponse_OVER_LIMIT && !c.items[i].quota {
			tightest, least = s, 0
		}
	}
	if tightest == nil {
		return
	}
	seconds := tightest.DurationUntilReset.GetSeconds()
	if tightest.DurationUntilReset.GetNanos() > 0 {
		seconds++
	}
	resp.ResponseHeadersToAdd = []*core.HeaderValue{
		{Key: h.opts.Headers.Limit, Value: strconv.FormatUint(uint64(tightest.CurrentLimit.GetRequestsPerUnit()), 10)},
		{Key: h.opts.Headers.Remaining, Value: strconv.FormatUint(uint64(tightest.LimitRemaining), 10)},
		{Key: h.opts.Headers.Reset, Value: strconv.FormatInt(seconds, 10)},
	}
}

// metadataOf repeats what was asked, and holds the metadata of the rules that passed: of two that say the same the first counts.
func metadataOf(req *pb.RateLimitRequest, c *call) *structpb.Struct {
	descriptors := make([]*structpb.Value, len(req.GetDescriptors()))
	for i, d := range req.GetDescriptors() {
		descriptors[i] = structpb.NewStructValue(asStruct(d))
	}
	fields := map[string]*structpb.Value{
		"domain":      structpb.NewStringValue(req.GetDomain()),
		"descriptors": structpb.NewListValue(&structpb.ListValue{Values: descriptors}),
	}
	if n := req.GetHitsAddend(); n != 0 {
		fields["hitsAddend"] = structpb.NewNumberValue(float64(n))
	}
	passed := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
	for i := range c.items {
		it := &c.items[i]
		if it.rule != nil && it.part != unlimited && !(it.part == counted && it.over) {
			merge(passed, it.rule.Metadata)
		}
	}
	if len(passed.Fields) > 0 {
		fields["metadata"] = structpb.NewStructValue(passed)
	}
	return &structpb.Struct{Fields: fields}
}

func asStruct(d *ratelimit.RateLimitDescriptor) *structpb.Struct {
	entries := make([]*structpb.Value, len(d.GetEntries()))
	for i, e := range d.GetEntries() {
		entries[i] = structpb.NewStringValue(e.GetKey() + "=" + e.GetValue())
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

// merge adds what into does not have, mapping by mapping. What it takes is shared with from, but for mappings, which it may add to.
func merge(into, from *structpb.Struct) {
	for name, value := range from.GetFields() {
		inner := value.GetStructValue()
		there, exists := into.Fields[name]
		switch {
		case !exists && inner != nil:
			made := &structpb.Struct{Fields: make(map[string]*structpb.Value)}
			merge(made, inner)
			into.Fields[name] = structpb.NewStructValue(made)
		case !exists:
			into.Fields[name] = value
		case inner != nil && there.GetStructValue() != nil:
			merge(there.GetStructValue(), inner)
		}
	}
}
