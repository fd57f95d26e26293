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
	got     quotaAnswer   // guarded by mu
	delay   time.Duration // duration of a write; guarded by mu
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

// unrefilled is a limit of 1,000 that does not refill during a test.
const unrefilled = `{algorithm: token_bucket, limits: [1000/365d]}`

// scriptQuotas runs test with a stream under a limit.
func scriptQuotas(t *testing.T, limit string, test func(s *quotaScript)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		store := &fakeTimeStore{Store: memstore.New(nil), exact: true, open: make(map[headgate.HoldID]int64)}
		defer store.Close()
		h := open(t, store, "{domain: d, descriptors: [{key: k, rate_limit: "+limit+"}]}", nil)
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
	delay := s.delay
	s.mu.Unlock()
	<-time.After(delay)
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
	s.wait(at)
	b, err := proto.Marshal(reportOf("d", usage(allowed, 0, "k", "v")))
	if err != nil {
		s.t.Fatal(err)
	}
	s.reports <- b
	synctest.Wait()
}

// wait waits until a time since the start.
func (s *quotaScript) wait(at time.Duration) {
	time.Sleep(time.Until(s.start.Add(at)))
	synctest.Wait()
}

// awaitNext waits for the response after the given one.
func (s *quotaScript) awaitNext(after quotaAnswer) quotaAnswer {
	s.t.Helper()
	for begin := time.Now(); s.last().number == after.number; {
		if time.Since(begin) > time.Minute {
			s.t.Fatalf("no response within a minute after %+v", after)
		}
		time.Sleep(10 * time.Millisecond)
		synctest.Wait()
	}
	return s.last()
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
		scriptQuotas(t, unrefilled, func(s *quotaScript) {
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
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.report(0, 0)
		first := s.last().bucket
		s.report(time.Second, 0)
		if !proto.Equal(first, s.last().bucket) {
			t.Errorf("after 0 of 125 tokens: got %v want the same assignment %v", s.last().bucket, first)
		}
		s.store.down.Store(true)
		s.wait(9900 * time.Millisecond)
		s.store.down.Store(false)
		s.awaitNext(s.last())
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
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.store.reply.Store(int64(3 * time.Second))
		s.report(0, 0)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		if got := s.last(); got.number != 1 || got.ttl != 6*time.Second {
			t.Errorf("the store replied after 3 s of 10: got %d responses with a time to live of %v want 6s", got.number, got.ttl)
		}
	})
}

// A report is judged by the time at which it arrived, also if it is applied later because
// the store was slow.
func TestQuotaReportDuringRenewal(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.report(0, 0)
		s.report(time.Second, 100)
		second := int64(s.last().bucket.GetMaxTokens())
		s.store.reply.Store(int64(600 * time.Millisecond))
		s.report(1300*time.Millisecond, 0) // the renewal ends at 1.9 s
		s.report(1350*time.Millisecond, 5)
		s.wait(2 * time.Second)
		s.charged("a report that was sent before the second assignment arrived", 125+second)
		s.wait(3 * time.Second)
		s.report(3*time.Second, 0)
		s.wait(5 * time.Second)
		s.charged("a report that was sent afterwards", 105+second)
	})
}

// If the store is so slow that an extension arrives after the assignment has expired, the
// next assignment is a different one.
func TestQuotaExtensionIsDelayedByStore(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.report(0, 0)
		first := s.last()
		s.store.reply.Store(int64(4 * time.Second)) // the assignment expires after 9 s
		if next := s.awaitNext(first); proto.Equal(first.bucket, next.bucket) {
			t.Errorf("%v after the start: got the same assignment %v", time.Since(s.start), next.bucket)
		}
	})
}

// If an extension is sent so late that the client may have begun again with all tokens,
// another assignment follows immediately.
func TestQuotaExtensionIsSentLate(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.report(0, 0)
		first := s.last()
		s.mu.Lock()
		s.delay = 4 * time.Second
		s.mu.Unlock()
		late := s.awaitNext(first)
		sent := time.Since(s.start)
		if !proto.Equal(first.bucket, late.bucket) || sent < 9*time.Second {
			t.Fatalf("%v after the start: got %v want the same assignment after 9 s", sent, late.bucket)
		}
		s.mu.Lock()
		s.delay = 0
		s.mu.Unlock()
		next := s.awaitNext(late)
		if wait := time.Since(s.start) - sent; proto.Equal(first.bucket, next.bucket) || wait > 4100*time.Millisecond {
			t.Errorf("%v after the late response: got %v want another assignment", wait, next.bucket)
		}
	})
}

// A stream does not know what its client has spent of an assignment of an earlier stream.
// These requests are not attributed to its own assignments.
func TestQuotaAfterReconnect(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, `{algorithm: token_bucket, limits: [1000/10s]}`, func(s *quotaScript) {
		s.report(0, 0)
		s.report(400*time.Millisecond, 20)
		s.wait(1200 * time.Millisecond)
		s.charged("20 requests under an earlier assignment", 125)
		s.report(1300*time.Millisecond, 20)
		s.report(2*time.Second, 20)
		s.wait(2800 * time.Millisecond)
		s.charged("20 requests under the assignment, which have refilled", 105)
	})
}

// Requests in a report belong to the assignment of the new window if that of the last
// window had expired. So they are not returned.
func TestQuotaUseAfterWindow(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, `{unit: second, unit_multiplier: 20, requests_per_unit: 1000}`, func(s *quotaScript) {
		s.report(time.Second, 0)
		s.report(19900*time.Millisecond, 0)
		last := s.last()
		next := s.awaitNext(last)
		if at := time.Since(s.start); at > 20300*time.Millisecond || proto.Equal(last.bucket, next.bucket) {
			t.Fatalf("%v after the start: got %v want the assignment of the next window", at, next.bucket)
		}
		spent := next.bucket.GetMaxTokens() - 10
		s.report(20700*time.Millisecond, uint64(spent))
		third := s.last()
		if third.number == next.number || proto.Equal(third.bucket, next.bucket) {
			t.Fatalf("after %d tokens: got %v want another assignment than %v", spent, third.bucket, next.bucket)
		}
		s.report(21300*time.Millisecond, 0)
		s.charged("in the new window", int64(spent+third.bucket.GetMaxTokens()))
	})
}

// A client that no longer reports gets few further tokens.
func TestQuotaSilentClient(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, `{algorithm: token_bucket, limits: [200000/365d]}`, func(s *quotaScript) {
		for i := range 5 {
			s.report(time.Duration(i)*time.Second, 1000)
		}
		before := s.store.total()
		s.wait(50 * time.Second)
		if more := s.store.total() - before; more > 15_000 {
			t.Errorf("a client with 1,000 requests per second is silent for 46 s: it got %d tokens, want at most 15,000", more)
		}
	})
}

// After a renewal that reports spent units, the rest is on lease until the same time, by
// a clock that is 1 % faster.
func TestQuotaCommitKeepsMargin(t *testing.T) {
	t.Parallel()
	scriptQuotas(t, unrefilled, func(s *quotaScript) {
		s.report(0, 0)
		s.report(time.Second, 100)
		s.report(1300*time.Millisecond, 5)
		full := headgate.LeaseResult{TTL: 10 * time.Second}
		deadline := s.start.Add(full.Validity())
		commits := 0
		for _, c := range s.store.executed() {
			if c.op.TTL == full.TTL || c.op.TTL == 0 {
				continue
			}
			commits++
			renewed := headgate.LeaseResult{TTL: c.op.TTL}
			if end := c.at.Add(renewed.Validity()); end.Before(deadline) {
				t.Errorf("a commit at %v is valid until %v, want %v", c.at.Sub(s.start), end.Sub(s.start), deadline.Sub(s.start))
			}
		}
		if commits == 0 {
			t.Error("no spent units were reported to the store")
		}
	})
}
