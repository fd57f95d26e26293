// Package grpclimit is interceptors for google.golang.org/grpc: on a server they limit how often calls come, by address,
// metadata, method or what you choose, with answers that clients understand; on a client they wait for the call's turn.
//
// # What a denied call is told
//
// RESOURCE_EXHAUSTED, with a RetryInfo that says exactly when the same call would be admitted (none if no wait helps) and a
// QuotaFailure that names each policy that denied; and in metadata the fields of package httpfields in lower case and
// grpc-retry-pushback-ms. No key is in any of it.
//
// The metadata comes in a response without a body, as gRPC's own retries demand: to HTTP it is a header, but gRPC calls it a
// trailer, so clients read it with [grpc.Trailer]. Allowed calls have the fields in their header: of unary calls once the handler
// has returned, of streams just before the first message. A handler's error is therefore still one that clients can retry.
//
// # Clients that retry
//
// A client whose service config has a retryPolicy for RESOURCE_EXHAUSTED sends a denied call again by itself, after exactly the
// wait that it was told, unless that is longer than [Options].Pushback or than the call's deadline allows: it then fails at once,
// where it would have waited for nothing.
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

// ErrInvalidOptions is what errors of [NewServer] and [NewClient] match that are about options, charges and keys. Those about
// policies are the ones of headgate.New, those about the other options the ones of packages clientaddr and httpfields.
var ErrInvalidOptions = errors.New("grpclimit: invalid options")

// Charge is a policy, and whose budget of it a call spends how much of.
type Charge struct {
	// Policy is the policy. Its name is what metadata, details and events call it, and whose state it is: charges with policies of
	// the same name must have the same key. On a server a policy without a name counts apart for each sort of key.
	Policy headgate.Policy
	// Key is whose budget; the zero value means [Address] on a server and [Target] on a client.
	Key Key
	// Cost is how much, in units, at least 0; nil means 1.
	Cost func(context.Context, Call) int64
	// When says which calls it is for; nil means all. A call for which no charge holds is not limited.
	When func(context.Context, Call) bool
	// PerMessage charges each message that the client sends, in place of the call: a server when it has arrived, a client before
	// it is sent. A unary call is one message.
	PerMessage bool
}

// Call is what is known of a call when it is charged.
type Call struct {
	// Method is the full name, “/package.Service/Method”.
	Method string
	// Target is the server as a client's connection knows it, “dns:///example.org:443”; empty on a server.
	Target string
	// Message is that of a unary call, or the one of a stream that is being charged; nil while a stream opens. It must not be
	// changed.
	Message any
	// Stream reports whether the call is a stream, in either direction.
	Stream bool
}

// Service is the full name of the call's service, “package.Service”.
func (c Call) Service() string {
	service, _, _ := strings.Cut(strings.TrimPrefix(c.Method, "/"), "/")
	return service
}

// HealthOrReflection reports whether a call is to gRPC's own services for health checks and reflection: for [Options].Skip.
func HealthOrReflection(_ context.Context, call Call) bool {
	switch call.Service() {
	case "grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection":
		return true
	}
	return false
}

// DefaultPushback is the longest wait that gRPC's own retries are told to make when nothing else is said.
const DefaultPushback = time.Minute

// Options are a [Server]'s settings. The zero value of each field is its default; nil means all defaults. Functions may be called
// concurrently.
type Options struct {
	// Client is how the client's address is found; nil trusts no metadata. Proxies tell it in the same fields as over HTTP.
	Client *clientaddr.Options
	// Fields is what the metadata of answers tells; nil means the IETF draft's fields on every answer.
	Fields *httpfields.Options
	// Skip lets calls pass unlimited: [HealthOrReflection], say. nil skips none.
	Skip func(context.Context, Call) bool
	// Denied makes the error of a call that is denied; metadata goes with it. If it returns nil the call goes ahead, uncharged. nil
	// means [Denial.Status].
	DeniedHandler func(context.Context, Call, *Denial) error
	// Undecided makes the error of a call for which the store could not decide. If it returns nil the call goes ahead. nil means
	// UNAVAILABLE with a RetryInfo of one second. To let calls pass, rather set the policy's OnStoreError, which needs package
	// fallback around the store.
	ErrorHandler func(context.Context, Call, error) error
	// Pushback is the longest wait that gRPC's own retries are told to make, in grpc-retry-pushback-ms; of longer ones they are told
	// not to retry. 0 means [DefaultPushback]; below 0 nothing is told, and they keep to their own backoff.
	Pushback time.Duration
	// Observer receives every decision, once for each charge, and what is cancelled or refunded for a call that leaves a queue
	// before its turn. nil means none.
	Observer headgate.Observer
}

// keyed returns charges with their keys made ready: for a client if client is set, else for a server. It refuses a missing store and
// keys that cannot work.
func keyed(store headgate.Store, charges []Charge, client bool) ([]Charge, []admission.Keyed[keyRequest], error) {
	if store == nil {
		return nil, nil, fmt.Errorf("%w: no store was given; memstore.New(nil) makes the embedded one", ErrInvalidOptions)
	}
	if n := len(charges); n < 1 || n > headgate.MaxLimits {
		return nil, nil, fmt.Errorf("%w: %d charges; must be 1 to %d", ErrInvalidOptions, n, headgate.MaxLimits)
	}
	charges = slices.Clone(charges)
	all := make([]admission.Keyed[keyRequest], len(charges))
	for i, c := range charges {
		k, err := c.Key.bound(client)
		if err != nil {
			return nil, nil, fmt.Errorf("%w: the key of charge %d, policy %q: %w", ErrInvalidOptions, i+1, c.Policy.Name, err)
		}
		charges[i].Key, all[i] = k, admission.Keyed[keyRequest]{Policy: c.Policy, Key: k.ready}
	}
	return charges, all, nil
}

// holds reports whether the charge is made for call.
func (c *Charge) holds(ctx context.Context, call Call) bool {
	return c.When == nil || c.When(ctx, call)
}

// cost is how much call costs, in units.
func (c *Charge) cost(ctx context.Context, call Call) int64 {
	if c.Cost == nil {
		return 1
	}
	return c.Cost(ctx, call)
}
