package rlsapi

import (
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// ServeJSON serves the path /json of envoyproxy/ratelimit: a RateLimitRequest and its
// RateLimitResponse, both as JSON. The status is 200, or 429 if the request is over its
// limits. It is 400 for every error, including a body that is too long or incomplete;
// with [Options].Unavailable503, it is 503 if the store is unavailable.
func (h *Handler) ServeJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.MaxBodyBytes)))
	req := new(pb.RateLimitRequest)
	if err != nil || protojson.Unmarshal(body, req) != nil {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	resp, err := h.ShouldRateLimit(r.Context(), req)
	switch {
	case h.opts.Unavailable503 && status.Code(err) == codes.Unavailable:
		http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
	case err != nil:
		http.Error(w, "Bad Request", http.StatusBadRequest)
	default:
		writeJSON(w, resp)
	}
}

func writeJSON(w http.ResponseWriter, resp *pb.RateLimitResponse) {
	body, err := protojson.Marshal(resp)
	if err != nil {
		http.Error(w, "Internal Server Error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if resp.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT {
		w.WriteHeader(http.StatusTooManyRequests)
	}
	_, _ = w.Write(body) // fails only if the client has disconnected
}

// ServeHealth serves the path /healthcheck of envoyproxy/ratelimit: status 200 with the
// body OK, or status 500 without a body.
func (h *Handler) ServeHealth(w http.ResponseWriter, _ *http.Request) {
	if !h.Healthy() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "OK") // fails only if the client has disconnected
}
