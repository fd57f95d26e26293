package rlsapi_test

import (
	"testing"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// BenchmarkShouldRateLimit measures one request without transport.
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

// BenchmarkWire measures decoding a request and encoding a response alone.
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
	codec, data := rlsapi.NewCodec(), mem.BufferSlice{mem.SliceBuffer(body)}
	b.ReportAllocs()
	for b.Loop() {
		if err := codec.Unmarshal(data, new(pb.RateLimitRequest)); err != nil {
			b.Fatal(err)
		}
		if _, err := codec.Marshal(resp); err != nil {
			b.Fatal(err)
		}
	}
}
