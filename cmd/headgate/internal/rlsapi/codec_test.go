package rlsapi_test

import (
	"math"
	"strings"
	"testing"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
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
			t.Errorf("%v: is read by readRequest: %v", req, read)
		}
		req.ProtoReflect().SetUnknown(nil)
		// in several buffers
		half := len(body) / 2
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body[:half]), mem.SliceBuffer(body[half:])}, got); err != nil || !proto.Equal(got, req) {
			t.Errorf("got %v, error %v want %v", got, err, req)
		}
	}
	for _, body := range []string{"\x0a", "\x0a\x05abc", "\x12\x03\x0a\x05a", "\x18", "\x00\x00", "\x12\x02\x0a\x05", "\x0c", "\x0b", "\x80\x80\x80\x80\x10\x00"} {
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body)}, new(pb.RateLimitRequest)); err == nil {
			t.Errorf("%q: got no error", body)
		}
	}
}

// TestCodecBoundsMemory: a request with very many descriptors or entries is decoded only
// as far as is necessary to deny it. readRequest, which allocates room for entries with
// each descriptor, does not decode it.
func TestCodecBoundsMemory(t *testing.T) {
	t.Parallel()
	text := func(tag byte, inner string) string { return string(protowire.AppendString([]byte{tag}, inner)) }
	for _, c := range []struct {
		name              string
		body              string
		read              bool
		descriptors, most int // number of descriptors, and of entries
	}{
		{"64 descriptors", strings.Repeat("\x12\x00", 64), true, 64, 0},
		{"65 descriptors", strings.Repeat("\x12\x00", 65), false, 65, 0},
		{"2 Mi descriptors", strings.Repeat("\x12\x00", 2<<20), false, 1025, 0},
		{"64 entries", text(0x12, strings.Repeat("\x0a\x00", 64)), true, 1, 64},
		{"65 entries", text(0x12, strings.Repeat("\x0a\x00", 65)), false, 1, 65},
		{"2 Mi entries", text(0x12, strings.Repeat("\x0a\x00", 2<<20)), false, 1, 16385},
		{"entries of many descriptors", strings.Repeat(text(0x12, strings.Repeat("\x0a\x00", 1000)), 1000), false, 17, 16385},
	} {
		if read := rlsapi.ReadRequest(c.body, new(pb.RateLimitRequest)); read != c.read {
			t.Errorf("%s: is read by readRequest: %v want %v", c.name, read, c.read)
		}
		got, entries := new(pb.RateLimitRequest), 0
		err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(c.body)}, got)
		for _, d := range got.GetDescriptors() {
			entries += len(d.GetEntries())
		}
		if err != nil || len(got.GetDescriptors()) != c.descriptors || entries != c.most {
			t.Errorf("%s: got %d descriptors, %d entries, error %v want %d and %d", c.name, len(got.GetDescriptors()), entries, err, c.descriptors, c.most)
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

// FuzzCodec compares the codec with the library, except for strings that are not UTF-8.
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
		want := new(pb.RateLimitRequest)
		wantErr := proto.UnmarshalOptions{DiscardUnknown: true}.Unmarshal(body, want)
		isText := wantErr == nil || !strings.Contains(wantErr.Error(), "invalid UTF-8")
		got := new(pb.RateLimitRequest)
		if err := rlsapi.NewCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(body)}, got); isText && (err == nil) != (wantErr == nil) {
			t.Errorf("%x: got error %v want %v", body, err, wantErr)
		}
		if wantErr == nil && len(body) < 2<<10 && !proto.Equal(got, want) {
			t.Errorf("%x: got %v want %v", body, got, want)
		}
		if fast := new(pb.RateLimitRequest); wantErr == nil && rlsapi.ReadRequest(string(body), fast) && !proto.Equal(fast, want) {
			t.Errorf("%x: readRequest: got %v want %v", body, fast, want)
		}
	})
}
