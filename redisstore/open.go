package redisstore

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// Open creates a store from a URL:
//
//	redis://user:password@host:6379/0             one server
//	rediss://host:6380?ca=/etc/ca.pem             TLS; also cert, key, server_name, verify_name, insecure
//	redis+unix:///run/redis/redis.sock?db=0       a Unix socket
//	redis+sentinel://host:26379,host:26379/NAME   the primary that is called NAME
//	redis+cluster://host:7000,host:7001           a cluster, through any of its nodes
//
// If a redis:// URL has several addresses, the store uses the first one that responds.
// A redis+sentinel:// URL also accepts the parameters sentinel_user, sentinel_password
// and db. All URLs accept the parameters namespace, layout, timeout, denial_memory and
// batching, which override opts. The error for an invalid URL is a [*URLError]. opts
// may be nil.
//
// Open does no I/O: the first call of the store connects. While the server is
// unreachable, every call returns a [*headgate.StoreError].
func Open(rawURL string, opts *Options) (*Store, error) {
	t, err := parseURL(rawURL)
	if err != nil {
		return nil, err
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	if err := t.apply(&o); err != nil {
		return nil, err
	}
	option, err := t.client()
	if err != nil {
		return nil, err
	}
	client := newLazyClient(t, option)
	client.dialer.maxStall = max(o.Timeout, minMaxStall)
	s, err := New(client, &o)
	if err == nil {
		s.closeClient = client.Close
	}
	return s, err
}

// lazyClient is a [Client] that connects when it is first used. If that fails, a later
// call tries again. Once connected, the underlying client reconnects automatically.
type lazyClient struct {
	kind    kind
	option  rueidis.ClientOption
	dialer  *dialer
	mu      sync.Mutex
	client  rueidis.Client // nil until connected
	attempt *attempt       // attempt in progress, or the last attempt if it failed; may be nil
	closed  bool
}

// attempt is one attempt to connect. It is in progress until done is closed.
type attempt struct {
	done    chan struct{}
	err     error
	endedAt time.Time
}

// attemptTTL is the time for which calls return the error of a failed attempt before a
// new attempt starts.
const attemptTTL = 50 * time.Millisecond

func newLazyClient(t *target, option *rueidis.ClientOption) *lazyClient {
	c := &lazyClient{kind: t.kind, option: *option, dialer: newDialer(t)}
	c.option.DialCtxFn = c.dialer.dial
	return c
}

// get returns the connected client. It waits for an attempt in progress, but at most
// until ctx ends.
func (c *lazyClient) get(ctx context.Context) (rueidis.Client, error) {
	c.mu.Lock()
	if c.client != nil || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return nil, headgate.ErrClosed
		}
		return c.client, nil
	}
	a := c.attempt
	if a == nil || a.expired() {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		go c.connect(a)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, newStoreError(headgate.ReasonUnreachable, "the connection is not yet established", ctx.Err())
	}
	if a.err != nil {
		return nil, a.err
	}
	return c.get(ctx)
}

func (a *attempt) expired() bool {
	select {
	case <-a.done:
		return time.Since(a.endedAt) > attemptTTL
	default:
		return false
	}
}

func (c *lazyClient) connect(a *attempt) {
	client, err := c.newClient()
	if c.finish(a, client, err) && client != nil {
		client.Close()
	}
	close(a.done)
}

// finish stores the result of an attempt. It returns true if the attempt failed.
func (c *lazyClient) finish(a *attempt, client rueidis.Client, err error) (failed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a.endedAt = time.Now()
	switch {
	case c.closed:
		a.err = headgate.ErrClosed
	case err != nil:
		a.err = c.classifyConnect(err)
	default:
		c.client = client
	}
	return a.err != nil
}

// newClient connects and checks that the mode of the server matches the URL. If the URL
// has several addresses and a server accepts the connection but does not respond,
// newClient tries again, and the dialer then starts with the next address.
func (c *lazyClient) newClient() (client rueidis.Client, err error) {
	for range max(1, len(c.dialer.addresses)) {
		client, err = rueidis.NewClient(c.option)
		if _, isReply := rueidis.IsRedisErr(err); err == nil || isReply {
			break
		}
	}
	if err != nil {
		return nil, err // client would be a nil pointer in a non-nil interface
	}
	return client, c.checkMode(client)
}

// checkMode returns an error if the mode of the server (cluster, sentinel, standalone)
// does not match the URL. It uses the command HELLO, which requires no permission. A
// server without HELLO is not checked.
func (c *lazyClient) checkMode(client rueidis.Client) error {
	switch c.kind {
	case cluster:
		if client.Mode() != rueidis.ClientModeCluster {
			return errWrongMode("the server is not a cluster; use redis:// (rediss://)")
		}
	case single, socket:
		switch serverMode(client) {
		case "cluster":
			return errWrongMode("the server is a cluster node; use redis+cluster:// (rediss+cluster://)")
		case "sentinel":
			return errWrongMode("the server is a sentinel; use redis+sentinel://host:port/NAME")
		}
	}
	return nil
}

// serverMode returns “standalone”, “cluster” or “sentinel”. It returns "" for an old
// server or a proxy; if it cannot be used, the first decision returns an error.
func serverMode(client rueidis.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	info, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return ""
	}
	mode := info["mode"]
	text, _ := mode.ToString()
	return text
}

// classifyConnect converts an error of connecting to a store error. Nothing was spent
// in any of these cases.
func (c *lazyClient) classifyConnect(err error) error {
	classified := classify(err)
	var known *headgate.StoreError
	switch {
	case !errors.As(classified, &known) || known.Reason != headgate.ReasonTimedOut:
		return classified
	case c.kind == sentinel:
		return errUnreachable(err, "check that the sentinels are running and monitor a primary of this name")
	case c.option.TLSConfig != nil:
		return errUnreachable(err, "the server accepts connections but does not answer; it may be stopped, or require a client certificate (cert, key)")
	}
	return errUnreachable(err, "the server accepts connections but does not answer; it may be stopped, in protected mode, or require TLS (rediss://)")
}

// Run connects if necessary and executes the calls.
func (c *lazyClient) Run(ctx context.Context, calls []Call, replies []Reply) {
	client, err := c.get(ctx)
	if err != nil {
		for i := range replies {
			replies[i] = Reply{Err: err}
		}
		return
	}
	c.dialer.calls.begin()
	defer c.dialer.calls.end()
	Rueidis(client).Run(ctx, calls, replies)
}

// Sharded reports whether the scheme of the URL is the one for a cluster.
func (c *lazyClient) Sharded(context.Context) (bool, error) { return c.kind == cluster, nil }

// Slots connects if necessary and lists the hash slots; see [SlotLister].
func (c *lazyClient) Slots(ctx context.Context) ([]SlotRange, error) {
	client, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	return rueidisClient{client}.Slots(ctx)
}

// suspect checks the connections that do not answer.
func (c *lazyClient) suspect() { c.dialer.suspect() }

// connecting reports whether a connection is being opened, or has been opened and has not
// answered yet.
func (c *lazyClient) connecting() bool { return c.dialer.unsettled.Load() > 0 }

// Remove deletes the keys that match pattern. If the client has never connected, there
// are no keys to delete and Remove does nothing.
func (c *lazyClient) Remove(ctx context.Context, pattern string) error {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client == nil {
		return nil
	}
	return Rueidis(client).Remove(ctx, pattern)
}

// Close closes the client. If an attempt to connect is in progress, Close waits until
// it has ended and its connection is closed. The client waits for pending replies,
// which a sentinel may never send, so Close closes the connections after closeTimeout.
func (c *lazyClient) Close() {
	c.mu.Lock()
	client, a := c.client, c.attempt
	c.closed = true
	c.mu.Unlock()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		if client != nil {
			client.Close()
		}
	}()
	select {
	case <-closed:
	case <-time.After(closeTimeout):
	}
	c.dialer.close()
	<-closed
	if a != nil {
		<-a.done
	}
}
