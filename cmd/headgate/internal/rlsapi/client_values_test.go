package rlsapi_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	ratelimit "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/internal/testserver"
	"github.com/headgate/headgate/redisstore"
)

// rawCodec sends requests whose strings are not UTF-8, as Envoy does: it encodes without
// the protobuf library.
type rawCodec struct{ encoding.CodecV2 }

func (c rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	switch v := v.(type) {
	case *pb.RateLimitRequest:
		return mem.BufferSlice{mem.SliceBuffer(encode(v))}, nil
	case []byte: // a message that may be invalid
		return mem.BufferSlice{mem.SliceBuffer(v)}, nil
	}
	return c.CodecV2.Marshal(v)
}

// encode encodes a request. Strings may contain any bytes.
func encode(r *pb.RateLimitRequest) []byte {
	b := appendText(nil, 1, r.GetDomain())
	for _, d := range r.GetDescriptors() {
		var inner []byte
		for _, e := range d.GetEntries() {
			inner = appendText(inner, 1, string(appendText(appendText(nil, 1, e.GetKey()), 2, e.GetValue())))
		}
		if l := d.GetLimit(); l != nil {
			inner = appendText(inner, 2, string(appendNumber(appendNumber(nil, 1, uint64(l.GetRequestsPerUnit())), 2, uint64(l.GetUnit()))))
		}
		if d.GetHitsAddend() != nil {
			inner = appendText(inner, 3, string(appendNumber(nil, 1, d.GetHitsAddend().GetValue())))
		}
		if d.GetIsNegativeHits() {
			inner = appendNumber(inner, 4, 1)
		}
		b = appendText(b, 2, string(inner))
	}
	return appendNumber(b, 3, uint64(r.GetHitsAddend()))
}

func appendText(b []byte, field protowire.Number, s string) []byte {
	return protowire.AppendString(protowire.AppendTag(b, field, protowire.BytesType), s)
}

func appendNumber(b []byte, field protowire.Number, n uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(b, field, protowire.VarintType), n)
}

// rawClient serves h and returns the address and a client that sends any bytes.
func rawClient(t testing.TB, h *rlsapi.Handler) (addr string, c pb.RateLimitServiceClient) {
	t.Helper()
	addr, _ = serve(t, h, nil)
	return addr, pb.NewRateLimitServiceClient(connect(t, addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")}))))
}

// clientConfig has a rule for each way in which a value of a client can match. A window
// of a year practically never ends during a test.
const clientConfig = `
domain: d
descriptors:
  - key: address
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: user
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: path
    value: "/login*"
    share_threshold: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: agent
    value: "*x*y*"
    detailed_metric: true
    rate_limit: {unit: year, requests_per_unit: 2}
  - key: two
    rate_limit: {limits: ["2/24h", "3/48h"], algorithm: sliding_log}
  - key: deep
    descriptors: [{key: user, rate_limit: {unit: year, requests_per_unit: 2}}]
`

// descriptor returns a descriptor with the entries key, value, ….
func descriptor(entries ...string) *ratelimit.RateLimitDescriptor {
	return request("", entries...).Descriptors[0]
}

// clientChoices are requests that a client of Envoy can cause. The first descriptor of
// each has a limit of 2.
func clientChoices() map[string]*pb.RateLimitRequest {
	all := make(map[string]*pb.RateLimitRequest)
	add := func(name string, change func(r *pb.RateLimitRequest)) {
		r := request("d", "address", name)
		change(r)
		all[name] = r
	}
	also := func(name string, entries ...string) {
		add(name, func(r *pb.RateLimitRequest) { r.Descriptors = append(r.Descriptors, descriptor(entries...)) })
	}
	for _, n := range []int{1023, 1024, 1025, 8 << 10, 60 << 10, 1 << 20} {
		also(fmt.Sprintf("long: value of %d bytes", n), "user", strings.Repeat("v", n))
		also(fmt.Sprintf("long: value of %d bytes without a rule", n), "other", strings.Repeat("v", n))
		also(fmt.Sprintf("long: path of %d bytes", n), "path", "/login?"+strings.Repeat("x", n))
		also(fmt.Sprintf("long: metric name of %d bytes", n), "agent", strings.Repeat("x", n)+"y")
		also(fmt.Sprintf("long: key of %d bytes", n), strings.Repeat("k", n), "v")
	}
	for name, value := range map[string]string{"caf\xe9": "caf\xe9", "all bytes": allBytes(), "zeros": "\x00\x00", "surrogate": "\xed\xa0\x80", "half": "\xc3"} {
		also("binary: "+name, "user", value)
		also("binary: path, "+name, "path", "/login"+value)
		also("binary: metric, "+name, "agent", "x"+value+"y")
		also("binary: key, "+name, value, value)
	}
	add("binary: domain", func(r *pb.RateLimitRequest) {
		r.Domain, r.Descriptors = "d", append(r.Descriptors, descriptor("\xff", "\xff"))
	})
	for _, n := range []int{2, 17, 31} {
		add(fmt.Sprintf("many: %d rules of two limits", n), func(r *pb.RateLimitRequest) {
			for i := range n {
				r.Descriptors = append(r.Descriptors, descriptor("two", fmt.Sprint(n, i)))
			}
		})
	}
	for _, n := range []int{33, 65, 1000} {
		add(fmt.Sprintf("many: %d descriptors without a rule", n), func(r *pb.RateLimitRequest) {
			for range n {
				r.Descriptors = append(r.Descriptors, descriptor("other", "v"))
			}
		})
		add(fmt.Sprintf("many: %d entries", n), func(r *pb.RateLimitRequest) {
			r.Descriptors = append(r.Descriptors, descriptor(strings.Split(strings.Repeat("user,v,", n), ",")[:2*n]...))
		})
	}
	for _, hits := range []uint64{1, math.MaxInt32, math.MaxUint32, math.MaxInt64, math.MaxUint64} {
		add(fmt.Sprintf("malformed: %d hits", hits), func(r *pb.RateLimitRequest) {
			d := descriptor("user", fmt.Sprint(hits))
			d.HitsAddend = wrapperspb.UInt64(hits)
			r.Descriptors = append(r.Descriptors, d)
		})
	}
	for _, unit := range []typev3.RateLimitUnit{0, 8, -1, math.MaxInt32} {
		add(fmt.Sprintf("malformed: unit %d", unit), func(r *pb.RateLimitRequest) {
			r.Descriptors[0].Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: 1_000_000, Unit: unit}
		})
	}
	for unit := range typev3.RateLimitUnit(8) {
		for _, n := range []uint32{1, 1_000_000_000, math.MaxUint32} {
			add(fmt.Sprintf("malformed: limit %d, unit %d", n, unit), func(r *pb.RateLimitRequest) {
				d := descriptor("own", fmt.Sprint(n))
				d.Limit = &ratelimit.RateLimitDescriptor_RateLimitOverride{RequestsPerUnit: n, Unit: unit}
				r.Descriptors = append(r.Descriptors, d)
			})
		}
	}
	return all
}

func allBytes() string {
	var b []byte
	for i := range 256 {
		b = append(b, byte(i))
	}
	return string(b)
}

// TestClientInput: whatever a client of Envoy chooses, the limit of the first descriptor
// applies. An error would admit the request.
func TestClientInput(t *testing.T) {
	t.Parallel()
	for _, opts := range []*rlsapi.Options{{}, {Charge: rlsapi.Each}, {DynamicMetadata: true, Headers: &rlsapi.Headers{}}} {
		addr, c := rawClient(t, open(t, nil, clientConfig, opts))
		for _, kind := range []string{"long", "binary", "many", "malformed"} {
			t.Run(kind, func(t *testing.T) {
				for name, req := range clientChoices() {
					if strings.HasPrefix(name, kind) {
						requireOver(t, c, name, req)
					}
				}
			})
		}
		t.Run("slow", func(t *testing.T) {
			beginCall(t, addr)
			requireOver(t, c, "slow: another call is incomplete", request("d", "address", "slow"))
		})
	}
}

// TestClientInputOnRedis: the same choices with keys and limits that a Redis server
// stores.
func TestClientInputOnRedis(t *testing.T) {
	t.Parallel()
	for _, charge := range []rlsapi.ChargeMode{rlsapi.AllOrNone, rlsapi.Each} {
		store, err := redisstore.Open("redis://"+testserver.Redis(t).Addr(), &redisstore.Options{Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		_, c := rawClient(t, open(t, store, clientConfig, &rlsapi.Options{Charge: charge}))
		for name, req := range clientChoices() {
			requireOver(t, c, name, req)
		}
	}
}

// requireOver sends a request three times. The third must be over its limit.
func requireOver(t *testing.T, c pb.RateLimitServiceClient, name string, req *pb.RateLimitRequest) {
	t.Helper()
	for i := range 3 {
		resp, err := c.ShouldRateLimit(t.Context(), req)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		if len(resp.GetStatuses()) != len(req.GetDescriptors()) {
			t.Errorf("%s: got %d statuses want %d", name, len(resp.GetStatuses()), len(req.GetDescriptors()))
		}
		over := resp.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT
		if over != (i == 2) && (i == 2 || !strings.HasPrefix(name, "malformed") && !strings.Contains(name, "path")) {
			t.Errorf("%s: request %d: over its limit: %v want %v", name, i+1, over, i == 2)
		}
	}
}

// beginCall opens a connection and sends a call without its last bytes.
func beginCall(t *testing.T, addr string) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	const settings, headers, data, endHeaders = 4, 1, 0, 4
	var fields []byte
	for _, f := range [][2]string{
		{":method", "POST"},
		{":scheme", "http"},
		{":path", pb.RateLimitService_ShouldRateLimit_FullMethodName},
		{":authority", "h"},
		{"content-type", "application/grpc"},
		{"te", "trailers"},
	} {
		fields = append(append(fields, 0, byte(len(f[0]))), f[0]...)
		fields = append(append(fields, byte(len(f[1]))), f[1]...)
	}
	out := []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
	out = appendFrame(out, settings, 0, 0, nil)
	out = appendFrame(out, headers, endHeaders, 1, fields)
	out = appendFrame(out, data, 0, 1, []byte("\x00\x00\x00\x00\x64\x0a\x01d")) // 3 of 100 bytes
	if _, err := conn.Write(out); err != nil {
		t.Fatal(err)
	}
}

// appendFrame appends an HTTP/2 frame.
func appendFrame(b []byte, kind, flags byte, stream uint32, payload []byte) []byte {
	b = append(b, 0, byte(len(payload)>>8), byte(len(payload)), kind, flags)
	return append(binary.BigEndian.AppendUint32(b, stream), payload...)
}

// TestDifferentLongValuesHaveOwnCounters: two values that differ only in the last of many
// bytes, or in bytes that are not UTF-8, are counted separately.
func TestDifferentLongValuesHaveOwnCounters(t *testing.T) {
	t.Parallel()
	_, c := rawClient(t, open(t, nil, clientConfig, nil))
	long := strings.Repeat("v", 60<<10)
	for _, value := range []string{long + "a", long + "b", "\xfe", "\xff", "\uFFFD"} {
		for i := range 3 {
			resp, err := c.ShouldRateLimit(t.Context(), request("d", "user", value))
			want := []pb.RateLimitResponse_Code{1, 1, 2}[i]
			if err != nil || resp.GetOverallCode() != want {
				t.Errorf("%.5q…, request %d: got %v, error %v want %v", value, i+1, resp.GetOverallCode(), err, want)
			}
		}
	}
}

// TestRequestsTooLargeAreDenied: a request with more rules than max_checks, or with too
// many descriptors or entries, is denied. In shadow mode it is allowed.
func TestRequestsTooLargeAreDenied(t *testing.T) {
	t.Parallel()
	rules, descriptors, entries := &pb.RateLimitRequest{Domain: "d"}, &pb.RateLimitRequest{Domain: "d"}, &pb.RateLimitRequest{Domain: "d"}
	for i := range 33 {
		rules.Descriptors = append(rules.Descriptors, descriptor("user", fmt.Sprint("v", i)))
	}
	for range 1025 {
		descriptors.Descriptors = append(descriptors.Descriptors, descriptor("other", "v"))
		entries.Descriptors = append(entries.Descriptors, descriptor(strings.Split(strings.Repeat("a,b,", 16), ",")[:32]...))
	}
	entries.Descriptors = entries.Descriptors[:1024]
	entries.Descriptors[0].Entries = append(entries.Descriptors[0].Entries, &ratelimit.RateLimitDescriptor_Entry{Key: "one more"})
	for _, opts := range []*rlsapi.Options{{}, {Shadow: true}} {
		h := open(t, nil, clientConfig, opts)
		_, c := rawClient(t, h)
		want := pb.RateLimitResponse_OVER_LIMIT
		if opts.Shadow {
			want = pb.RateLimitResponse_OK
		}
		for name, req := range map[string]*pb.RateLimitRequest{"rules": rules, "descriptors": descriptors, "entries": entries} {
			if resp, err := c.ShouldRateLimit(t.Context(), req); err != nil || resp.GetOverallCode() != want {
				t.Errorf("shadow %v, too many %s: got %v, error %v want %v", opts.Shadow, name, resp.GetOverallCode(), err, want)
			}
		}
		if got := h.Stats().ServiceErrors; got != 3 {
			t.Errorf("got %d invalid requests want 3", got)
		}
		rules32 := &pb.RateLimitRequest{Domain: "d", Descriptors: rules.Descriptors[:32]}
		if resp, err := c.ShouldRateLimit(t.Context(), rules32); err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OK {
			t.Errorf("32 rules: got %v, error %v want OK", resp.GetOverallCode(), err)
		}
	}
}

// TestLongHeaders: Envoy may add fields with bytes of the client to the call, such as
// tracestate.
func TestLongHeaders(t *testing.T) {
	t.Parallel()
	_, c := rawClient(t, open(t, nil, clientConfig, nil))
	ctx := metadata.AppendToOutgoingContext(context.Background(), "tracestate", strings.Repeat("t", 60<<10))
	if _, err := c.ShouldRateLimit(ctx, request("d", "user", "v")); err != nil {
		t.Error(err)
	}
}
