package rlsapi_test

import (
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/proto"
)

// BenchmarkShouldRateLimit is one request without its transport.
func BenchmarkShouldRateLimit(b *testing.B) {
	h := open(b, nil, benchConfig, nil)
	req := request("bench", "tenant", "acme")
	b.ReportAllocs()
	for b.Loop() {
		if _, err := h.ShouldRateLimit(b.Context(), req); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkWire is what reading a request and writing an answer take by themselves.
func BenchmarkWire(b *testing.B) {
	h := open(b, nil, benchConfig, nil)
	req := request("bench", "tenant", "acme")
	body, err := proto.Marshal(req)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := h.ShouldRateLimit(b.Context(), req)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := proto.Unmarshal(body, new(pb.RateLimitRequest)); err != nil {
			b.Fatal(err)
		}
		if _, err := proto.Marshal(resp); err != nil {
			b.Fatal(err)
		}
	}
}
