package rlsapi_test

import (
	"context"
	"io"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	quotapb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/rlsapi"
	"github.com/headgate/headgate/memstore"
)

// quotaScript is a stream whose reports a test sends at exact times, in fake time.
type quotaScript struct {
	t       *testing.T
	store   *fakeTimeStore
	handler *rlsapi.Handler
	reports chan []byte
	start   time.Time
	mu      sync.Mutex
	got     quotaAnswer // guarded by mu
}

// quotaAnswer is the last response.
type quotaAnswer struct {
	number int
	bucket *typev3.TokenBucket // nil if it is no assignment of tokens
	ttl    time.Duration
}

// last returns the last response.
func (s *quotaScript) last() quotaAnswer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.got
}

// scriptQuotas runs test with a stream under a limit of 1,000 in a year.
func scriptQuotas(t *testing.T, test func(s *quotaScript)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeTimeStore{Store: memstore.New(nil), exact: true, open: make(map[headgate.HoldID]int64)}
		defer store.Close()
		h := open(t, store, `{domain: d, descriptors: [{key: k, rate_limit: {algorithm: token_bucket, limits: [1000/365d]}}]}`, nil)
		s := &quotaScript{t: t, store: store, handler: h, reports: make(chan []byte), start: time.Now()}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			_ = h.ServeQuotas(ctx, s.read, s.write) // it ends with ctx
			close(ended)
		}()
		test(s)
		cancel()
		close(s.reports)
		<-ended
	})
}

func (s *quotaScript) read() ([]byte, error) {
	if b, ok := <-s.reports; ok {
		return b, nil
	}
	return nil, io.EOF
}

func (s *quotaScript) write(r *quotapb.RateLimitQuotaResponse) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := r.GetBucketAction()[0].GetQuotaAssignmentAction()
	s.got = quotaAnswer{s.got.number + 1, a.GetRateLimitStrategy().GetTokenBucket(), a.GetAssignmentTimeToLive().AsDuration()}
	return nil
}

// report sends a report that arrives at a time since the start, and waits until it is
// processed.
func (s *quotaScript) report(at time.Duration, allowed uint64) {
	s.t.Helper()
	time.Sleep(time.Until(s.start.Add(at)))
	b, err := proto.Marshal(reportOf("d", usage(allowed, 0, "k", "v")))
	if err != nil {
		s.t.Fatal(err)
	}
	s.reports <- b
	synctest.Wait()
}

// charged checks the number of units that are spent or on lease.
func (s *quotaScript) charged(when string, want int64) {
	s.t.Helper()
	r := request("d", "k", "v")
	r.Descriptors[0].HitsAddend = wrapperspb.UInt64(0)
	resp, err := s.handler.ShouldRateLimitAt(s.t.Context(), headgate.InstantOf(time.Now()), r)
	if err != nil {
		s.t.Fatal(err)
	}
	if got := 1000 - int64(resp.GetStatuses()[0].GetLimitRemaining()); got != want {
		s.t.Errorf("%s: %d units are charged, want %d", when, got, want)
	}
}

// While a new assignment is on its way, the client spends the tokens of the earlier one.
// They stay charged until a report that was certainly sent afterwards has arrived.
func TestQuotaMessagesInFlight(t *testing.T) {
	t.Parallel()
	for _, more := range []uint64{0, 20} {
		scriptQuotas(t, func(s *quotaScript) {
			s.report(0, 0)
			s.charged("the first assignment", 125)
			s.report(time.Second, 100)
			second := int64(s.last().bucket.GetMaxTokens())
			s.charged("the second assignment", 125+second)
			s.report(1350*time.Millisecond, 5)
			s.charged("a report that was sent before the second assignment arrived", 125+second)
			s.report(1900*time.Millisecond, more)
			s.charged("a report that was sent afterwards", 105+int64(more)+second)
		})
	}
}

// If the store was unavailable for so long that the client may have dropped its
// assignment, the next one is a different one: the client would begin the same one again
// with all its tokens.
func TestQuotaExtensionIsTooLate(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, func(s *quotaScript) {
		s.report(0, 0)
		first := s.last().bucket
		s.report(time.Second, 0)
		if !proto.Equal(first, s.last().bucket) {
			t.Errorf("after 0 of 125 tokens: got %v want the same assignment %v", s.last().bucket, first)
		}
		s.store.down.Store(true)
		time.Sleep(time.Until(s.start.Add(9900 * time.Millisecond)))
		synctest.Wait()
		s.store.down.Store(false)
		before := s.last().number
		for s.last().number == before {
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
		}
		if at := time.Since(s.start); at > 10900*time.Millisecond {
			t.Errorf("the next response came after %v, when the lease had ended", at)
		}
		if proto.Equal(first, s.last().bucket) {
			t.Errorf("after the end of an assignment: got the same assignment %v", s.last().bucket)
		}
	})
}

// The time to live counts from before the store was asked.
func TestQuotaSlowStore(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, func(s *quotaScript) {
		s.store.reply = 3 * time.Second
		s.report(0, 0)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := s.last(); got.number != 1 || got.ttl != 6*time.Second {
			t.Errorf("the store replied after 3 s of 10: got %d responses with a time to live of %v want 6s", got.number, got.ttl)
		}
	})
}
