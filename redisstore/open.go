package redisstore

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/headgate/headgate"
)

// Open makes a store from a URL:
//
//	redis://user:password@host:6379/0             one server; of several addresses the first that answers
//	rediss://host:6380?ca=/etc/ca.pem             with TLS; also cert, key, server_name, insecure
//	redis+unix:///run/redis/redis.sock?db=0       by a unix socket
//	redis+sentinel://host:26379,host:26379/NAME   the primary that the sentinels call NAME; also sentinel_user, sentinel_password, db
//	redis+cluster://host:7000,host:7001           a cluster, by any of its nodes
//
// Parameters of all: namespace, layout, timeout, denial_memory, batching; they win over opts. A URL that cannot be read is answered
// with a [*URLError]. It does no I/O: the first call connects, and while nobody answers there each call is told so, with a
// [*headgate.StoreError]. opts may be nil.
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
	return New(&connecting{kind: t.kind, option: *option}, &o)
}

// connecting is a [Client] that connects when it is first used, and again until that succeeds. The client then reconnects by
// itself.
type connecting struct {
	kind    kind
	option  rueidis.ClientOption
	mu      sync.Mutex
	client  rueidis.Client // nil until connected
	attempt *attempt       // under way, or just failed
	closed  bool
}

// attempt is one try to connect.
type attempt struct {
	done chan struct{}
	err  error
	over time.Time
}

// pause is how long a failure to connect is answered again without another try.
const pause = 50 * time.Millisecond

// get is the connected client. It waits for a try that is under way, no longer than ctx.
func (c *connecting) get(ctx context.Context) (rueidis.Client, error) {
	c.mu.Lock()
	if c.client != nil || c.closed {
		defer c.mu.Unlock()
		if c.closed {
			return nil, headgate.ErrClosed
		}
		return c.client, nil
	}
	a := c.attempt
	if a == nil || a.failedLongAgo() {
		a = &attempt{done: make(chan struct{})}
		c.attempt = a
		go c.connect(a)
	}
	c.mu.Unlock()
	select {
	case <-a.done:
	case <-ctx.Done():
		return nil, trouble(headgate.Unreachable, "no connection yet", ctx.Err())
	}
	if a.err != nil {
		return nil, a.err
	}
	return c.get(ctx)
}

func (a *attempt) failedLongAgo() bool {
	select {
	case <-a.done:
		return time.Since(a.over) > pause
	default:
		return false
	}
}

func (c *connecting) connect(a *attempt) {
	client, err := rueidis.NewClient(c.option)
	if err != nil && client != nil {
		client.Close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(a.done)
	if a.over = time.Now(); err != nil {
		a.err = connectError(c.kind, err)
		return
	}
	if c.closed {
		client.Close()
		a.err = headgate.ErrClosed
		return
	}
	c.client = client
}

// connectError sorts why there is no connection: nothing was spent in any case.
func connectError(k kind, err error) error {
	sorted := storeError(err)
	var known *headgate.StoreError
	if errors.As(sorted, &known) && known.Trouble == headgate.TimedOut {
		advice := "is it running, and is the address right?"
		if k == sentinel {
			advice = "do the sentinels run, and do they know this master name?"
		}
		return trouble(headgate.Unreachable, advice, err)
	}
	return sorted
}

// Run is that of the client, once there is one.
func (c *connecting) Run(ctx context.Context, calls []Call, replies []Reply) {
	client, err := c.get(ctx)
	if err != nil {
		for i := range replies {
			replies[i] = Reply{Err: err}
		}
		return
	}
	Rueidis(client).Run(ctx, calls, replies)
}

// Sharded is known from the URL.
func (c *connecting) Sharded(context.Context) (bool, error) { return c.kind == cluster, nil }

// Remove is that of the client, if there ever was one.
func (c *connecting) Remove(ctx context.Context, pattern string) error {
	client, err := c.get(ctx)
	if err != nil {
		return err
	}
	return Rueidis(client).Remove(ctx, pattern)
}

// Close closes the client, also one that is about to be connected.
func (c *connecting) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.client != nil {
		c.client.Close()
	}
}

// anyOf connects to the first of several addresses that answers.
type anyOf struct {
	socket    bool
	addresses []string
}

func (a *anyOf) dial(ctx context.Context, _ string, dialer *net.Dialer, config *tls.Config) (net.Conn, error) {
	network := "tcp"
	if a.socket {
		network = "unix"
	}
	var last error
	for _, address := range a.addresses {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			last = err
			continue
		}
		if config == nil {
			return conn, nil
		}
		return secured(ctx, conn, address, config)
	}
	return nil, last
}

// secured is conn behind a TLS handshake; the certificate must name the host unless the configuration names another.
func secured(ctx context.Context, conn net.Conn, address string, config *tls.Config) (net.Conn, error) {
	if config.ServerName == "" {
		config = config.Clone()
		config.ServerName, _, _ = net.SplitHostPort(address)
	}
	secure := tls.Client(conn, config)
	if err := secure.HandshakeContext(ctx); err != nil {
		_ = conn.Close()
		return nil, err
	}
	return secure, nil
}
