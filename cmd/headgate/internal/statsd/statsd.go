// Package statsd sends counters and timers to a statsd server.
//
// A [Client] reads all values once per interval, in a goroutine of its own, so it never
// delays a request. It sends the difference to the values that were sent before. While
// the server is unavailable, differences of counters grow and are sent later, and timers
// are dropped. The client therefore keeps one number for each counter and no queue.
package statsd

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"net"
	"slices"
	"strings"
	"time"
)

// MaxPacketBytes is the maximum size of a UDP packet. Larger packets would be fragmented
// in a network with an MTU of 1,500 bytes.
const MaxPacketBytes = 1432

// The values of Options.TagFormat.
const (
	TagsInName = "name"      // NAME.__key=value, as the library of envoyproxy/ratelimit writes tags
	DogStatsD  = "dogstatsd" // |#key:value after the type
)

const (
	dialTimeout  = 1500 * time.Millisecond
	writeTimeout = time.Second // for all packets of one interval
)

// Options are the settings of a client. Fields without a default in their comment are
// required.
type Options struct {
	Addr      string            // host:port; the host is resolved again for each connection
	Protocol  string            // udp or tcp
	Interval  time.Duration     // time between two reads of the values
	Tags      map[string]string // tags of all metrics; may be empty
	TagFormat string            // TagsInName or DogStatsD; empty means TagsInName
	// Read returns the current values. It is called once per interval by one goroutine.
	Read func() Values
	// Report is called after each interval with the error that prevented sending, or
	// nil. nil means that errors are only logged.
	Report func(error)
	Log    *slog.Logger // logger for the start and the end of failures
	// Default means that the address is a default, and is not configured. A failure is
	// then logged at level info.
	Default bool
}

// Values are the values of one interval.
type Values struct {
	Counters map[string]uint64 // numbers since the start, by name
	Timers   []Timer           // durations since the previous interval
}

// Timer is a sample of the durations of one kind of event.
type Timer struct {
	Name   string
	Values []time.Duration
	Events uint64 // number of events, of which Values are a random sample
}

// Client sends values to a statsd server. It is created with [New].
type Client struct {
	opts    Options
	inName  string // tags, after a name
	after   string // tags, after a type
	sent    map[string]uint64
	conn    net.Conn
	failing bool
}

// New returns a client that does nothing until [Client.Run] is called.
func New(opts Options) *Client {
	c := &Client{opts: opts, sent: make(map[string]uint64)}
	c.opts.Log = cmp.Or(opts.Log, slog.New(slog.DiscardHandler))
	for _, key := range slices.Sorted(maps.Keys(opts.Tags)) {
		value := sanitizeTag(opts.Tags[key])
		switch {
		case key == "" || value == "":
		case opts.TagFormat != DogStatsD:
			c.inName += ".__" + sanitizeTag(key) + "=" + value
		case c.after == "":
			c.after = "|#" + sanitizeTag(key) + ":" + value
		default:
			c.after += "," + sanitizeTag(key) + ":" + value
		}
	}
	return c
}

// sanitizeTag replaces the characters that separate the parts of a line.
func sanitizeTag(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(":|.,#@=", r) {
			return '_'
		}
		return r
	}, text)
}

// Run sends the values once per interval until ctx ends, and then once more.
func (c *Client) Run(ctx context.Context) {
	ticker := time.NewTicker(c.opts.Interval)
	defer ticker.Stop()
	defer c.close()
	for {
		select {
		case <-ticker.C:
			c.flush(ctx)
		case <-ctx.Done():
			c.flush(context.WithoutCancel(ctx))
			return
		}
	}
}

// flush reads the values, sends them and reports the result.
func (c *Client) flush(ctx context.Context) {
	err := c.send(ctx, c.opts.Read())
	if c.opts.Report != nil {
		c.opts.Report(err)
	}
	switch at := []any{"address", c.opts.Addr, "protocol", c.opts.Protocol, "error", err}; {
	case err != nil && !c.failing && c.opts.Default:
		c.opts.Log.Info("no statsd server at the default address; counters are sent when there is one", at...)
	case err != nil && !c.failing:
		c.opts.Log.Warn("statsd unavailable; counters are sent when it has recovered", at...)
	case err == nil && c.failing:
		c.opts.Log.Info("statsd recovered", "address", c.opts.Addr)
	}
	c.failing = err != nil
}

// send sends the values that have changed. It records as sent only what was written.
func (c *Client) send(ctx context.Context, v Values) error {
	maps.DeleteFunc(c.sent, func(name string, _ uint64) bool { _, ok := v.Counters[name]; return !ok })
	if err := c.connect(ctx); err != nil {
		return err
	}
	if c.opts.Protocol != "tcp" {
		defer c.close() // the next connection resolves the host again
	}
	err := c.write(v)
	if err != nil {
		c.close()
	}
	return err
}

// connect opens a connection, unless one is open.
func (c *Client) connect(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	dialer := net.Dialer{Timeout: dialTimeout}
	conn, err := dialer.DialContext(ctx, c.opts.Protocol, c.opts.Addr)
	if err == nil {
		c.conn = conn
	}
	return err
}

func (c *Client) close() {
	if c.conn != nil {
		_ = c.conn.Close() // everything was written
		c.conn = nil
	}
}

// write writes the changed counters and the timers in packets.
func (c *Client) write(v Values) error {
	if err := c.conn.SetWriteDeadline(time.Now().Add(writeTimeout)); err != nil {
		return err
	}
	p := &packets{client: c, values: v.Counters, unlimited: c.opts.Protocol == "tcp"}
	for _, name := range slices.Sorted(maps.Keys(v.Counters)) {
		if err := p.counter(name, v.Counters[name]); err != nil {
			return err
		}
	}
	for i := range v.Timers {
		if err := p.timer(&v.Timers[i]); err != nil {
			return err
		}
	}
	return p.flush()
}
