package rlsapi_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
)

// A stream has a maximum number of buckets. Further ones are abandoned.
func TestTooManyQuotaBuckets(t *testing.T) {
	t.Parallel()
	const most = 4096
	h := open(t, nil, quotaConfig, nil)
	addr, _ := serve(t, h, nil)
	s := openQuotas(t, addr)
	var all []*quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage
	for i := range most + 3 {
		all = append(all, usage(1, 0, "free", fmt.Sprint(i)))
	}
	if err := s.Send(reportOf("d", all...)); err != nil {
		t.Fatal(err)
	}
	actions := make(map[string]int)
	for n := 0; n < len(all); {
		resp, err := s.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range resp.GetBucketAction() {
			actions[describe(a)]++
			n++
		}
	}
	if actions["abandon"] != 3 || actions["ALLOW_ALL for 10s"] != most {
		t.Errorf("got %v want 3 abandoned buckets", actions)
	}
	if got := h.Stats().Quotas.Buckets; got != most {
		t.Errorf("%d buckets are open, want %d", got, most)
	}
}

// The memory of all buckets is bounded. Further ones are abandoned.
func TestQuotaBucketMemory(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	sent, actions := 0, make(map[string]int)
	read := func() ([]byte, error) {
		if sent++; sent > 80 {
			return nil, io.EOF
		}
		return proto.Marshal(reportOf("d", usage(1, 0, "free", fmt.Sprint(sent)+strings.Repeat("v", 1<<20))))
	}
	write := func(r *quotapb.RateLimitQuotaResponse) error {
		for _, a := range r.GetBucketAction() {
			actions[describe(a)]++
		}
		return nil
	}
	if err := h.ServeQuotas(t.Context(), read, write); err != nil {
		t.Fatal(err)
	}
	if actions["abandon"] < 40 || actions["ALLOW_ALL for 10s"] < 20 {
		t.Errorf("80 buckets of 1 MiB: got %v want those above 64 MiB abandoned", actions)
	}
	if q := h.Stats().Quotas; q.Buckets != 0 {
		t.Errorf("after the stream: %+v", q)
	}
	sent = 79
	if clear(actions); h.ServeQuotas(t.Context(), read, write) != nil || actions["ALLOW_ALL for 10s"] != 1 {
		t.Errorf("after the stream, the memory is free: got %v want a bucket", actions)
	}
}

// Buckets above the maximum are not created, not even while a report is processed.
func TestQuotaBucketsOfOneReport(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	var all []*quotapb.RateLimitQuotaUsageReports_BucketQuotaUsage
	for i := range 8192 {
		all = append(all, usage(1, 0, "free", fmt.Sprint(i)))
	}
	report, err := proto.Marshal(reportOf("d", all...))
	if err != nil {
		t.Fatal(err)
	}
	sent, most := 0, int64(0)
	read := func() ([]byte, error) {
		if sent++; sent > 1 {
			return nil, io.EOF
		}
		return report, nil
	}
	write := func(*quotapb.RateLimitQuotaResponse) error {
		most = max(most, h.Stats().Quotas.Buckets)
		return nil
	}
	if err := h.ServeQuotas(t.Context(), read, write); err != nil {
		t.Fatal(err)
	}
	if a := h.Stats().Quotas.Assignments; most != 4096 || a["abandon"] != 4096 || a["allow_all"] != 4096 {
		t.Errorf("a report of 8,192 buckets: got %d buckets and assignments %v want 4,096 buckets", most, a)
	}
	if c := h.Stats().Rules["d.free"]; c.TotalHits != 8192 {
		t.Errorf("got %d hits, want those of all buckets", c.TotalHits)
	}
}

// A report with more buckets or entries than any stream needs ends the stream.
func TestLongQuotaReports(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	empty := string(appendText(nil, 2, ""))
	entry := string(appendText(nil, 1, ""))
	id := func(entries int) string { return string(appendText(nil, 1, strings.Repeat(entry, entries))) }
	for name, body := range map[string]string{
		"8,193 buckets":         strings.Repeat(empty, 8193),
		"65,537 entries":        string(appendText(nil, 2, id(65537))),
		"9 entries of a bucket": strings.Repeat(string(appendText(nil, 2, id(9))), 8000),
	} {
		sent := 0
		read := func() ([]byte, error) {
			if sent++; sent > 1 {
				return nil, io.EOF
			}
			return append(appendText(nil, 1, "d"), body...), nil
		}
		err := h.ServeQuotas(t.Context(), read, func(*quotapb.RateLimitQuotaResponse) error { return nil })
		if status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "use fewer buckets") {
			t.Errorf("%s: got error %v want ResourceExhausted", name, err)
		}
	}
}

// The number of streams is bounded. Streams that have ended do not count.
func TestTooManyQuotaStreams(t *testing.T) {
	t.Parallel()
	h := open(t, nil, quotaConfig, nil)
	addr, _ := serve(t, h, &rlsapi.ServerOptions{MaxStreams: 2000})
	conn := connect(t, addr)
	stream := func(ctx context.Context) error {
		s, err := quotapb.NewRateLimitQuotaServiceClient(conn).StreamRateLimitQuotas(ctx)
		if err != nil {
			t.Fatal(err)
		}
		_ = s.Send(reportOf("d", usage(0, 1, "free", "a"))) // Recv returns the error
		_, err = s.Recv()
		return err
	}
	ctx, cancel := context.WithCancel(t.Context())
	for range 1024 {
		if err := stream(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := stream(t.Context()); status.Code(err) != codes.ResourceExhausted || !strings.Contains(err.Error(), "use another instance") {
		t.Errorf("one stream too many: got error %v want ResourceExhausted", err)
	}
	cancel()
	eventually(t, "the streams have ended", func() bool { return h.Stats().Quotas.Streams == 0 })
	if err := stream(t.Context()); err != nil {
		t.Errorf("after the others have ended: %v", err)
	}
}

// The memory of a stream does not grow with the number of its reports.
func TestQuotaStreamMemory(t *testing.T) {
	t.Parallel()
	addr, server := serve(t, open(t, nil, quotaConfig, nil), nil)
	s := openQuotas(t, addr)
	r := reportOf("d", usage(0, 1, "free", strings.Repeat("v", 10<<10)))
	ask(t, s, r)
	ask(t, s, r)
	ask(t, s, r)
	before, _ := rlsapi.Memory(server)
	for range 100 {
		ask(t, s, r)
	}
	if after, _ := rlsapi.Memory(server); after > before+100<<10 {
		t.Errorf("100 reports of 10 KiB: the memory grew from %d to %d", before, after)
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}
