// Package quotaclient behaves like Envoy's filter rate_limit_quota, for tests: it decides
// requests with the assignments of a rate limit quota service, and reports their numbers.
// Its details are those of Envoy 1.34. A token bucket begins full. It is kept while only
// the time to live changes, which has whole seconds. Without an assignment, and after its
// end, requests are denied.
package quotaclient

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/protobuf/types/known/durationpb"
)

// Stream is a stream of the rate limit quota service.
type Stream interface {
	Send(r *pb.RateLimitQuotaUsageReports) error
	Recv() (*pb.RateLimitQuotaResponse, error)
}

// Client has the buckets of one Envoy. It may be used concurrently.
type Client struct {
	domain string

	mu       sync.Mutex
	stream   Stream // nil if there is none
	buckets  map[string]*bucket
	admitted []int64 // times in µs since the Unix epoch
	denied   int
	actions  map[string]int
}

// bucket is a bucket and its assignment.
type bucket struct {
	id              *pb.BucketId
	allowed, denied uint64 // since the last report
	reported        time.Time
	strategy        *typev3.RateLimitStrategy // nil if there is none
	expires         time.Time
	tokens          float64
	filled          time.Time
}

// New returns a client without a stream.
func New(domain string) *Client {
	return &Client{domain: domain, buckets: make(map[string]*bucket), actions: make(map[string]int)}
}

// Serve applies the responses of a stream until the stream ends, and returns its error.
func (c *Client) Serve(s Stream) error {
	c.mu.Lock()
	c.stream = s
	c.mu.Unlock()
	for {
		r, err := s.Recv()
		if err != nil {
			c.mu.Lock()
			c.stream = nil
			c.mu.Unlock()
			return err
		}
		c.apply(r)
	}
}

// Request decides one request in the bucket with the given entries. The first request is
// reported immediately.
func (c *Client) Request(id map[string]string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	name := nameOf(id)
	b := c.buckets[name]
	now := time.Now()
	if b == nil {
		if c.stream == nil {
			c.denied++
			return false
		}
		b = &bucket{id: &pb.BucketId{Bucket: id}, denied: 1, reported: now}
		c.buckets[name] = b
		c.denied++
		_ = c.stream.Send(c.reports(now, b)) // Serve returns the error
		return false
	}
	if b.take(now) {
		b.allowed++
		c.admitted = append(c.admitted, now.UnixMicro())
		return true
	}
	b.denied++
	c.denied++
	return false
}

// Report reports all buckets. It does nothing without a stream.
func (c *Client) Report() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stream == nil || len(c.buckets) == 0 {
		return
	}
	_ = c.stream.Send(c.reports(time.Now(), slices.Collect(maps.Values(c.buckets))...)) // Serve returns the error
}

// ReportEvery reports at an interval until ctx ends.
func (c *Client) ReportEvery(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			c.Report()
		case <-ctx.Done():
			return
		}
	}
}

// Log returns the times of all admitted requests in µs since the Unix epoch, and the
// number of denied ones.
func (c *Client) Log() (admitted []int64, denied int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.admitted), c.denied
}

// Actions returns the number of actions by kind: tokens, deny_all, allow_all, abandon.
func (c *Client) Actions() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.actions)
}

func nameOf(id map[string]string) string {
	var name strings.Builder
	for _, k := range slices.Sorted(maps.Keys(id)) {
		name.WriteString(k + "=" + id[k] + "\n")
	}
	return name.String()
}

// reports returns the usage of buckets and sets it to 0.
func (c *Client) reports(now time.Time, of ...*bucket) *pb.RateLimitQuotaUsageReports {
	r := &pb.RateLimitQuotaUsageReports{Domain: c.domain}
	for _, b := range of {
		r.BucketQuotaUsages = append(r.BucketQuotaUsages, &pb.RateLimitQuotaUsageReports_BucketQuotaUsage{
			BucketId: b.id, NumRequestsAllowed: b.allowed, NumRequestsDenied: b.denied,
			TimeElapsed: durationpb.New(now.Sub(b.reported).Truncate(time.Second)),
		})
		b.allowed, b.denied, b.reported = 0, 0, now
	}
	return r
}

func (c *Client) apply(r *pb.RateLimitQuotaResponse) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	for _, a := range r.GetBucketAction() {
		name := nameOf(a.GetBucketId().GetBucket())
		b := c.buckets[name]
		if b == nil {
			continue
		}
		if a.GetAbandonAction() != nil {
			c.actions["abandon"]++
			delete(c.buckets, name)
			continue
		}
		c.actions[b.assign(now, a.GetQuotaAssignmentAction())]++
	}
}

// assign applies an assignment and returns its kind.
func (b *bucket) assign(now time.Time, a *pb.RateLimitQuotaResponse_BucketAction_QuotaAssignmentAction) string {
	s := a.GetRateLimitStrategy()
	if t := s.GetTokenBucket(); t != nil && !sameBucket(t, b.strategy.GetTokenBucket()) {
		b.tokens, b.filled = float64(t.GetMaxTokens()), now
	}
	b.strategy, b.expires = s, now.Add(time.Duration(a.GetAssignmentTimeToLive().GetSeconds())*time.Second)
	switch {
	case s.GetTokenBucket() != nil:
		return "tokens"
	case s.GetBlanketRule() == typev3.RateLimitStrategy_DENY_ALL:
		return "deny_all"
	}
	return "allow_all"
}

func sameBucket(a, b *typev3.TokenBucket) bool {
	return b != nil && a.GetMaxTokens() == b.GetMaxTokens() && a.GetTokensPerFill().GetValue() == b.GetTokensPerFill().GetValue() &&
		a.GetFillInterval().GetNanos() == b.GetFillInterval().GetNanos()
}

// take decides one request.
func (b *bucket) take(now time.Time) bool {
	if b.strategy == nil || !now.Before(b.expires) {
		b.strategy = nil
		return false
	}
	t := b.strategy.GetTokenBucket()
	if t == nil {
		return b.strategy.GetBlanketRule() == typev3.RateLimitStrategy_ALLOW_ALL
	}
	perSecond := float64(t.GetTokensPerFill().GetValue()) / float64(t.GetFillInterval().GetSeconds())
	b.tokens = min(b.tokens+now.Sub(b.filled).Seconds()*perSecond, float64(t.GetMaxTokens()))
	b.filled = now
	if b.tokens < 1 {
		return false
	}
	b.tokens--
	return true
}
