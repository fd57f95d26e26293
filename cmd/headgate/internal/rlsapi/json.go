package rlsapi

import (
	"io"
	"net/http"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
)

// ServeJSON answers envoyproxy/ratelimit's /json: a RateLimitRequest as JSON, and its answer. The status is 200, 429 if it is over the
// limit, or 400 for everything that is wrong, a body that is too long or cut short as well.
func (h *Handler) ServeJSON(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, int64(h.opts.MaxBodyBytes)))
	req := new(pb.RateLimitRequest)
	if err != nil || protojson.Unmarshal(body, req) != nil {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	resp, err := h.ShouldRateLimit(r.Context(), req)
	if h.opts.Unavailable503 && status.Code(err) == codes.Unavailable {
		http.Error(w, "Service Unavailable", http.StatusServiceUnavailable)
		return
	}
	if err != nil {
		http.Error(w, "Bad Request", http.StatusBadRequest)
		return
	}
	writeJSON(w, resp)
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
	_, _ = w.Write(body) // the client is gone, if this fails
}

// ServeHealth answers envoyproxy/ratelimit's /healthcheck: 200 and OK, or 500 and nothing.
func (h *Handler) ServeHealth(w http.ResponseWriter, _ *http.Request) {
	if !h.Healthy() {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = io.WriteString(w, "OK") // the client is gone, if this fails
}
