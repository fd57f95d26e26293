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

// Denial is what a denied call is told.
type Denial struct {
	headgate.Decision            // of all charges together
	Policies          []string   // the names of the policies that denied, each once; “default” is one without a name
	exceeded          [][]string // the limits that denied, of each of Policies
}

// add notes the limits of a policy that denied.
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

// Status is RESOURCE_EXHAUSTED with a RetryInfo, unless no wait helps, and a QuotaFailure that has a violation for each policy
// that denied: its name as the subject, its limits in the description.
func (d *Denial) Status() *status.Status {
	failure := &errdetails.QuotaFailure{}
	for i, name := range d.Policies {
		failure.Violations = append(failure.Violations, &errdetails.QuotaFailure_Violation{
			Subject: name, Description: "limit exceeded: " + strings.Join(d.exceeded[i], ", "),
		})
	}
	if d.Never {
		return withDetails(codes.ResourceExhausted, "rate limit: the call costs more than the limit ever holds", failure)
	}
	return withDetails(codes.ResourceExhausted, "rate limit exceeded; try again in "+d.RetryAfter.String(),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(d.RetryAfter)}, failure)
}

// undecidedRetry is when clients are asked to come back after nothing could be decided.
const undecidedRetry = time.Second

// undecided is what a call is told for which the store could not decide. The cause is not the client's business.
func undecided(err error) error {
	if errors.Is(err, headgate.ErrInvalidCost) {
		return status.Error(codes.Internal, "rate limit: the call's cost is below zero")
	}
	return withDetails(codes.Unavailable, "rate limit: no decision could be made; try again in "+undecidedRetry.String(),
		&errdetails.RetryInfo{RetryDelay: durationpb.New(undecidedRetry)}).Err()
}

func withDetails(code codes.Code, message string, details ...protoadapt.MessageV1) *status.Status {
	bare := status.New(code, message)
	if s, err := bare.WithDetails(details...); err == nil {
		return s
	}
	return bare // never happens: only OK, and text that is no UTF-8, take no details
}

// headers are room for fields on their way into metadata, which needs names in lower case.
var headers = sync.Pool{New: func() any { return make(http.Header, 8) }}

// fields is the metadata that tells of q's answer; nil if nothing is to be told.
func (g *group) fields(q *requestState, d *headgate.Decision) metadata.MD {
	if g.silent && d.Allowed {
		return nil
	}
	header := headers.Get().(http.Header)
	defer func() {
		clear(header)
		headers.Put(header)
	}()
	var now time.Time
	if g.writer.NeedsTime() {
		now = time.Now()
	}
	q.text.Grow(128)
	g.writer.Write(header, g.sets.Of(q.which), q.Decisions, now, &q.text)
	delete(header, "Cache-Control") // no cache keeps answers to gRPC
	if len(header) == 0 {
		return nil
	}
	md := make(metadata.MD, len(header))
	for name, values := range header {
		md[lower(name)] = values
	}
	return md
}

// lowered are the names of fields that allowed calls have mostly, in lower case.
var lowered = map[string]string{
	"Ratelimit-Policy": "ratelimit-policy", "Ratelimit": "ratelimit", "Ratelimit-Limit": "ratelimit-limit",
	"Ratelimit-Remaining": "ratelimit-remaining", "Ratelimit-Reset": "ratelimit-reset", "X-Ratelimit-Limit": "x-ratelimit-limit",
	"X-Ratelimit-Remaining": "x-ratelimit-remaining", "X-Ratelimit-Reset": "x-ratelimit-reset",
}

func lower(name string) string {
	if known, ok := lowered[name]; ok {
		return known
	}
	return strings.ToLower(name)
}

// pushbackName is what gRPC's own retries are told to wait by, in milliseconds; below 0 they are told not to retry.
const pushbackName = "grpc-retry-pushback-ms"

// pushback is how long gRPC's own retries are to wait after a denial: -1 if they should not, for they would wait too long or past
// the call's deadline, and fail then without having been told why.
func pushback(ctx context.Context, d *headgate.Decision, longest time.Duration) string {
	deadline, ok := ctx.Deadline()
	if d.Never || d.RetryAfter > longest || ok && time.Until(deadline) < d.RetryAfter {
		return "-1"
	}
	return strconv.FormatInt((d.RetryAfter + time.Millisecond - 1).Milliseconds(), 10)
}
