package rlsapi_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/grpc"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

// stalled is a store whose decisions wait until the test releases them.
type stalled struct {
	headgate.Store
	waiting *atomic.Int64
	release chan struct{}
}

func newStalled() stalled {
	return stalled{memstore.New(nil), new(atomic.Int64), make(chan struct{})}
}

func (s stalled) Bind(rule headgate.Rule) (headgate.Bound, error) {
	b, err := s.Store.Bind(rule)
	return stalledBound{b, s}, err
}

type stalledBound struct {
	headgate.Bound
	store stalled
}

func (b stalledBound) Apply(ctx context.Context, now headgate.Instant, key string, verb headgate.Verb, cost int64) (headgate.Decision, error) {
	b.store.waiting.Add(1)
	<-b.store.release
	return b.Bound.Apply(ctx, now, key, verb, cost)
}

// longRequest is what Envoy sends for a client whose header fields have 60 KiB, the
// maximum by default, if 4 descriptors contain them.
func longRequest() *pb.RateLimitRequest {
	r := request("d", "k", strings.Repeat("v", 60<<10))
	for range 3 {
		r.Descriptors = append(r.Descriptors, descriptor("other", r.GetDescriptors()[0].GetEntries()[0].GetValue()))
	}
	return r
}

// TestManyLongRequests: a client of Envoy that causes as many simultaneous requests as
// possible, each as long as possible, gets no error and does not make Envoy's connection
// end, even if the store does not respond. Requests for which there is no memory are
// denied, and short requests of other clients are decided.
func TestManyLongRequests(t *testing.T) {
	t.Parallel()
	requests, opts := 1024, &rlsapi.ServerOptions{}
	if testing.Short() {
		requests, opts.MaxMemoryBytes = 128, 24<<20
	}
	store := newStalled()
	addr, server := serve(t, open(t, store, smallConfig, nil), opts)
	proxy := pb.NewRateLimitServiceClient(connect(t, addr))
	var all sync.WaitGroup
	var denied, failed atomic.Int64
	call := func(req *pb.RateLimitRequest) {
		resp, err := proxy.ShouldRateLimit(t.Context(), req, grpc.WaitForReady(true))
		switch {
		case err != nil:
			failed.Add(1)
			t.Log(err)
		case resp.GetOverallCode() == pb.RateLimitResponse_OVER_LIMIT:
			denied.Add(1)
		}
	}
	for range requests {
		all.Go(func() { call(longRequest()) })
	}
	until(t, "every long request is denied or in the store", func() bool {
		return denied.Load()+failed.Load()+store.waiting.Load() >= int64(requests)
	})
	inStore := store.waiting.Load()
	all.Go(func() { call(request("d", "k", "short")) })
	until(t, "a short request is in the store", func() bool { return store.waiting.Load() > inStore })
	n, _ := rlsapi.Memory(server)
	t.Logf("%d of %d requests were denied for their size; the connections hold %d bytes", denied.Load(), requests, n)
	if denied.Load() == 0 || inStore == 0 {
		t.Errorf("%d requests were denied and %d are decided; the test needs both", denied.Load(), inStore)
	}
	close(store.release)
	all.Wait()
	if _, closed := rlsapi.Memory(server); failed.Load() > 0 || closed > 0 {
		t.Errorf("%d requests failed, %d connections were closed", failed.Load(), closed)
	}
}

// until waits until a condition is true.
func until(t *testing.T, what string, condition func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("not within a minute: %s", what)
		}
	}
}

// TestLongMessages: a message of any length gets a decision. Messages above the maximum
// are denied before they arrive, so that they need no memory.
func TestLongMessages(t *testing.T) {
	t.Parallel()
	for _, shadow := range []bool{false, true} {
		h := open(t, nil, clientConfig, &rlsapi.Options{Shadow: shadow})
		addr, server := serve(t, h, &rlsapi.ServerOptions{MaxMessageBytes: 1 << 20})
		c := pb.NewRateLimitServiceClient(connect(t, addr))
		over := pb.RateLimitResponse_OVER_LIMIT
		if shadow {
			over = pb.RateLimitResponse_OK
		}
		for _, call := range []struct {
			bytes int
			want  pb.RateLimitResponse_Code
		}{{1 << 19, pb.RateLimitResponse_OK}, {1 << 20, over}, {5 << 20, over}, {100 << 20, over}, {1, pb.RateLimitResponse_OK}} {
			resp, err := c.ShouldRateLimit(t.Context(), request("d", "other", strings.Repeat("v", call.bytes)))
			if err != nil || resp.GetOverallCode() != call.want {
				t.Errorf("shadow %v, %d bytes: got %v, error %v; want %v", shadow, call.bytes, resp.GetOverallCode(), err, call.want)
			}
			if n, _ := rlsapi.Memory(server); n > 8<<20 {
				t.Errorf("after %d bytes: the connections hold %d bytes", call.bytes, n)
			}
		}
		if got := h.Stats().ServiceErrors; got != 3 {
			t.Errorf("got %d invalid requests, want 3", got)
		}
	}
}
