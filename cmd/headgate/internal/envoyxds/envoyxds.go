// Package envoyxds subscribes to the rules of Envoy's rate limit service at a control
// plane. It is a client of xDS (aggregated, state of the world) for the resource type
// ratelimit.config.ratelimit.v3.RateLimitConfig. It does not interpret the rules.
//
// Each response contains the complete configuration. A response that was applied is
// acknowledged (ACK); an invalid one is rejected with the reason (NACK), and the last
// valid configuration stays. If the control plane becomes unavailable, the
// configuration also stays, and the client keeps reconnecting without a time limit.
package envoyxds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"
	core "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	ratelimit "github.com/envoyproxy/go-control-plane/ratelimit/config/ratelimit/v3"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/headgate/headgate/cmd/headgate/internal/tlsfiles"
)

// TypeURL is the type URL of the resources that the client subscribes to.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Defaults of [Options].
const (
	DefaultNodeID          = "default"
	DefaultMaxMessageBytes = 4 << 20
	DefaultConnectRetry    = 3 * time.Second
	DefaultBackoffInitial  = 10 * time.Second
	DefaultBackoffMax      = time.Minute
)

// Resource is the configuration of one domain.
type Resource = ratelimit.RateLimitConfig

// Rules receives the configuration of a [Client], in calls from a single goroutine.
type Rules interface {
	// Apply replaces the whole configuration by resources, or changes nothing and
	// returns an error. The error's text is sent to the control plane. Apply may
	// retain the resources.
	Apply(resources []*Resource) error
	// Refused receives the reason why a response was rejected: the error of Apply or
	// of decoding. A repeated response is neither applied nor reported again.
	Refused(err error)
}

// Options are the options of [New]. Server is required. Any other field with the zero
// value has the default given in its comment.
type Options struct {
	// Server is the control plane as a gRPC target: host:port, dns:///host:port,
	// unix:/path.
	Server string
	// NodeID is the node ID of this client; empty means [DefaultNodeID].
	NodeID string
	// NodeMetadata is the node metadata of this client.
	NodeMetadata map[string]string
	// Headers are sent with each stream, with names in lower case. They are not logged.
	Headers map[string]string
	// TLS has the TLS files, which are read again for each connection; nil means
	// plain text.
	TLS *tlsfiles.Files
	// MaxMessageBytes is the maximum response size in bytes; 0 means
	// [DefaultMaxMessageBytes].
	MaxMessageBytes int
	// ConnectRetry is the delay before reconnecting to an unreachable control plane,
	// ±50 %; 0 means [DefaultConnectRetry].
	ConnectRetry time.Duration
	// BackoffInitial is the delay before the next stream after a stream has ended; 0
	// means [DefaultBackoffInitial]. The delay doubles with each stream that ends
	// without a valid response.
	BackoffInitial time.Duration
	// BackoffMax is the maximum of the delay after a stream has ended; 0 means
	// [DefaultBackoffMax].
	BackoffMax time.Duration
	// BackoffRandom is the share, from 0 to 1, of the delay after a stream has ended
	// that is randomly added or subtracted; 0 means none.
	BackoffRandom float64
	// Log receives connection events; nil disables logging.
	Log *slog.Logger
}

// State is the state of the connection to the control plane.
type State struct {
	// Connected reports whether a stream is open.
	Connected bool
	// Failures counts failed connection attempts and streams that ended.
	Failures uint64
}

// Client is a subscription to a control plane. Create it with [New]. Its methods may be
// called concurrently.
type Client struct {
	rules Rules
	opts  Options
	node  *core.Node

	// the following fields are used only by the goroutine of Run
	connectBackoff, streamBackoff, repeatBackoff *backoff.ExponentialBackOff
	accepted                                     string // last version that was acknowledged
	last                                         verdict
	ignoredLogged                                bool      // whether an ignored response of this stream has been logged
	lastLogged                                   string    // last failure that was logged
	lastLoggedAt                                 time.Time // time at which lastLogged was logged

	mu    sync.Mutex
	state State
}

// New returns a client. It does not connect yet, but reads the TLS files so that
// invalid files are reported early.
func New(rules Rules, opts *Options) (c *Client, err error) {
	c = &Client{rules: rules, opts: *opts}
	if c.opts.Server == "" {
		return nil, errors.New("envoyxds: Server is empty; must be host:port or unix:/path")
	}
	if _, err = c.credentials(); err != nil {
		return nil, fmt.Errorf("envoyxds: %w", err)
	}
	c.opts.MaxMessageBytes = cmp.Or(opts.MaxMessageBytes, DefaultMaxMessageBytes)
	first := cmp.Or(opts.BackoffInitial, DefaultBackoffInitial)
	c.opts.BackoffMax = max(first, cmp.Or(opts.BackoffMax, DefaultBackoffMax))
	retry := cmp.Or(opts.ConnectRetry, DefaultConnectRetry)
	c.connectBackoff = newBackoff(retry, retry, 0.5)
	c.streamBackoff = newBackoff(first, c.opts.BackoffMax, opts.BackoffRandom)
	c.repeatBackoff = newBackoff(minRepeatDelay, maxRepeatDelay, 0)
	c.opts.Log = cmp.Or(c.opts.Log, slog.New(slog.DiscardHandler))
	if c.node, err = nodeOf(opts); err != nil {
		return nil, fmt.Errorf("envoyxds: %w", err)
	}
	return c, nil
}

// nodeOf returns the xDS node that identifies the client.
func nodeOf(opts *Options) (*core.Node, error) {
	node := &core.Node{Id: cmp.Or(opts.NodeID, DefaultNodeID), UserAgentName: "headgate", Metadata: &structpb.Struct{}}
	node.Metadata.Fields = make(map[string]*structpb.Value, len(opts.NodeMetadata))
	for name, value := range opts.NodeMetadata {
		node.Metadata.Fields[name] = structpb.NewStringValue(value)
	}
	if _, err := proto.Marshal(node); err != nil {
		return nil, errors.New("NodeID or NodeMetadata is not valid UTF-8")
	}
	return node, nil
}

// newBackoff returns delays that double from first up to the parameter most. A random
// share of each delay, at most the parameter random, is added or subtracted.
func newBackoff(first, most time.Duration, random float64) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: 2, RandomizationFactor: random}
}

// State returns the current state.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Run receives and applies the configuration of the control plane until ctx ends. It
// must be called only once. When it returns, all its goroutines have ended.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		opened, err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := c.connectBackoff.NextBackOff()
		if opened {
			wait = c.streamBackoff.NextBackOff()
		}
		c.logFailure(err.Error(), wait)
		pause(ctx, wait)
	}
}

// logInterval is the minimum time between log lines about different errors. Errors
// often contain a port or a timestamp, so two errors with the same cause often differ.
const logInterval = time.Minute

// logFailure logs the cause for which there is no stream. It does not log the same
// cause twice in a row, and logs at most one cause in each logInterval.
func (c *Client) logFailure(cause string, wait time.Duration) {
	if c.lastLogged == cause || c.lastLogged != "" && time.Since(c.lastLoggedAt) < logInterval {
		return
	}
	c.lastLogged, c.lastLoggedAt = cause, time.Now()
	c.opts.Log.Warn("xDS control plane unavailable", "server", c.opts.Server, "error", cause, "retry_in", wait.Round(time.Millisecond).String())
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// setConnected records whether a stream is open.
func (c *Client) setConnected(connected bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Connected = connected
}

// recordFailure records that a stream ended or could not be opened.
func (c *Client) recordFailure() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Connected = false
	c.state.Failures++
}
