package rlsapi_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"strings"
	"testing"
	"time"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

const quotaConfig = `
domain: d
descriptors:
  - key: bucket
    rate_limit: {algorithm: token_bucket, limits: ["1000/1h"]}
  - key: outer
    descriptors: [{key: inner, rate_limit: {algorithm: token_bucket, limits: ["80/1h"]}}]
  - key: free
    rate_limit: {unlimited: true}
  - key: blocked
    rate_limit: {unit: hour, requests_per_unit: 0}
  - key: shadow
    shadow_mode: true
    rate_limit: {unit: hour, requests_per_unit: 10}
  - key: leaky
    rate_limit: {algorithm: leaky_bucket, limits: ["10/1s"]}
  - key: short
    rate_limit: {unit: second, requests_per_unit: 100}
`

type quotaClient = grpc.BidiStreamingClient[quotapb.RateLimitQuotaUsageReports, quotapb.RateLimitQuotaResponse]

func openQuotas(t *testing.T, addr string) quotaClient {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	s, err := quotapb.NewRateLimitQuotaServiceClient(connect(t, addr)).StreamRateLimitQuotas(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// usage returns the report of one bucket, with the entries key, value, ….
func usage(allowed, denied uint64, entries ...string) *quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage {
	id := make(map[string]string)
	for i := 0; i < len(entries); i += 2 {
		id[entries[i]] = entries[i+1]
	}
	return &quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage{BucketId: &quotapb.BucketId{Bucket: id}, NumRequestsAllowed: allowed, NumRequestsDenied: denied}
}

func reportOf(domain string, usages ...*quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage) *quotapb.RateLimitQuotaUsageReports {
	return &quotapb.RateLimitQuotaUsageReports{Domain: domain, BucketQuotaUsages: usages}
}

// ask sends a report and returns the actions of the response, by the id of the bucket.
func ask(t *testing.T, s quotaClient, r *quotapb.RateLimitQuotaUsageReports) map[string]string {
	t.Helper()
	if err := s.Send(r); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	actions := make(map[string]string)
	for _, a := range resp.GetBucketAction() {
		name := fmt.Sprint(a.GetBucketId().GetBucket())
		if actions[name] != "" {
			t.Errorf("the response has two actions for %s", name)
		}
		actions[name] = describe(a)
	}
	return actions
}

func describe(a *quotapb.RateLimitQuotaResponse_BucketAction) string {
	if a.GetAbandonAction() != nil {
		return "abandon"
	}
	q := a.GetQuotaAssignmentAction()
	if bucket := q.GetRateLimitStrategy().GetTokenBucket(); bucket != nil {
		if bucket.GetTokensPerFill().GetValue() != 1 || bucket.GetFillInterval().GetSeconds() != 365*24*60*60 {
			return "tokens that refill"
		}
		return fmt.Sprintf("%d tokens for %v", bucket.GetMaxTokens(), q.GetAssignmentTimeToLive().AsDuration())
	}
	return fmt.Sprintf("%v for %v", q.GetRateLimitStrategy().GetBlanketRule(), q.GetAssignmentTimeToLive().AsDuration())
}

// Each kind of rule leads to its kind of assignment. The order of entries is irrelevant.
func TestQuotaAssignments(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	addr, _ := serve(t, h, nil)
	s := openQuotas(t, addr)
	got := ask(t, s, reportOf("d",
		usage(0, 1, "bucket", "a"), usage(0, 1, "bucket", "b"), usage(0, 1, "inner", "v", "outer", "v"), usage(1, 0, "free", "v"),
		usage(0, 1, "blocked", "v"), usage(1, 0, "shadow", "v"), usage(1, 0, "unknown", "v"), usage(1, 0, "bucket", "a", "more", "v"),
		usage(0, 1, "leaky", "v"), usage(0, 1, "short", "v"), usage(0, 5, "bucket", "b"),
	))
	want := map[string]string{
		"map[bucket:a]": "125 tokens for 9s", "map[bucket:b]": "125 tokens for 9s", "map[inner:v outer:v]": "10 tokens for 9s",
		"map[free:v]": "ALLOW_ALL for 10s", "map[blocked:v]": "DENY_ALL for 10s", "map[shadow:v]": "ALLOW_ALL for 10s",
		"map[unknown:v]": "ALLOW_ALL for 10s", "map[bucket:a more:v]": "ALLOW_ALL for 10s",
		"map[leaky:v]": "DENY_ALL for 10s", "map[short:v]": "DENY_ALL for 10s",
	}
	if !maps.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
	stats := h.Stats()
	if q := stats.Quotas; q.Streams != 1 || q.Buckets != int64(len(want)) || q.Assignments["tokens"] != 3 || q.Assignments["deny_all"] != 3 || q.Assignments["allow_all"] != 4 {
		t.Errorf("got counts %+v", q)
	}
	if c := stats.Rules["d.bucket"]; c.TotalHits != 7 || c.OverLimit != 7 {
		t.Errorf("hits of the bucket: got %+v want 7 above the limit", c)
	}
	// The units on lease are spent for the rate limit service.
	r := request("d", "outer", "v", "inner", "v")
	r.HitsAddend = 71
	resp, err := h.ShouldRateLimit(t.Context(), r)
	if err != nil || resp.GetOverallCode() != pb.RateLimitResponse_OVER_LIMIT {
		t.Errorf("71 hits while 10 of 80 units are on lease: got %v, error %v want OVER_LIMIT", resp, err)
	}
}

// What the client has not spent is available to others after its report.
func TestQuotaUsage(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	addr, _ := serve(t, h, nil)
	s := openQuotas(t, addr)
	first := ask(t, s, reportOf("d", usage(0, 1, "bucket", "a")))
	second := ask(t, s, reportOf("", usage(3, 0, "bucket", "a")))
	if first["map[bucket:a]"] != second["map[bucket:a]"] {
		t.Errorf("after 3 of 125 tokens: got %v, want the same assignment %v", second, first)
	}
	// A further grant is a different assignment, also if it has as many tokens.
	if err := s.Send(reportOf("", usage(120, 0, "bucket", "a"))); err != nil {
		t.Fatal(err)
	}
	resp, err := s.Recv()
	if err != nil {
		t.Fatal(err)
	}
	fill := resp.GetBucketAction()[0].GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket().GetFillInterval()
	if nanos := fill.GetNanos(); nanos == 0 {
		t.Errorf("after 123 of 125 tokens: got %v want a different fill interval", resp)
	}
	if c := h.Stats().Rules["d.bucket"]; c.WithinLimit != 123 || c.OverLimit != 1 {
		t.Errorf("hits: got %+v want 3 within the limit and 1 above", c)
	}
}

// Enforcement off and shadow mode allow everything.
func TestQuotaShadow(t *testing.T) {
	t.Parallel()
	store := memstore.New(nil)
	e, err := engine.New(store, &engine.Options{Enforcement: engine.Off})
	if err != nil {
		t.Fatal(err)
	}
	off := mustHandler(t, e, nil)
	if err := off.Apply(mustConfig(t, quotaConfig)); err != nil {
		t.Fatal(err)
	}
	for name, h := range map[string]*rlsapi.Handler{"off": off, "shadow": open(t, nil, quotaConfig, &rlsapi.Options{Shadow: true})} {
		addr, _ := serve(t, h, nil)
		got := ask(t, openQuotas(t, addr), reportOf("d", usage(0, 1, "bucket", "a"), usage(0, 1, "blocked", "a")))
		for id, action := range got {
			if action != "ALLOW_ALL for 10s" {
				t.Errorf("%s: %s: got %s want ALLOW_ALL", name, id, action)
			}
		}
	}
}

// An invalid report ends its stream with the reason and what to do.
func TestInvalidQuotaReports(t *testing.T) {
	t.Parallel()
	ok := usage(0, 1, "bucket", "a")
	negative := usage(0, 1, "bucket", "a")
	negative.TimeElapsed = durationpb.New(-time.Second)
	long := usage(0, 1, "bucket", strings.Repeat("v", 20<<10))
	for name, c := range map[string]struct {
		reports []*quotapb.RateLimitQuotaUsageReports
		code    codes.Code
		text    string
	}{
		"no domain":         {[]*quotapb.RateLimitQuotaUsageReports{reportOf("", ok)}, codes.InvalidArgument, "set domain"},
		"unknown domain":    {[]*quotapb.RateLimitQuotaUsageReports{reportOf("other", ok)}, codes.NotFound, `domain "other" is not configured`},
		"another domain":    {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", ok), reportOf("e", ok)}, codes.InvalidArgument, "open another stream"},
		"no bucket":         {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", usage(0, 1))}, codes.InvalidArgument, "bucket_id is empty"},
		"allowed below 0":   {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", usage(math.MaxUint64, 0, "bucket", "a"))}, codes.InvalidArgument, "num_requests_allowed is 18446744073709551615; must be at most"},
		"denied below 0":    {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", usage(0, 1<<63, "bucket", "a"))}, codes.InvalidArgument, "num_requests_denied"},
		"negative time":     {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", negative)}, codes.InvalidArgument, "time_elapsed is negative"},
		"too many bytes":    {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", long, long)}, codes.ResourceExhausted, "increase grpc.max_message_bytes"},
		"valid, then wrong": {[]*quotapb.RateLimitQuotaUsageReports{reportOf("d", ok, long), reportOf("d", usage(0, 1))}, codes.InvalidArgument, "bucket_id is empty"},
	} {
		h := open(t, nil, quotaConfig, nil)
		addr, _ := serve(t, h, &rlsapi.ServerOptions{MaxMessageBytes: 30 << 10})
		s := openQuotas(t, addr)
		for i, r := range c.reports {
			if err := s.Send(r); err != nil {
				t.Fatal(err)
			}
			if i < len(c.reports)-1 {
				if _, err := s.Recv(); err != nil {
					t.Fatal(err)
				}
			}
		}
		_, err := s.Recv()
		if status.Code(err) != c.code || !strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: got error %v want %v with %q", name, err, c.code, c.text)
		}
		if stats := h.Stats(); stats.ServiceErrors != 1 {
			t.Errorf("%s: %d errors were counted, want 1", name, stats.ServiceErrors)
		}
	}
	addr, _ := serve(t, open(t, nil, "", nil), nil)
	s := openQuotas(t, addr)
	if err := s.Send(reportOf("d", ok)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("without a configuration: got error %v want Unavailable", err)
	}
}

// Bytes that are not a report end the stream. A bucket whose id is not UTF-8 gets no
// assignment, and the other buckets do.
func TestBinaryQuotaReports(t *testing.T) {
	t.Parallel()
	addr, _ := serve(t, open(t, nil, quotaConfig, nil), nil)
	raw := connect(t, addr, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{encoding.GetCodecV2("proto")})))
	send := func(b []byte) (*quotapb.RateLimitQuotaResponse, error) {
		ctx, cancel := context.WithCancel(t.Context())
		t.Cleanup(cancel)
		s, err := raw.NewStream(ctx, &quotapb.RateLimitQuotaService_ServiceDesc.Streams[0], quotapb.RateLimitQuotaService_StreamRateLimitQuotas_FullMethodName)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.SendMsg(b); err != nil && err != io.EOF {
			t.Fatal(err)
		}
		resp := new(quotapb.RateLimitQuotaResponse)
		return resp, s.RecvMsg(resp)
	}
	if _, err := send([]byte{10, 200}); status.Code(err) != codes.InvalidArgument {
		t.Errorf("a message that is cut off: got error %v want InvalidArgument", err)
	}
	bucket := func(value string) string {
		entry := appendText(appendText(nil, 1, "bucket"), 2, value)
		return string(appendText(nil, 1, string(appendText(nil, 1, string(entry)))))
	}
	resp, err := send(appendText(appendText(appendText(nil, 1, "d"), 2, bucket("caf\xe9")), 2, bucket("plain")))
	if err != nil || len(resp.GetBucketAction()) != 1 || resp.GetBucketAction()[0].GetBucketId().GetBucket()["bucket"] != "plain" {
		t.Errorf("got %v, error %v want an assignment of the bucket that is text", resp, err)
	}
}

// A shutdown ends the streams.
func TestShutdownEndsQuotaStreams(t *testing.T) {
	t.Parallel()
	addr, server := serve(t, open(t, nil, quotaConfig, nil), nil)
	s := openQuotas(t, addr)
	ask(t, s, reportOf("d", usage(0, 1, "bucket", "a")))
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := s.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("got error %v want Unavailable", err)
	}
}

// Under a rule that cannot be assigned, and with a store without leases, a warning names
// what to do.
func TestUnsupportedQuotas(t *testing.T) {
	t.Parallel()
	log := quotaWarnings(t, withoutLeases{memstore.New(nil)}, usage(0, 1, "bucket", "a"), usage(0, 1, "bucket", "b"))
	if n := strings.Count(log, "rate limit quota cannot be assigned"); n != 1 || !strings.Contains(log, "rule=d.bucket") {
		t.Errorf("got log %s want one warning", log)
	}
}

// The warning is logged once for each rule. A window that is too short is a reason.
func TestShortWindowsAreReported(t *testing.T) {
	t.Parallel()
	log := quotaWarnings(t, nil, usage(0, 1, "short", "a"), usage(0, 1, "short", "b"), usage(0, 1, "leaky", "a"))
	for _, warning := range []string{`rule=d.short error="the window is 1s; must be at least 1.263s`, "rule=d.leaky"} {
		if n := strings.Count(log, warning); n != 1 {
			t.Errorf("got %d warnings with %s, want 1, in the log %s", n, warning, log)
		}
	}
}

// quotaWarnings reports the usages twice, and returns the log. All buckets must be
// denied.
func quotaWarnings(t *testing.T, store headgate.Store, usages ...*quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage) string {
	t.Helper()
	var log bytes.Buffer
	h := open(t, store, quotaConfig, &rlsapi.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	addr, server := serve(t, h, nil)
	s := openQuotas(t, addr)
	for range 2 {
		for id, action := range ask(t, s, reportOf("d", usages...)) {
			if action != "DENY_ALL for 10s" {
				t.Errorf("%s: got %s want DENY_ALL", id, action)
			}
		}
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	return log.String()
}

// After a reload, the warning is logged again.
func TestReloadRepeatsQuotaWarning(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	h := open(t, nil, quotaConfig, &rlsapi.Options{Log: slog.New(slog.NewTextHandler(&log, nil))})
	addr, server := serve(t, h, nil)
	ask(t, openQuotas(t, addr), reportOf("d", usage(0, 1, "short", "a")))
	if err := h.Apply(mustConfig(t, quotaConfig)); err != nil {
		t.Fatal(err)
	}
	ask(t, openQuotas(t, addr), reportOf("d", usage(0, 1, "short", "a")))
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if n := strings.Count(log.String(), "rule=d.short"); n != 2 {
		t.Errorf("got %d warnings want one before the reload and one after it, in the log %s", n, log.String())
	}
}

type withoutLeases struct{ headgate.Store }

func FuzzQuotaReport(f *testing.F) {
	valid, err := encoding.GetCodecV2("proto").Marshal(reportOf("d", usage(1, 2, "bucket", "a"), usage(0, 1, "free", "v", "a", "b")))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid.Materialize())
	f.Add([]byte{10, 1, 'd', 18, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		rlsapi.CompareReport(t, b)
		store := memstore.New(nil)
		defer store.Close()
		h := open(t, store, quotaConfig, nil)
		sent := 0
		read := func() ([]byte, error) {
			if sent++; sent > 2 {
				return nil, io.EOF
			}
			return b, nil
		}
		write := func(r *quotapb.RateLimitQuotaResponse) error {
			for _, a := range r.GetBucketAction() {
				if tokens := a.GetQuotaAssignmentAction().GetRateLimitStrategy().GetTokenBucket(); tokens != nil && tokens.GetMaxTokens() > 1000 {
					t.Errorf("%d tokens of a limit of 1000", tokens.GetMaxTokens())
				}
			}
			_, err := encoding.GetCodecV2("proto").Marshal(r)
			return err
		}
		if err := h.ServeQuotas(t.Context(), read, write); err != nil && status.Code(err) == codes.Unknown {
			t.Errorf("the stream ended with %v, want a status", err)
		}
		if q := h.Stats().Quotas; q.Streams != 0 || q.Buckets != 0 {
			t.Errorf("after the stream: %+v", q)
		}
	})
}
