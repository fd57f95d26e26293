// Package grpclimit is interceptors for google.golang.org/grpc. On a server they limit
// calls by client address, metadata, method or a key of your choice, and report denials
// in standard status details. On a client they delay calls until the limit allows them.
//
// # What a denied call returns
//
// A denied call returns RESOURCE_EXHAUSTED with two details: a RetryInfo with the exact
// wait after which the same call is allowed (missing if no wait helps), and a
// QuotaFailure that lists each policy that denied. The metadata has the fields of
// package httpfields in lower case and grpc-retry-pushback-ms. No detail and no
// metadata contains a key.
//
// The metadata is in a trailers-only response, as gRPC's own retries require. In HTTP/2
// it is a header, but gRPC calls it a trailer, so clients read it with [grpc.Trailer].
// Allowed calls have the fields in their header: unary calls after the handler
// returned, streams immediately before the first message. Clients can therefore still
// retry a call whose handler returned an error.
//
// # Clients that retry
//
// A client whose service config has a retryPolicy for RESOURCE_EXHAUSTED retries a
// denied call automatically, after exactly the wait of the RetryInfo. If the wait is
// longer than [Options].Pushback, or ends after the call's deadline, the call fails
// immediately instead of waiting in vain.
package grpclimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/clientaddr"
	"github.com/headgate/headgate/httpfields"
	"github.com/headgate/headgate/internal/admission"
)

// ErrInvalidOptions is matched by the errors of [NewServer] and [NewClient] about
// options, charges and keys. Errors about policies are those of headgate.New. Errors
// about Options.Client and Options.Fields are those of packages clientaddr and
// httpfields.
var ErrInvalidOptions = errors.New("grpclimit: invalid options")

// Charge is a policy, the key whose budget a call spends, and how much it spends.
type Charge struct {
	// Policy is the policy. Its name appears in metadata, details and events, and
	// identifies its state: charges whose policies have the same name must have the
	// same key. On a server a policy without a name has separate state for each kind of
	// key.
	Policy headgate.Policy
	// Key selects the budget. The zero value means [Address] on a server, [Target] on a
	// client.
	Key Key
	// Cost returns the cost in units, at least 0. nil means 1; a cost of 0 peeks.
	Cost func(context.Context, Call) int64
	// When reports whether the charge applies to a call. nil means it always applies. A
	// call to which no charge applies is not limited.
	When func(context.Context, Call) bool
	// PerMessage charges each message that the client sends instead of the call: on a
	// server after the message arrived, on a client before it is sent. A unary call is
	// one message.
	PerMessage bool
}

// Call describes a call when it is charged.
type Call struct {
	// Method is the full method name, “/package.Service/Method”.
	Method string
	// Target is the canonical target of the client's connection,
	// “dns:///example.org:443”. It is empty on a server.
	Target string
	// Message is the message of a unary call, or the message of a stream that is being
	// charged. It is nil while a stream opens. It must not be modified.
	Message any
	// Stream is true if the call is a stream, in either direction.
	Stream bool
}

// Service returns the full name of the call's service, “package.Service”.
func (c Call) Service() string {
	service, _, _ := strings.Cut(strings.TrimPrefix(c.Method, "/"), "/")
	return service
}

// HealthOrReflection reports whether a call is to gRPC's services for health checks or
// reflection. Use it as [Options].Skip.
func HealthOrReflection(_ context.Context, call Call) bool {
	switch call.Service() {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}

// DefaultPushback is the default of [Options].Pushback.
const DefaultPushback = time.Minute

// Options are a [Server]'s settings. A field that is zero has its default; nil
// options mean all defaults. Functions may be called concurrently.
type Options struct {
	// Client configures how the client's address is found. nil trusts no metadata.
	// Proxies send the address in the same fields as over HTTP.
	Client *clientaddr.Options
	// Fields configures the rate limit fields in the metadata of responses. nil sends
	// the IETF draft's fields in every response.
	Fields *httpfields.Options
	// Skip reports whether a call is exempt from limiting; see [HealthOrReflection].
	// nil exempts no call.
	Skip func(context.Context, Call) bool
	// DeniedHandler returns the error of a denied call; the metadata is sent with it.
	// If it returns nil the call is allowed without being charged. nil means
	// [Denial.Status].
	DeniedHandler func(context.Context, Call, *Denial) error
	// ErrorHandler returns the error of a call that the store could not decide. If it
	// returns nil the call is allowed. nil means UNAVAILABLE with a RetryInfo of one
	// second. To fail open, prefer the policy's OnStoreError, which requires package
	// fallback around the store.
	ErrorHandler func(context.Context, Call, error) error
	// Pushback is the longest delay that grpc-retry-pushback-ms requests of gRPC's own
	// retries. If the wait is longer, the metadata stops the retries. 0 means
	// [DefaultPushback]. A negative value omits the metadata, so that clients use their
	// own backoff.
	Pushback time.Duration
	// Observer receives every decision, one event for each charge. It also receives
	// each cancellation or refund for a call that left a queue before its turn. nil
	// means no observer.
	Observer headgate.Observer
}

// compileKeys returns charges with compiled keys, for a client if client is set, else
// for a server. It returns an error for a nil store and for invalid keys.
func compileKeys(store headgate.Store, charges []Charge, client bool) ([]Charge, []admission.Keyed[keyRequest], error) {
	if store == nil {
		return nil, nil, fmt.Errorf("%w: store is nil; memstore.New(nil) returns an in-memory store", ErrInvalidOptions)
	}
	if n := len(charges); n < 1 || n > headgate.MaxLimits {
		return nil, nil, fmt.Errorf("%w: %d charges; must be 1 to %d", ErrInvalidOptions, n, headgate.MaxLimits)
	}
	charges = slices.Clone(charges)
	all := make([]admission.Keyed[keyRequest], len(charges))
	for i, c := range charges {
		k, err := c.Key.compile(client)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: invalid key of charge %d, policy %q: %w", ErrInvalidOptions, i+1, c.Policy.Name, err)
		}
		charges[i].Key, all[i] = k, admission.Keyed[keyRequest]{Policy: c.Policy, Key: k.compiled}
	}
	return charges, all, nil
}

// applies reports whether the charge is made for call.
func (c *Charge) applies(ctx context.Context, call Call) bool {
	return c.When == nil || c.When(ctx, call)
}

// cost returns the cost of call in units.
func (c *Charge) cost(ctx context.Context, call Call) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(ctx, call)
}
