package rlsapi

import (
	"cmp"
	"context"
	"errors"
	"io"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "github.com/envoyproxy/go-control-plane/envoy/service/rate_limit_quota/v3"
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

// quotaStream is a stream of the rate limit quota service. Its goroutine uses the fields.
// During a renewal, each bucket belongs to one of several workers.
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
	defer s.removeAll()
	reports := newReportQueue()
	defer reports.close()
	go reports.fill(read, s.now)
	err := s.run(ctx, stopping, reports)
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// run applies reports and renews buckets. It returns [io.EOF] if the client ended the
// stream.
func (s *quotaStream) run(ctx context.Context, stopping <-chan struct{}, reports *reportQueue) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		var due []*quotaBucket
		var end error
		select {
		case <-reports.arrived:
			due, end = s.applyAll(reports.take())
		case <-timer.C:
			due = s.due()
		case <-stopping:
			return errStopping
		case <-ctx.Done():
			return status.FromContextError(ctx.Err()).Err()
		}
		if err := cmp.Or(s.renewAll(ctx, due), end); err != nil {
			return err
		}
		timer.Reset(s.untilNext())
	}
}

// applyAll applies reports until the first error, and returns their buckets.
func (s *quotaStream) applyAll(reports []queuedReport) (due []*quotaBucket, err error) {
	for i := range reports {
		if r := &reports[i]; err == nil {
			due, err = s.apply(r, due)
		}
		reports[i].report.free()
	}
	return due, err
}

// apply applies a report, and appends its buckets to due.
func (s *quotaStream) apply(r *queuedReport, due []*quotaBucket) ([]*quotaBucket, error) {
	err := r.err
	if errors.Is(err, io.EOF) {
		return due, err
	}
	if err == nil {
		err = s.check(r.report)
	}
	if err != nil {
		s.handler.stats.serviceErrors.Add(1)
		return due, err
	}
	var refused []*bucketAction
	for i := range r.report.usages {
		u := &r.report.usages[i]
		if !s.isText(u) {
			continue
		}
		b := s.bucket(r.at, u)
		if b == nil {
			refused = append(refused, abandon(u.entries))
			continue
		}
		b.report(r.at, u)
		if !b.renewing {
			b.renewing = true
			due = append(due, b)
		}
	}
	return due, s.send(refused)
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

// isText reports whether a response can contain the id of the bucket.
func (s *quotaStream) isText(u *quotaUsage) bool {
	if u.isText() {
		return true
	}
	if s.handler.stats.quotas.warnedBinary.CompareAndSwap(false, true) {
		s.handler.opts.Log.Warn("rate limit quota bucket is not UTF-8", "api", "envoy",
			"advice", "set no_assignment_behavior in the filter; this warning is logged once")
	}
	return false
}

// bucket returns the bucket of a usage, and adds it if it is new. The result is nil if
// there are too many buckets.
func (s *quotaStream) bucket(at time.Duration, u *quotaUsage) *quotaBucket {
	name := u.name()
	if b := s.buckets[name]; b != nil {
		return b
	}
	b := newQuotaBucket(at, name, u.entries)
	b.plan = s.handler.planQuota(s.domain, b.entries)
	if len(s.buckets) >= maxStreamBuckets || !s.handler.stats.quotas.addBucket(b.memory()) {
		b.plan.count(u)
		return nil
	}
	s.buckets[name] = b
	return b
}

// remove removes a bucket.
func (s *quotaStream) remove(b *quotaBucket) {
	delete(s.buckets, b.name)
	s.handler.stats.quotas.removeBucket(b.memory())
}

func (s *quotaStream) removeAll() {
	for _, b := range s.buckets {
		s.remove(b)
	}
}

// due returns the buckets whose renewal is due.
func (s *quotaStream) due() (due []*quotaBucket) {
	now := s.now()
	for _, b := range s.buckets {
		if now >= b.renewAt {
			due = append(due, b)
		}
	}
	return due
}

// untilNext returns the time until the next renewal.
func (s *quotaStream) untilNext() time.Duration {
	next := s.now() + time.Hour
	for _, b := range s.buckets {
		next = min(next, b.renewAt)
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
	b.renewing = false
	defer func() {
		if cause := recover(); cause != nil {
			s.handler.opts.Log.Error("panic while handling request", "error", cause, "stack", string(debug.Stack()))
			b.renewAt, b.next = s.now()+quotaTTL/2, nextAction{kind: actionDeny}
		}
	}()
	s.renew(ctx, b)
}

// respond sends the pending actions of the buckets.
func (s *quotaStream) respond(due []*quotaBucket) error {
	var actions []*bucketAction
	now := s.now()
	for _, b := range due {
		if a := b.action(now); a != nil {
			actions = append(actions, a)
		}
	}
	if err := s.send(actions); err != nil {
		return err
	}
	now = s.now()
	for _, b := range due {
		if b.next.kind == actionAbandon {
			s.remove(b)
		}
		b.sent(now)
	}
	return nil
}

// send sends actions in responses of at most maxResponse.
func (s *quotaStream) send(actions []*bucketAction) error {
	for part := range slices.Chunk(actions, maxResponse) {
		s.handler.stats.quotas.count(part)
		if err := s.write(&pb.RateLimitQuotaResponse{BucketAction: part}); err != nil {
			return err
		}
	}
	return nil
}
