package grpclimit

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/internal/admission"
)

// Denial describes why a call was denied.
type Denial struct {
	headgate.Decision // the combined decision of all charges
	// Policies lists the names of the policies that denied, without duplicates. A policy
	// without a name is listed as “default”.
	Policies []string
	exceeded [][]string // for each of Policies, the limits that denied
}

// add records the limits of a policy that denied.
func (d *Denial) add(name string, limits []admission.Limit, decisions []headgate.Decision) {
	for i := range decisions {
		if decisions[i].Allowed {
			continue
		}
		at := slices.Index(d.Policies, name)
		if at < 0 {
			at = len(d.Policies)
			d.Policies, d.exceeded = append(d.Policies, name), append(d.exceeded, nil)
		}
		d.exceeded[at] = append(d.exceeded[at], limits[i].Rule.Limit.String())
	}
}

// Status returns RESOURCE_EXHAUSTED with a RetryInfo, which is missing if no wait
// helps, and a QuotaFailure. The QuotaFailure has one violation for each policy that
// denied: its subject is the policy's name, its description lists the limits.
func (d *Denial) Status() *status.Status {
	failure := &errdetails.QuotaFailure{}
	for i, name := range d.Policies {
		failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
			Subject: name, Description: "limit exceeded: " + strings.Join(d.exceeded[i], ", "),
		})
	}
	if d.Never {
		return withDetails(codes.ResourceExhausted, "rate limit exceeded: the cost of the call exceeds the limit; retrying does not help", failure)
	}
	return withDetails(codes.ResourceExhausted, "rate limit exceeded; try again in "+d.RetryAfter.String(),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}, failure)
}

// unavailableRetryDelay is the retry delay that is sent if the store returned an error.
const unavailableRetryDelay = time.Second

// unavailableError returns the error of a call that the store could not decide. It does
// not contain the cause, which is reported to the observer.
func unavailableError(err error) error {
	if errors.Is(err, headgate.ErrInvalidCost) {
		return status.Error(codes.Internal, "rate limit: the server could not determine the cost of the call")
	}
	return withDetails(codes.Unavailable, "rate limit: the limit could not be checked; try again in "+unavailableRetryDelay.String(),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(unavailableRetryDelay)}).Err()
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	bare := status.New(code, message)
	if s, err := bare.WithDetails(details...); err == nil {
		return s
	}
	return bare // unreachable: only OK, and text that is not UTF-8, cannot have details
}

// headerPool holds headers in which fields are written before they become metadata, whose
// names are in lower case.
var headerPool = sync.Pool{New: func() any { return make(http.Header, 8) }}

// fieldMetadata returns the rate limit fields of the decision on q as metadata, nil if
// none are sent.
func (g *group) fieldMetadata(q *requestState, d *headgate.Decision) metadata.MD {
	if g.onlyDenials && d.Allowed {
		return nil
	}
	header := headerPool.Get().(http.Header)
	defer func() {
		clear(header)
		headerPool.Put(header)
	}()
	var now time.Time
	if g.writer.NeedsTime() {
		now = time.Now()
	}
	q.text.Grow(128)
	g.writer.Write(header, g.sets.Of(q.mask), q.Decisions, now, &q.text)
	delete(header, "Cache-Control") // gRPC responses are not cached
	if len(header) == 0 {
		return nil
	}
	md := make(metadata.MD, len(header))
	for name, values := range header {
		md[lowerName(name)] = values
	}
	return md
}

// lowerNames maps the usual fields of allowed calls to lower case, which saves an
// allocation.
var lowerNames = map[string]string{
	"Ratelimit-Policy": "ratelimit-policy", "Ratelimit": "ratelimit", "Ratelimit-Limit": "ratelimit-limit",
	"Ratelimit-Remaining": "ratelimit-remaining", "Ratelimit-Reset": "ratelimit-reset", "X-Ratelimit-Limit": "x-ratelimit-limit",
	"X-Ratelimit-Remaining": "x-ratelimit-remaining", "X-Ratelimit-Reset": "x-ratelimit-reset",
}

func lowerName(name string) string {
	if known, ok := lowerNames[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

// pushbackKey is the metadata that sets the delay of gRPC's own retries, in
// milliseconds. A negative value stops them.
const pushbackKey = "grpc-retry-pushback-ms"

// pushback returns the value of [pushbackKey] for a denial. It is -1 if the wait is
// longer than longest or ends after the call's deadline: a retry would then fail with
// DEADLINE_EXCEEDED instead of the denial.
func pushback(ctx context.Context, d *headgate.Decision, longest time.Duration) string {
	deadline, ok := ctx.Deadline()
	if d.Never || d.RetryAfter > longest || ok && time.Until(deadline) < d.RetryAfter {
		return "-1"
	}
	return strconv.FormatInt((d.RetryAfter + time.Millisecond - 1).Milliseconds(), 10)
}
