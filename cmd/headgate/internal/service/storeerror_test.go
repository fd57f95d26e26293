package service_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	common "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/storeopen"
	"github.com/headgate/headgate/internal/testserver"
)

var outage = flag.Duration("outage", 500*time.Millisecond, "how long Redis is away")

// Results of a check while the store is unavailable.
const (
	allowed   = "allowed"
	denied    = "denied"
	undecided = "undecided"
)

var modes = []headgate.OnStoreError{headgate.FailClosed, headgate.FailOpen, headgate.FailLocal}

// verdicts returns a function for each API. It checks one unit with the policy of a mode.
func (d *apis) verdicts() map[string]func(ctx context.Context, mode headgate.OnStoreError) (string, error) {
	return map[string]func(context.Context, headgate.OnStoreError) (string, error){
		"http": d.httpVerdict, "resp": d.respVerdict, "grpc": d.grpcVerdict,
	}
}

func (d *apis) httpVerdict(ctx context.Context, mode headgate.OnStoreError) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, d.http.URL+"/v1/check", strings.NewReader(fmt.Sprintf(`{"policy":%q,"key":"k"}`, mode)))
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var body json.RawMessage
	if err := json.NewDecoder(resp.Body).Decode(&body); err != nil {
		return "", err
	}
	switch resp.StatusCode {
	case http.StatusOK:
		return allowed, nil
	case http.StatusTooManyRequests:
		return denied, nil
	case http.StatusServiceUnavailable:
		return undecided, nil
	}
	return "", fmt.Errorf("status %d: %s", resp.StatusCode, body)
}

func (d *apis) respVerdict(ctx context.Context, mode headgate.OnStoreError) (string, error) {
	reply, err := d.redis.Do(ctx, "HG.CHECK", string(mode), "k").Slice()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "UNDECIDED"):
		return undecided, nil
	case err != nil:
		return "", err
	case reply[1] == int64(1):
		return allowed, nil
	}
	return denied, nil
}

func (d *apis) grpcVerdict(ctx context.Context, mode headgate.OnStoreError) (string, error) {
	answer, err := d.envoy.ShouldRateLimit(ctx, &pb.RateLimitRequest{Domain: "apis", Descriptors: []*common.RateLimitDescriptor{{
		Entries: []*common.RateLimitDescriptor_Entry{{Key: string(mode), Value: "k"}},
	}}})
	switch {
	case status.Code(err) == codes.Unavailable:
		return undecided, nil
	case err != nil:
		return "", err
	case answer.OverallCode == pb.RateLimitResponse_OK:
		return allowed, nil
	}
	return denied, nil
}

// openModes starts the APIs with a policy for each failure mode.
func startModes(t *testing.T, store headgate.Store) *apis {
	policies := make(map[string]headgate.Policy)
	rules := "domain: apis\ndescriptors:\n"
	for _, m := range modes {
		policies[string(m)] = headgate.Policy{Limits: []headgate.Limit{headgate.MustParseLimit("1000000/1h")}, OnStoreError: m}
		rules += fmt.Sprintf("  - {key: %s, rate_limit: {limits: [1000000/1h], on_store_error: %s}}\n", m, m)
	}
	d := &apis{}
	d.start(t, store, policies, rules)
	return d
}

// timedResult is one response during an outage.
type timedResult struct {
	verdict string
	took    time.Duration
	err     error
}

// TestFailureModesOfEveryAPI stops Redis under load: each API goes on answering, within
// the store budget and by the failure mode of each policy. The asserted times leave room
// for a busy machine; the measured times are logged.
func TestFailureModesOfEveryAPI(t *testing.T) {
	server := testserver.Redis(t)
	store, err := storeopen.Open("redis://"+server.Addr(), &storeopen.Options{Instances: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	d := startModes(t, store)
	for name, verdict := range d.verdicts() {
		for _, m := range modes {
			got, err := verdict(t.Context(), m)
			for range 50 { // the first call connects and loads the script, on a busy machine not within the budget
				if got == allowed || err != nil {
					break
				}
				got, err = verdict(t.Context(), m)
			}
			if got != allowed || err != nil {
				t.Fatalf("%s, %s, before: got %s, error %v", name, m, got, err)
			}
		}
	}
	server.Stop()
	defer server.Continue()
	want := map[headgate.OnStoreError]string{headgate.FailClosed: undecided, headgate.FailOpen: allowed, headgate.FailLocal: allowed}
	for name, verdict := range d.verdicts() {
		for _, m := range modes {
			all := load(t, func(ctx context.Context) (string, error) { return verdict(ctx, m) })
			checkAnswers(t, name+", "+string(m), all, want[m])
		}
	}
}

// load makes checks in eight goroutines for a while, at least one in each.
func load(t *testing.T, verdict func(context.Context) (string, error)) (all []timedResult) {
	var mu sync.Mutex
	var callers sync.WaitGroup
	until := time.Now().Add(*outage / time.Duration(len(modes)))
	for range 8 {
		callers.Go(func() {
			for first := true; first || time.Now().Before(until); first = false {
				began := time.Now()
				got, err := verdict(t.Context())
				mu.Lock()
				all = append(all, timedResult{got, time.Since(began), err})
				mu.Unlock()
			}
		})
	}
	callers.Wait()
	return all
}

func checkAnswers(t *testing.T, name string, all []timedResult, want string) {
	t.Helper()
	slices.SortFunc(all, func(a, b timedResult) int { return int(a.took - b.took) })
	for _, a := range all {
		if a.err != nil || a.verdict != want {
			t.Fatalf("%s: got %s, error %v want %s", name, a.verdict, a.err, want)
		}
	}
	p99, longest := all[len(all)*99/100].took, all[len(all)-1].took
	t.Logf("%s: %d answers, p99 %v, max %v", name, len(all), p99, longest)
}
