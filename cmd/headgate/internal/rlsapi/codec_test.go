package rlsapi_test

import (
	"math"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// requests returns requests of every kind: plain ones, which the codec decodes, and
// others.
func requests() (plain, others []*pb.RateLimitRequest) {
	two := request("d", "k", "v", "k2", "v2", "k3", "v3")
	two.Descriptors = append(two.Descriptors, request("d", "a", "b").Descriptors[0], &ratelimit.RateLimitDescriptor{})
	two.HitsAddend = math.MaxUint32
	long := request(strings.Repeat("d", 1000), "k", strings.Repeat("é", 500))
	own, hits, negative, other := request("d", "k", "v"), request("d", "k", "v"), request("d", "k", "v"), request("d", "k", "v")
	own.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 5, Unit: 2}
	hits.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	negative.Descriptors[0].IsNegativeHits = true
	other.ProtoReflect().SetUnknown([]byte{0x7a, 1, 'x'})
	return []*pb.RateLimitRequest{{}, request("d", "k", "v"), request("d"), request("", "", ""), two, long},
		[]*pb.RateLimitRequest{own, hits, negative, other}
}

// TestCodecReads: the codec decodes a request like the library.
func TestCodecReads(t *testing.T) {
	t.Parallel()
	plain, others := requests()
	for i, req := range append(plain, others...) {
		body, err := proto.Marshal(req)
		if err != nil {
			t.Fatal(err)
		}
		got := new(pb.RateLimitRequest)
		if read := rlsapi.ReadRequest(string(body), new(pb.RateLimitRequest)); read != (i < len(plain)) {
			t.Errorf("%v: is read here: %v", req, read)
		}
		// in several buffers
		half := len(body) / 2
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body[:half]), mem.SliceBuffer(body[half:])}, got); err != nil || !proto.Equal(got, req) {
			t.Errorf("got %v, error %v want %v", got, err, req)
		}
	}
	for _, body := range []string{"\x0a", "\x0a\x05abc", "\x0a\x01\xff", "\x12\x03\x0a\x05a", "\x18", "\x00\x00", "\x12\x05\x0a\x03\x0a\x01\xff"} {
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body)}, new(pb.RateLimitRequest)); err == nil {
			t.Errorf("%q: got no error", body)
		}
	}
}

// TestCodecLeavesManyDescriptors: the library decodes requests with many descriptors. The
// codec would allocate entries for each, even for empty ones.
func TestCodecLeavesManyDescriptors(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]bool{64: true, 65: false, 32_000: false} {
		body := strings.Repeat("\x12\x00", n)
		if read := rlsapi.ReadRequest(body, new(pb.RateLimitRequest)); read != want {
			t.Errorf("%d descriptors are read here: %v, want %v", n, read, want)
		}
		got := new(pb.RateLimitRequest)
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body)}, got); err != nil || len(got.GetDescriptors()) != n {
			t.Errorf("got %d descriptors, error %v want %d", len(got.GetDescriptors()), err, n)
		}
	}
}

// TestCodecWrites: the library decodes what the codec encodes.
func TestCodecWrites(t *testing.T) {
	t.Parallel()
	status := func(name string, left uint32) *pb.RateLimitResponse_DescriptorStatus {
		return &pb.RateLimitResponse_DescriptorStatus{
			Code: pb.RateLimitResponse_OVER_LIMIT, LimitRemaining: left, DurationUntilReset: &durationpb.Duration{Seconds: math.MaxInt32, Nanos: 999_999_999},
			CurrentLimit: &pb.RateLimitResponse_RateLimit{Name: name, RequestsPerUnit: math.MaxUint32, Unit: 7},
		}
	}
	many := &pb.RateLimitResponse{OverallCode: 1}
	for i := range 32 {
		many.Statuses = append(many.Statuses, status(strings.Repeat("n", 10*i), uint32(i)))
	}
	for _, resp := range []*pb.RateLimitResponse{
		{},
		{OverallCode: pb.RateLimitResponse_OK, Statuses: []*pb.RateLimitResponse_DescriptorStatus{{Code: 1}, {}, status("", 0)}},
		many,
		{Statuses: []*pb.RateLimitResponse_DescriptorStatus{status(strings.Repeat("n", 20_000), 1)}},
		{OverallCode: 1, DynamicMetadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": structpb.NewBoolValue(true)}}},
	} {
		got, data := new(pb.RateLimitResponse), must(rlsapi.NewCodec().Marshal(resp))
		if err := proto.Unmarshal(data.Materialize(), got); err != nil || !proto.Equal(got, resp) {
			t.Errorf("got %v, error %v want %v", got, err, resp)
		}
	}
	check := &grpc_health_v1.HealthCheckRequest{Service: "x"}
	got, data := new(grpc_health_v1.HealthCheckRequest), must(rlsapi.NewCodec().Marshal(check))
	if err := rlsapi.NewCodec().Unmarshal(data, got); err != nil || !proto.Equal(got, check) {
		t.Errorf("another service's message: got %v, error %v", got, err)
	}
}

func must(data mem.BufferSlice, err error) mem.BufferSlice {
	if err != nil {
		panic(err)
	}
	return data
}

// FuzzCodec compares the codec with the library.
func FuzzCodec(f *testing.F) {
	plain, others := requests()
	for _, req := range append(plain, others...) {
		body, err := proto.Marshal(req)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		got, want := new(pb.RateLimitRequest), new(pb.RateLimitRequest)
		if !rlsapi.ReadRequest(string(body), got) {
			return
		}
		if err := proto.Unmarshal(body, want); err != nil || !proto.Equal(got, want) {
			t.Errorf("%x: got %v want %v, error %v", body, got, want, err)
		}
	})
}
