package redisstore

import (
	"context"
	"errors"
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
	return New(newConnecting(t, option), &o)
}

// connecting is a [Client] that connects when it is first used, and again until that succeeds. The client then reconnects by
// itself.
type connecting struct {
	kind    kind
	option  rueidis.ClientOption
	dialer  *dialer
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

func newConnecting(t *target, option *rueidis.ClientOption) *connecting {
	c := &connecting{kind: t.kind, option: *option, dialer: newDialer(t)}
	c.option.DialCtxFn = c.dialer.dial
	return c
}

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
		return nil, trouble(headgate.ReasonUnreachable, "no connection yet", ctx.Err())
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
	client, err := c.newClient()
	c.mu.Lock()
	defer c.mu.Unlock()
	defer close(a.done)
	a.over = time.Now()
	switch {
	case c.closed:
		a.err = headgate.ErrClosed
	case err != nil:
		a.err = c.connectError(err)
	default:
		c.client = client
		return
	}
	if client != nil {
		client.Close()
	}
}

// newClient connects, and sees that what answers is what the URL says. Where one of several addresses takes the connection and says
// nothing, the dialer begins with the next.
func (c *connecting) newClient() (client rueidis.Client, err error) {
	for range max(1, len(c.dialer.addresses)) {
		client, err = rueidis.NewClient(c.option)
		if _, answered := rueidis.IsRedisErr(err); err == nil || answered {
			break
		}
	}
	if err != nil {
		return nil, err // what rueidis returns with an error is a nil pointer in an interface that is not nil
	}
	return client, c.identify(client)
}

// identify asks the server what it is. HELLO needs no permission; a server that does not know it is asked nothing more.
func (c *connecting) identify(client rueidis.Client) error {
	switch c.kind {
	case cluster:
		if client.Mode() != rueidis.ClientModeCluster {
			return errOtherKind("this is no cluster: use redis:// (rediss://)")
		}
	case single, socket:
		switch modeOf(client) {
		case "cluster":
			return errOtherKind("this is a node of a cluster: use redis+cluster:// (rediss+cluster://)")
		case "sentinel":
			return errOtherKind("this is a sentinel: use redis+sentinel://host:port/NAME")
		}
	}
	return nil
}

// modeOf is standalone, cluster or sentinel; empty for an old server, or one in front of it: what is wrong with it the first decision
// says.
func modeOf(client rueidis.Client) string {
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	about, err := client.Do(ctx, client.B().Arbitrary("HELLO").Build()).AsMap()
	if err != nil {
		return ""
	}
	mode := about["mode"]
	text, _ := mode.ToString()
	return text
}

// connectError sorts why there is no connection: nothing was spent in any case.
func (c *connecting) connectError(err error) error {
	sorted := storeError(err)
	var known *headgate.StoreError
	switch {
	case !errors.As(sorted, &known) || known.Reason != headgate.ReasonTimedOut:
		return sorted
	case c.kind == sentinel:
		return errUnreachable(err, "do the sentinels run, and do they know this master name?")
	case c.option.TLSConfig != nil:
		return errUnreachable(err, "it takes connections and does not answer: is it stopped, or does it ask for a certificate (cert, key)?")
	}
	return errUnreachable(err, "it takes connections and does not answer: is it stopped, in protected mode, or does it want TLS (rediss://)?")
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

// Remove is that of the client; if there never was one nothing was written.
func (c *connecting) Remove(ctx context.Context, pattern string) error {
	c.mu.Lock()
	client := c.client
	c.mu.Unlock()
	if client == nil {
		return nil
	}
	return Rueidis(client).Remove(ctx, pattern)
}

// Close closes the client, also one that is about to be connected, and waits for that.
func (c *connecting) Close() {
	c.mu.Lock()
	client, a := c.client, c.attempt
	c.closed = true
	c.mu.Unlock()
	if client != nil {
		client.Close()
	}
	c.dialer.close()
	if a != nil {
		<-a.done
	}
}
