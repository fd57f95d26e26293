package rlsapi

import (
	"context"
	"errors"
	"io"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Limits on what clients of the rate limit quota service use.
const (
	maxQuotaStreams  = 1024
	maxStreamBuckets = 4096
	maxQuotaBuckets  = 64 << 10 // of all streams
	maxQuotaBytes    = 64 << 20 // memory of the buckets of all streams
	quotaWorkers     = 16       // buckets of a stream that are renewed simultaneously
)

var (
	errQuotaDomain = status.Error(codes.InvalidArgument, "the first report of a stream has no domain; set domain in the configuration of the filter")
	errNewDomain   = status.Error(codes.InvalidArgument, "the domain of a report differs from that of the first report; open another stream for it")
	errStreams     = status.Errorf(codes.ResourceExhausted, "%d quota streams are open, which is the maximum; use another instance of the service", maxQuotaStreams)
	errStopping    = status.Error(codes.Unavailable, "server is shutting down")
)

// quotas counts what all streams use.
type quotas struct {
	streams, buckets, bytes  atomic.Int64
	tokens, denied, allowed  atomic.Uint64 // assignments
	abandoned                atomic.Uint64
	warnedRule, warnedBinary atomic.Bool
}

// QuotaStats are counts of the rate limit quota service.
type QuotaStats struct {
	Streams, Buckets int64 // open streams, and their buckets
	// Assignments is the number of assignments that were sent: tokens, deny_all,
	// allow_all and abandon.
	Assignments map[string]uint64
}

func (q *quotas) load() QuotaStats {
	return QuotaStats{q.streams.Load(), q.buckets.Load(), map[string]uint64{
		"tokens": q.tokens.Load(), "deny_all": q.denied.Load(), "allow_all": q.allowed.Load(), "abandon": q.abandoned.Load(),
	}}
}

// warnQuota logs the first rule under which nothing can be assigned.
func (h *Handler) warnQuota(rule string, err error) {
	if h.stats.quotas.warnedRule.CompareAndSwap(false, true) {
		h.opts.Log.Warn("rate limit quota cannot be assigned", "api", "envoy", "rule", rule, "error", err,
			"advice", "set algorithm: token_bucket in the rule, and use Redis, memcached or memory as the store; this warning is logged once")
	}
}

// quotaStream is a stream of the rate limit quota service. Its goroutine owns the
// buckets.
type quotaStream struct {
	handler *Handler
	start   time.Time
	domain  string
	buckets map[string]*quotaBucket
	write   func(*pb.RateLimitQuotaResponse) error
}

// now returns the time since the stream began, which is at least 1 ns.
func (s *quotaStream) now() time.Duration { return time.Since(s.start) + 1 }

// serveQuotas serves a stream until it ends or stopping is closed. read returns the next
// report.
func (h *Handler) serveQuotas(ctx context.Context, stopping <-chan struct{}, read func() (*quotaReport, error), write func(*pb.RateLimitQuotaResponse) error) error {
	q := &h.stats.quotas
	defer q.streams.Add(-1)
	if q.streams.Add(1) > maxQuotaStreams {
		return errStreams
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	s := &quotaStream{handler: h, start: time.Now(), buckets: make(map[string]*quotaBucket), write: write}
	defer func() {
		for _, b := range s.buckets {
			s.remove(b)
		}
	}()
	return s.run(ctx, stopping, readAll(ctx, read))
}

// received is a report or the end of a stream.
type received struct {
	report *quotaReport
	err    error
}

// readAll reads reports until the first error or the end of ctx.
func readAll(ctx context.Context, read func() (*quotaReport, error)) <-chan received {
	all := make(chan received)
	go func() {
		for {
			r, err := read()
			select {
			case all <- received{r, err}:
			case <-ctx.Done():
				return
			}
			if err != nil {
				return
			}
		}
	}()
	return all
}

func (s *quotaStream) run(ctx context.Context, stopping <-chan struct{}, reports <-chan received) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due []*quotaBucket
		select {
		case r := <-reports:
			if errors.Is(r.err, io.EOF) {
				return nil
			}
			var err error
			if due, err = s.apply(r); err != nil {
				return err
			}
		case <-timer.C:
			due = s.due()
		case <-stopping:
			return errStopping
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if err := s.renewAll(ctx, due); err != nil {
			return err
		}
		timer.Reset(s.untilNext())
	}
}

// apply applies a report, and returns its buckets.
func (s *quotaStream) apply(r received) ([]*quotaBucket, error) {
	err := r.err
	if err == nil {
		err = s.check(r.report)
	}
	if err != nil {
		s.handler.stats.serviceErrors.Add(1)
		return nil, err
	}
	now := s.now()
	var due []*quotaBucket
	for i := range r.report.usages {
		u := &r.report.usages[i]
		b := s.bucket(now, u)
		if b == nil {
			continue
		}
		b.report(now, u)
		if !b.due {
			b.due = true
			due = append(due, b)
		}
	}
	return due, nil
}

// check returns a status error for an invalid report.
func (s *quotaStream) check(r *quotaReport) error {
	rules := s.handler.rules.Load()
	switch {
	case rules == nil:
		return errNoConfig
	case s.domain == "" && r.domain == "":
		return errQuotaDomain
	case s.domain == "":
		s.domain = r.domain
		if rules.config.Domain(s.domain) == nil {
			s.handler.stats.counters.countUnknownDomain(s.domain, len(r.usages))
			return status.Errorf(codes.NotFound, "domain %.100q is not configured; add a rules file with this domain, or correct domain in the configuration of the filter", s.domain)
		}
	case r.domain != "" && r.domain != s.domain:
		return errNewDomain
	}
	for i := range r.usages {
		if err := r.usages[i].check(); err != nil {
			return err
		}
	}
	return nil
}

// bucket returns the bucket of a usage, and adds it if it is new. The result is nil if no
// response can contain its id.
func (s *quotaStream) bucket(now time.Duration, u *quotaUsage) *quotaBucket {
	if !u.isText() {
		if s.handler.stats.quotas.warnedBinary.CompareAndSwap(false, true) {
			s.handler.opts.Log.Warn("rate limit quota bucket is not UTF-8", "api", "envoy",
				"advice", "set no_assignment_behavior in the filter; this warning is logged once")
		}
		return nil
	}
	name := u.name()
	b := s.buckets[name]
	if b != nil {
		return b
	}
	b = &quotaBucket{entries: u.entries, name: name, usedAt: now}
	b.plan = s.handler.planQuota(s.domain, b.entries)
	s.buckets[name] = b
	q := &s.handler.stats.quotas
	total, bytes := q.buckets.Add(1), q.bytes.Add(b.memory())
	if len(s.buckets) > maxStreamBuckets || total > maxQuotaBuckets || bytes > maxQuotaBytes {
		b.out.kind = outAbandon
	}
	return b
}

// remove removes a bucket.
func (s *quotaStream) remove(b *quotaBucket) {
	delete(s.buckets, b.name)
	s.handler.stats.quotas.buckets.Add(-1)
	s.handler.stats.quotas.bytes.Add(-b.memory())
}

// due returns the buckets whose renewal is due.
func (s *quotaStream) due() (due []*quotaBucket) {
	now := s.now()
	for _, b := range s.buckets {
		if now >= b.next {
			due = append(due, b)
		}
	}
	return due
}

// untilNext returns the time until the next renewal.
func (s *quotaStream) untilNext() time.Duration {
	next := s.now() + time.Hour
	for _, b := range s.buckets {
		next = min(next, b.next)
	}
	return max(next-s.now(), 0)
}

// renewAll renews buckets, several at a time, and sends one response for them.
func (s *quotaStream) renewAll(ctx context.Context, due []*quotaBucket) error {
	for len(due) > 0 {
		n := min(len(due), maxResponse)
		s.renewBatch(ctx, due[:n])
		if err := s.respond(due[:n]); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

// maxResponse is the maximum number of buckets in a response.
const maxResponse = 256

func (s *quotaStream) renewBatch(ctx context.Context, due []*quotaBucket) {
	var workers sync.WaitGroup
	var next atomic.Int64
	for range min(quotaWorkers, len(due)) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < int64(len(due)); i = next.Add(1) - 1 {
				s.renewOne(ctx, due[i])
			}
		})
	}
	workers.Wait()
}

// renewOne renews a bucket. After a panic, the bucket is denied until its next renewal.
func (s *quotaStream) renewOne(ctx context.Context, b *quotaBucket) {
	b.due = false
	defer func() {
		if cause := recover(); cause != nil {
			s.handler.opts.Log.Error("panic while handling request", "error", cause, "stack", string(debug.Stack()))
			b.next, b.out = s.now()+quotaTTL/2, outgoing{kind: outDeny}
		}
	}()
	if b.out.kind != outAbandon {
		s.renew(ctx, b)
	}
}

// respond sends what the buckets have for the client.
func (s *quotaStream) respond(due []*quotaBucket) error {
	var actions []*pb.RateLimitQuotaResponse_BucketAction
	now := s.now()
	for _, b := range due {
		if a := b.action(now); a != nil {
			actions = append(actions, a)
		}
	}
	if len(actions) == 0 {
		return nil
	}
	s.handler.stats.quotas.count(actions)
	if err := s.write(&pb.RateLimitQuotaResponse{BucketAction: actions}); err != nil {
		return err
	}
	now = s.now()
	for _, b := range due {
		if b.out.kind == outAbandon {
			s.remove(b)
		}
		b.sent(now)
	}
	return nil
}

// count counts the actions of a response.
func (q *quotas) count(actions []*pb.RateLimitQuotaResponse_BucketAction) {
	for _, a := range actions {
		strategy := a.GetQuotaAssignmentAction().GetRateLimitStrategy()
		switch {
		case a.GetAbandonAction() != nil:
			q.abandoned.Add(1)
		case strategy.GetTokenBucket() != nil:
			q.tokens.Add(1)
		case strategy.GetBlanketRule() == typev3.RateLimitStrategy_DENY_ALL:
			q.denied.Add(1)
		default:
			q.allowed.Add(1)
		}
	}
}
