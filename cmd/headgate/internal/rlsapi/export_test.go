package rlsapi

import (
	"context"
	"errors"
	"maps"
	"testing"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/protobuf/proto"
)

// NewCodec and ReadRequest export the codec for tests.
var (
	NewCodec    = newCodec
	ReadRequest = readRequest
)

// Memory returns the memory that the connections of a server hold, in bytes, and the
// number of connections that were closed to make room.
func Memory(s *Server) (bytes, closed int64) { return s.connections.Bytes(), s.connections.Closed() }

// ServeQuotas serves a stream of the rate limit quota service whose reports are encoded.
func (h *Handler) ServeQuotas(ctx context.Context, read func() ([]byte, error), write func(*quotapb.RateLimitQuotaResponse) error) error {
	decode := func() (*quotaReport, error) {
		b, err := read()
		if err != nil {
			return nil, err
		}
		return decodeReport(b)
	}
	return h.serveQuotas(ctx, nil, decode, write)
}

// CompareReport compares decodeReport with the protobuf library, for reports that both
// accept.
func CompareReport(t *testing.T, b []byte) {
	got, err := decodeReport(b)
	want := new(quotapb.RateLimitQuotaUsageReports)
	if wrong := proto.Unmarshal(b, want); wrong != nil || errors.Is(err, errLongReport) {
		return
	}
	if err != nil {
		t.Fatalf("the library decodes %v, got error %v", want, err)
	}
	if got.domain != want.GetDomain() || len(got.usages) != len(want.GetBucketQuotaUsages()) {
		t.Fatalf("got %+v want %v", got, want)
	}
	for i, u := range want.GetBucketQuotaUsages() {
		entries := make(map[string]string)
		for _, e := range got.usages[i].entries {
			entries[e.Key] = e.Value
		}
		if g := got.usages[i]; g.allowed != u.GetNumRequestsAllowed() || g.denied != u.GetNumRequestsDenied() || !maps.Equal(entries, u.GetBucketId().GetBucket()) {
			t.Errorf("usage %d: got %+v want %v", i, g, u)
		}
	}
}
