package rlsapi

import (
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// The maximum number of descriptors in a request, and of entries in all its descriptors
// together. They bound the memory of a request, and are far above what a configuration of
// Envoy produces.
const (
	maxDescriptors = 1 << 10
	maxEntries     = 16 << 10
)

// isTooLarge reports whether a request has more than maxDescriptors or maxEntries.
func isTooLarge(req *pb.RateLimitRequest) bool {
	entries := 0
	for _, d := range req.GetDescriptors() {
		entries += len(d.GetEntries())
	}
	return len(req.GetDescriptors()) > maxDescriptors || entries > maxEntries
}

// hasTooManyRules reports whether more rules apply to the request than one request may
// have checks. A rule with several limits is one rule.
func (r *requestState) hasTooManyRules() bool {
	rules := 0
	for i := range r.descriptors {
		if d := r.descriptors[i].disposition; d != unmatched && d != unlimited {
			rules++
		}
	}
	return rules > r.snapshot.MaxChecks()
}

// refusal is why a request is not decided.
type refusal int

const (
	tooManyDescriptors refusal = iota
	tooManyRules
	tooManyBytes
	noMemory
	refusals // number of reasons
)

// refusalTexts are the reasons and the advice in the log.
var refusalTexts = [refusals][2]string{
	tooManyDescriptors: {"too many descriptors", "send fewer descriptors"},
	tooManyRules:       {"too many rules", "increase max_checks, or send fewer descriptors"},
	tooManyBytes:       {"too many bytes", "increase grpc.max_message_bytes, or send fewer or shorter values"},
	noMemory:           {"too many long requests at a time", "increase grpc.max_memory_bytes, or send fewer or shorter values"},
}

// deny returns the response for a request that is too large to be decided: over the
// limit, without a status for any descriptor, and with nothing charged. It is not an
// error, because Envoy would then forward the request without any limit. In shadow mode,
// and with enforcement off, the request is allowed. The first request with each reason is
// logged.
func (h *Handler) deny(reason refusal) (*pb.RateLimitResponse, error) {
	h.stats.serviceErrors.Add(1)
	if h.rules.Load() == nil {
		return nil, errNoConfig
	}
	s := h.engine.ActiveConfig()
	resp := &pb.RateLimitResponse{OverallCode: pb.RateLimitResponse_OVER_LIMIT}
	if h.opts.Shadow || !isEnforced(s) {
		resp.OverallCode = pb.RateLimitResponse_OK
	}
	if h.warned[reason].CompareAndSwap(false, true) {
		h.opts.Log.Warn("rate limit request too large", "api", "envoy", "reason", refusalTexts[reason][0],
			"max_checks", s.MaxChecks(), "max_descriptors", maxDescriptors, "max_entries", maxEntries,
			"advice", refusalTexts[reason][1]+"; this warning is logged once")
	}
	return resp, nil
}
