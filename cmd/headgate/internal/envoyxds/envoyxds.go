// Package envoyxds asks a control plane for the rules of Envoy's rate limit service: a client of xDS (aggregated, state of the world) that
// subscribes to ratelimit.config.ratelimit.v3.RateLimitConfig. It knows nothing of what rules mean.
//
// Each answer is everything that holds from then on. One that was put into force is acknowledged; one that is wrong is refused with the
// reason, and the last good one stays. A control plane that goes away changes nothing either: it is connected to again for ever.
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

// TypeURL is the type of what is subscribed to.
const TypeURL = "type.googleapis.com/ratelimit.config.ratelimit.v3.RateLimitConfig"

// Defaults of [Options].
const (
	DefaultNodeID          = "default"
	DefaultMaxMessageBytes = 4 << 20
	DefaultConnectRetry    = 3 * time.Second
	DefaultBackoffInitial  = 10 * time.Second
	DefaultBackoffMax      = time.Minute
)

// Resource is what a control plane says of one domain.
type Resource = ratelimit.RateLimitConfig

// Rules are what a [Client] keeps as the control plane says. It calls them from one goroutine.
type Rules interface {
	// Use puts what resources say in the place of what holds, all of it, or changes nothing and says why. The control plane is told the
	// error's text. Use may keep the resources.
	Use(resources []*Resource) error
	// Refused hears why an answer does not hold: Use's error, or that it could not be read. An answer that comes again is neither used nor
	// told again.
	Refused(err error)
}

// Options are a client's settings. The zero value of each field but Server is its default.
type Options struct {
	// Server is the control plane as gRPC calls it: host:port, dns:///host:port, unix:/path.
	Server string
	// NodeID is what this client calls itself; empty means [DefaultNodeID].
	NodeID string
	// NodeMetadata is what it says of itself beside.
	NodeMetadata map[string]string
	// Headers are sent with each stream, by their names in lower case. They are not logged.
	Headers map[string]string
	// TLS names the files for TLS, which are read again for each connection; nil means plain text.
	TLS *tlsfiles.Files
	// MaxMessageBytes is the longest answer, in bytes; 0 means [DefaultMaxMessageBytes].
	MaxMessageBytes int
	// ConnectRetry is how long to wait, give or take a half, for a control plane that was not reached; 0 means [DefaultConnectRetry].
	ConnectRetry time.Duration
	// BackoffInitial is how long to wait behind a stream that ended; 0 means [DefaultBackoffInitial]. From one to the next that brought
	// nothing good it doubles.
	BackoffInitial time.Duration
	// BackoffMax is the most of that; 0 means [DefaultBackoffMax].
	BackoffMax time.Duration
	// BackoffRandom is the part of it, from 0 to 1, that chance takes away or adds; 0 means none.
	BackoffRandom float64
	// Log hears of connections that come and go; nil means nobody does.
	Log *slog.Logger
}

// State is how it stands with the control plane.
type State struct {
	// Connected says that a stream is open.
	Connected bool
	// Failures is how often it was not reached, or a stream ended.
	Failures uint64
}

// Client is a subscription. It is made with [New]; its methods may be called concurrently.
type Client struct {
	rules Rules
	opts  Options
	node  *core.Node

	// only Run's goroutine knows these
	unreached, ended, again *backoff.ExponentialBackOff
	accepted                string // the version that holds
	last                    verdict
	ignored                 bool      // an answer of this stream, which the log heard of
	told                    string    // the last failure that the log heard of
	toldAt                  time.Time // when

	mu    sync.Mutex
	state State
}

// New makes a client that has not connected yet. The files of TLS are read once, so that what is wrong with them is known now.
func New(rules Rules, opts *Options) (c *Client, err error) {
	c = &Client{rules: rules, opts: *opts}
	if c.opts.Server == "" {
		return nil, errors.New("envoyxds: there is no server to ask")
	}
	if _, err = c.credentials(); err != nil {
		return nil, fmt.Errorf("envoyxds: %w", err)
	}
	c.opts.MaxMessageBytes = cmp.Or(opts.MaxMessageBytes, DefaultMaxMessageBytes)
	first := cmp.Or(opts.BackoffInitial, DefaultBackoffInitial)
	c.opts.BackoffMax = max(first, cmp.Or(opts.BackoffMax, DefaultBackoffMax))
	retry := cmp.Or(opts.ConnectRetry, DefaultConnectRetry)
	c.unreached = doubling(retry, retry, 0.5)
	c.ended = doubling(first, c.opts.BackoffMax, opts.BackoffRandom)
	c.again = doubling(leastAgain, mostAgain, 0)
	c.opts.Log = cmp.Or(c.opts.Log, slog.New(slog.DiscardHandler))
	if c.node, err = nodeOf(opts); err != nil {
		return nil, fmt.Errorf("envoyxds: %w", err)
	}
	return c, nil
}

// nodeOf is what a client says of itself.
func nodeOf(opts *Options) (*core.Node, error) {
	node := &core.Node{Id: cmp.Or(opts.NodeID, DefaultNodeID), UserAgentName: "headgate", Metadata: &structpb.Struct{}}
	node.Metadata.Fields = make(map[string]*structpb.Value, len(opts.NodeMetadata))
	for name, value := range opts.NodeMetadata {
		node.Metadata.Fields[name] = structpb.NewStringValue(value)
	}
	if _, err := proto.Marshal(node); err != nil {
		return nil, errors.New("the node's name or metadata is no UTF-8 text")
	}
	return node, nil
}

// doubling are times to wait that double, from first to most, each of them random by a part.
func doubling(first, most time.Duration, random float64) *backoff.ExponentialBackOff {
	return &backoff.ExponentialBackOff{InitialInterval: first, MaxInterval: most, Multiplier: 2, RandomizationFactor: random}
}

// State is how it stands.
func (c *Client) State() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.state
}

// Run keeps the rules as the control plane says, until ctx ends. It is called once, and leaves nothing behind.
func (c *Client) Run(ctx context.Context) {
	for ctx.Err() == nil {
		opened, err := c.session(ctx)
		if ctx.Err() != nil {
			return
		}
		wait := c.unreached.NextBackOff()
		if opened {
			wait = c.ended.NextBackOff()
		}
		c.tell(err.Error(), wait)
		pause(ctx, wait)
	}
}

// tellAfter is how long the log is spared another cause: many hold a port or the time, and are never the same.
const tellAfter = time.Minute

// tell logs why there is no stream, if that is news.
func (c *Client) tell(cause string, wait time.Duration) {
	if c.told == cause || c.told != "" && time.Since(c.toldAt) < tellAfter {
		return
	}
	c.told, c.toldAt = cause, time.Now()
	c.opts.Log.Warn("the control plane is away", "server", c.opts.Server, "cause", cause, "again_in", wait.Round(time.Millisecond).String())
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// connected notes that a stream is open, or is none any more.
func (c *Client) connected(yes bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Connected = yes
}

// failed notes that there is no stream.
func (c *Client) failed() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.state.Connected = false
	c.state.Failures++
}
