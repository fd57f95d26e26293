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

// Denial describes why a call or message was denied.
type Denial struct {
	headgate.Decision // the combined decision of all charges that apply
	// Policies lists the names of the policies that denied, without duplicates. A
	// policy without a name is listed as “default”.
	Policies []string
	exceeded [][]string // the limits that denied, for each element of Policies
}

// add records the limits of the policy called name that denied. decisions has one
// decision for each of limits.
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

// Status returns the status RESOURCE_EXHAUSTED with two details: a RetryInfo, which is
// missing if no wait helps, and a QuotaFailure. The QuotaFailure has one violation for
// each policy that denied. The subject of a violation is the policy's name, its
// description lists the limits that denied.
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

// unavailableRetryDelay is the retry delay in the error for a call that the store could
// not decide.
const unavailableRetryDelay = time.Second

// unavailableError returns the error for a call that the store could not decide. The
// error does not contain the cause, which the observer receives.
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
	return bare // cannot happen: only the code OK and messages that are not UTF-8 cannot have details
}

// headerPool has reusable http.Headers. Package httpfields writes fields into an
// http.Header; they are then copied to metadata, whose names are in lower case.
var headerPool = sync.Pool{New: func() any { return make(http.Header, 8) }}

// fieldMetadata returns the rate limit fields for the decisions on q as metadata, or
// nil if no fields are to be sent. d is the combined decision.
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
	set := g.sets.Of(q.mask)
	if q.varies {
		set = g.sets.OfParts(q.Parts())
	}
	g.writer.Write(header, set, q.Decisions, now, &q.text)
	delete(header, "Cache-Control") // no HTTP cache stores gRPC responses
	if len(header) == 0 {
		return nil
	}
	md := make(metadata.MD, len(header))
	for name, values := range header {
		md[lowerName(name)] = values
	}
	return md
}

// lowerNames maps the names of the most frequent fields to lower case, which saves an
// allocation for each field.
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

// pushbackKey is the name of the metadata that sets the delay of gRPC's own retries, in
// milliseconds. A negative value stops the retries.
const pushbackKey = "grpc-retry-pushback-ms"

// pushback returns the value of [pushbackKey] for the denial d. It is “-1”, which stops
// the retries, if no wait helps, or if the wait is longer than longest or ends after
// the call's deadline: a retry would then fail with DEADLINE_EXCEEDED, which hides the
// denial.
func pushback(ctx context.Context, d *headgate.Decision, longest time.Duration) string {
	deadline, ok := ctx.Deadline()
	if d.Never || d.RetryAfter > longest || ok && time.Until(deadline) < d.RetryAfter {
		return "-1"
	}
	return strconv.FormatInt((d.RetryAfter + time.Millisecond - 1).Milliseconds(), 10)
}
