// Package grpclimit provides rate limiting interceptors for google.golang.org/grpc. On
// a server they limit calls by client address, metadata, method or a key of your
// choice, and report denials in standard status details. On a client they delay calls
// until the limit allows them.
//
// # What a denied call returns
//
// A denied call returns RESOURCE_EXHAUSTED with two details: a RetryInfo and a
// QuotaFailure. The RetryInfo contains the exact wait after which the same call is
// allowed; it is missing if no wait helps. The QuotaFailure lists each policy that
// denied. The metadata contains grpc-retry-pushback-ms and the fields of package
// httpfields, with names in lower case. No detail and no metadata contains a key.
//
// The metadata of a denied call is in a trailers-only response, as gRPC's own retries
// require. In HTTP/2 this is a header, but gRPC calls it a trailer, so clients read it
// with [grpc.Trailer]. Allowed calls have the fields in their header metadata. For a
// unary call it is set only after the handler has returned without an error, for a
// stream immediately before the first message, so that a client can still retry a call
// whose handler returned an error.
//
// # Clients that retry
//
// A client whose service config has a retryPolicy for RESOURCE_EXHAUSTED retries a
// denied call automatically, after exactly the wait in grpc-retry-pushback-ms. If the
// wait is longer than [Options].Pushback, or ends after the call's deadline, the
// metadata stops the retries, so that the call fails immediately.
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
// options, charges and keys. Errors about policies are the errors of headgate.New.
// Errors about Options.Client and Options.Fields are the errors of packages clientaddr
// and httpfields.
var ErrInvalidOptions = errors.New("grpclimit: invalid options")

// ErrNoSlot is matched by the error of a client's call that was not sent because a limit
// such as “16 concurrent” denied it.
var ErrNoSlot = errors.New("grpclimit: no slot is available")

// Charge defines what a call spends: a policy, the key, and the cost in units.
type Charge struct {
	// Policy is the policy with the limits. Its name appears in metadata, details and
	// events. The name also identifies the state in the store: charges whose policies
	// have the same name must have the same key. On a server, a policy without a name
	// has separate state for each kind of key; all keys made with [Func] are of one
	// kind. If two constructors get the same store, and their policies have no name and
	// the same limit but different functions as keys, the second returns an error: see
	// [headgate.MustNamedPolicy].
	//
	// Under a limit such as “16 concurrent”, a call has slots until its handler ends in
	// any way, and on a client until the call or stream ends. A hold takes the slots and
	// is extended in the meantime; after a crash the slots become available after at most
	// 30 s. A server makes all charges together or none. On a client, a call for which no
	// slot is available is not sent: it fails with RESOURCE_EXHAUSTED and [ErrNoSlot]. A
	// charge with such a policy cannot have PerMessage.
	Policy headgate.Policy
	// Limits returns the limits of a call, such as those of the plan of its user, in
	// place of those of Policy. An empty result selects those of Policy, which must have
	// a name. The state of a key is the same under all limits: a key whose limits change
	// keeps what it has spent. Nothing is allocated for limits that were used before, so
	// return slices that exist already, with at most four limits each. Invalid limits are
	// an error, for ErrorHandler. If Limits is nil, the limits of Policy apply.
	Limits func(context.Context, Call) []headgate.Limit
	// Key determines which calls share a budget. The zero value means [Address] on a
	// server and [Target] on a client.
	Key Key
	// Cost returns the cost of a call or message in units, at least 0. A cost of 0
	// spends nothing. nil means that the cost is 1.
	Cost func(context.Context, Call) int64
	// When reports whether the charge applies to a call. nil means that it applies to
	// every call. A call to which no charge applies is not limited.
	When func(context.Context, Call) bool
	// PerMessage makes the charge apply to each message that the client sends on a
	// stream, instead of once to the call. A server charges a message after it has
	// arrived, a client before it is sent. A unary call counts as one message.
	PerMessage bool
	// AdjustCost returns the final cost of a call after its handler has returned, and on
	// a client after the call or stream has ended. A lower cost than the charge has the
	// same effect as if it had been charged at the beginning. For a higher cost,
	// HoldSettings.ExcessPolicy of the policy defines whether the difference is owed,
	// which is the default, or spent as far as units remain. If AdjustCost is nil, the
	// charge is not changed. See [OnlyFailures] and [OnlyCodes].
	//
	// Only the original charge limits parallel calls, so Cost should return the highest
	// likely cost. A hold charges it, is extended while the call is in progress, and is
	// committed when the call has ended, with one store operation each: see
	// [headgate.Limiter.Hold]. The cost is also adjusted if the client disconnected, the
	// deadline has passed, or the handler panicked. AdjustCost gets the context of the
	// call, which may have ended. The original charge stays after a crash, if the key has
	// too many open holds (HoldSettings), and after an error of the commit, which is
	// reported only to the observer. If AdjustCost itself panics, the charges that are
	// not yet adjusted stay, too.
	//
	// NewServer returns an error if a charge of the server has a leaky bucket, because
	// later calls have already been given their delays. NewClient does so for the charge
	// itself. Both return an error if the store does not support holds, or if the charge
	// has PerMessage.
	AdjustCost func(context.Context, Response) int64
}

// slotsSetting is the name of a limit such as “16 concurrent” in errors.
const slotsSetting = "a limit of concurrent work"

// checkMessage returns an error if charge i has PerMessage and requires a hold: a message
// has no end. slots is whether its policy limits concurrent work.
func (c *Charge) checkMessage(i int, slots bool) error {
	setting := "AdjustCost"
	switch {
	case !c.PerMessage || !slots && c.AdjustCost == nil:
		return nil
	case slots:
		setting = slotsSetting
	}
	return fmt.Errorf("%w: charge %d has PerMessage and %s, but a message has no end; use either", ErrInvalidOptions, i+1, setting)
}

// Call describes the call or message that is charged.
type Call struct {
	// Method is the full method name, “/package.Service/Method”.
	Method string
	// Target is the canonical target of the client's connection,
	// “dns:///example.org:443”. It is empty on a server.
	Target string
	// Message is the message of a unary call, or the message of a stream that is being
	// charged. It is nil when the opening of a stream is charged. It must not be
	// modified.
	Message any
	// Stream is true if the client, the server or both can send several messages.
	Stream bool
}

// Service returns the full name of the call's service, “package.Service”.
func (c Call) Service() string {
	service, _, _ := strings.Cut(strings.TrimPrefix(c.Method, "/"), "/")
	return service
}

// HealthOrReflection reports whether a call is to gRPC's health checking service or
// reflection service. Use it as [Options].Skip to exempt these calls.
func HealthOrReflection(_ context.Context, call Call) bool {
	switch call.Service() {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}

// DefaultPushback is the default of [Options].Pushback.
const DefaultPushback = time.Minute

// Options are the settings of a [Server]. A field that is zero has its default; nil
// options mean all defaults. The functions may be called concurrently.
type Options struct {
	// Client configures how the client's address is found. nil trusts no metadata.
	// Proxies send the client's address in the same fields as over HTTP, such as
	// x-forwarded-for.
	Client *clientaddr.Options
	// Fields configures the rate limit fields in the metadata of responses. nil means
	// the fields of the IETF draft in every response.
	Fields *httpfields.Options
	// Skip reports whether a call is exempt from limiting; see [HealthOrReflection].
	// nil exempts no call.
	Skip func(context.Context, Call) bool
	// DeniedHandler returns the error for a denied call. The rate limit metadata is
	// sent with that error. If DeniedHandler returns nil, the call is allowed without
	// being charged. A nil DeniedHandler means [Denial.Status].
	DeniedHandler func(context.Context, Call, *Denial) error
	// ErrorHandler returns the error for a call that the store could not decide. If it
	// returns nil, the call is allowed. A nil ErrorHandler means UNAVAILABLE with a
	// RetryInfo of one second. To fail open, prefer the policy's OnStoreError, which
	// requires package fallback around the store.
	ErrorHandler func(context.Context, Call, error) error
	// Pushback is the longest delay that the metadata grpc-retry-pushback-ms of a
	// denied call requests of gRPC's own retries. If the wait is longer, the metadata
	// stops the retries. 0 means [DefaultPushback]. A negative value omits the
	// metadata, so that clients use their own backoff.
	Pushback time.Duration
	// Observer receives every decision, as one event for each charge. It also receives
	// each cost that AdjustCost changed, with the verb “commit”, and the cancellation of
	// a reservation when a call ended while it waited in a queue. nil
	// means no observer.
	Observer headgate.Observer
}

// compileKeys returns charges with compiled keys: for a client if the parameter client
// is true, else for a server. It returns an error for a nil store, no or too many
// charges, and invalid keys.
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

// applies reports whether the charge applies to call.
func (c *Charge) applies(ctx context.Context, call Call) bool {
	return c.When == nil || c.When(ctx, call)
}

// cost returns the cost of call under the charge, in units.
func (c *Charge) cost(ctx context.Context, call Call) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(ctx, call)
}
