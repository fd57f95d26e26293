// Package events reports an operator, once, what happens to keys and to the store: in log
// lines, and in webhooks that are signed as Standard Webhooks specifies
// (standardwebhooks.com). It observes the requests of the APIs, and no request waits for
// it.
//
// Every instance notices that a key is near a limit, or was denied, in its own
// decisions. It then claims the event at the store: it opens a hold of the only unit in
// a window of the limit's period. The instance that gets the unit reports. An instance
// remembers what was claimed, so that it makes one claim for each key, limit, type and
// window. A claim whose reply was lost is repeated with the same id. The store's
// failures themselves are reported by each instance.
package events

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/bans"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/memo"
)

// Keys is how webhooks and log lines contain keys.
type Keys string

// The values of [Keys].
const (
	HashKeys  Keys = "hash"  // a keyed hash, as in the log of denials
	PlainKeys Keys = "plain" // the key itself
	NoKeys    Keys = "none"
)

// Options configure [New]. A field with its zero value has the default in its comment.
type Options struct {
	Store headgate.HoldStore // store in which events are claimed; required
	Log   *slog.Logger       // required
	// LogEvents makes each event that this instance reports a line of the log.
	LogEvents bool
	// Webhook is where events are sent; nil means nowhere.
	Webhook *Webhook
	// Keys is how keys are reported; empty means [HashKeys].
	Keys Keys
	// Hash returns the hash of a key of a policy; required.
	Hash func(policy, key string) string
	// Interval is the shortest window: there is at most one event for each key, limit and
	// type in the longer of the limit's period and Interval. 0 means 1 minute.
	Interval time.Duration
	// Queue is the maximum number of events that wait for the store, and of events that
	// wait for the webhook; 0 means 1,000. Further events are dropped and counted.
	Queue int
	// Instance is the name of this instance in events; empty means the host name.
	Instance string
}

// Stats are counts since the start.
type Stats struct {
	Reported map[string]uint64 // events that this instance has reported, by type
	Dropped  uint64            // events that were dropped, because a queue was full or the store failed
	Sent     uint64            // webhooks that were accepted
	Failed   uint64            // webhooks that were given up after all attempts
	Retries  uint64            // attempts after the first
}

const (
	defaultInterval = time.Minute
	defaultQueue    = 1_000
	maxRemembered   = 100_000
	claimers        = 4
	senders         = 4
)

// Reporter notices events, claims them and reports them. It is created with [New] and
// may be used concurrently.
type Reporter struct {
	opts       Options
	remembered *memo.Map[subject, *claim]
	windows    *memo.Map[windowKey, headgate.Bound]
	claims     chan *claim
	messages   chan *message
	ctx        context.Context
	cancel     context.CancelFunc
	workers    sync.WaitGroup

	mu       sync.Mutex
	reported map[string]uint64
	busy     int             // number of claims and messages that are not done
	waiting  []chan struct{} // closed when busy is 0
	closed   bool            // no further event is accepted
	ended    bool            // the workers have ended

	dropped, sent, failed, retries atomic.Uint64
}

// New starts a reporter. Close it after use.
func New(opts *Options) *Reporter {
	t := &Reporter{
		opts: *opts, remembered: memo.New[subject, *claim](maxRemembered), windows: memo.New[windowKey, headgate.Bound](4096),
		reported: make(map[string]uint64),
	}
	t.opts.Interval, t.opts.Queue = cmp.Or(opts.Interval, defaultInterval), cmp.Or(opts.Queue, defaultQueue)
	t.opts.Keys = cmp.Or(opts.Keys, HashKeys)
	if host, err := os.Hostname(); err == nil {
		t.opts.Instance = cmp.Or(opts.Instance, host)
	}
	t.claims, t.messages = make(chan *claim, t.opts.Queue), make(chan *message, t.opts.Queue)
	t.ctx, t.cancel = context.WithCancel(context.Background())
	for range claimers {
		t.workers.Go(t.claimAll)
	}
	if t.opts.Webhook != nil {
		for range senders {
			t.workers.Go(t.sendAll)
		}
	}
	return t
}

// Close waits until ctx ends for the events that are queued, and ends the reporter.
// Events that were not reported are dropped and counted.
func (t *Reporter) Close(ctx context.Context) {
	t.mu.Lock()
	t.closed = true
	t.mu.Unlock()
	_ = t.Flush(ctx)
	t.cancel()
	t.workers.Wait()
	t.mu.Lock()
	t.ended = true
	t.dropped.Add(uint64(len(t.claims) + len(t.messages)))
	t.mu.Unlock()
	if t.opts.Webhook != nil {
		t.opts.Webhook.client.CloseIdleConnections()
	}
}

// Flush waits until the events that are queued have been reported, or ctx ends. It is for
// programs that must not end before.
func (t *Reporter) Flush(ctx context.Context) error {
	idle := make(chan struct{})
	t.mu.Lock()
	if t.busy == 0 {
		t.mu.Unlock()
		return nil
	}
	t.waiting = append(t.waiting, idle)
	t.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// done ends an event.
func (t *Reporter) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.doneLocked()
}

func (t *Reporter) doneLocked() {
	if t.busy--; t.busy > 0 {
		return
	}
	for _, idle := range t.waiting {
		close(idle)
	}
	t.waiting = nil
}

// drop ends an event that is not reported.
func (t *Reporter) drop() {
	t.dropped.Add(1)
	t.done()
}

// report logs an event and queues its webhook.
func (t *Reporter) report(e *Event) {
	if t.opts.LogEvents {
		t.log(e)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reported[e.Type]++
	switch {
	case t.opts.Webhook == nil:
	case t.ended:
		t.dropped.Add(1)
	default:
		select {
		case t.messages <- newMessage(e):
			return
		default:
			t.dropped.Add(1)
		}
	}
	t.doneLocked()
}

// begin adds an event that is not done, unless the reporter is closed.
func (t *Reporter) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.busy++
	}
	return !t.closed
}

// log logs an event.
func (t *Reporter) log(e *Event) {
	d := &e.Data
	switch e.Type {
	case NearLimit:
		t.opts.Log.Info("key near limit", "policy", d.Policy, "limit", d.Limit, "key", d.Key, "warn_at", d.Warn, "remaining", *d.Remaining, "shadow", d.Shadow)
	case Exhausted:
		t.opts.Log.Info("limit of key exhausted", "policy", d.Policy, "limit", d.Limit, "key", d.Key, "shadow", d.Shadow)
	}
}

// keyText returns a key as webhooks contain it.
func (t *Reporter) keyText(policy, key string) string {
	switch t.opts.Keys {
	case PlainKeys:
		return key
	case NoKeys:
		return ""
	default:
		return t.opts.Hash(policy, key)
	}
}

// Stats returns the counts since the start.
func (t *Reporter) Stats() Stats {
	s := Stats{Dropped: t.dropped.Load(), Sent: t.sent.Load(), Failed: t.failed.Load(), Retries: t.retries.Load()}
	t.mu.Lock()
	defer t.mu.Unlock()
	s.Reported = maps.Clone(t.reported)
	return s
}

// ObserveStore reports that the store, or one of its nodes, has become unavailable or has
// recovered. Each instance reports it, because the store cannot decide who does.
func (t *Reporter) ObserveStore(e headgate.StoreEvent) {
	if !t.begin() {
		return
	}
	reported := &Event{Type: StoreRecovered, Time: now(), Data: Data{Instance: t.opts.Instance, Node: e.Node}}
	if e.Unavailable {
		reported.Type, reported.Data.Reason = StoreUnavailable, e.Reason.String()
	}
	t.report(reported)
}

// Begun reports a ban, which this instance alone has begun.
func (t *Reporter) Begun(b bans.Ban) {
	if !t.begin() {
		return
	}
	at := now()
	ends := at.Add(b.For)
	t.report(&Event{Type: Banned, Time: at, Data: Data{
		Instance: t.opts.Instance, Policy: b.Policy, Key: t.keyText(b.Policy, b.Key), Ends: &ends, Ban: b.Level, Shadow: b.Shadow,
	}})
}

// now returns the current time as events contain it.
func now() time.Time { return time.Now().UTC().Truncate(time.Millisecond) }

// Observe notices the events of a request. It is for an [engine.Observer].
func (t *Reporter) Observe(e *engine.Event) {
	if e.Err != nil || e.Operation != engine.Take && e.Operation != engine.Hold && e.Operation != engine.TakeUpTo {
		return
	}
	rules, decisions := e.Rules(), e.Decisions()
	for i := range decisions {
		d := &decisions[i]
		if d.Degraded != headgate.ReasonNone || d.Never || d.Allowed && !rules[i].NearLimit(d) {
			continue
		}
		r := rules[i]
		if r.Policy == "" {
			continue
		}
		if r.NearLimit(d) {
			t.notice(NearLimit, r, d, e.Key(i), false)
		}
		if _, banned := e.Ban(i); !d.Allowed && !banned {
			t.notice(Exhausted, r, d, e.Key(i), false)
		}
	}
	t.observeShadows(e)
}

// observeShadows notices the denials of policies in shadow mode.
func (t *Reporter) observeShadows(e *engine.Event) {
	shadows := e.Shadows()
	for i := range shadows {
		s := &shadows[i]
		if s.Err != nil || s.DeniedBy == nil || s.DeniedBy.Policy == "" || s.Decision.Never || s.Decision.Degraded != headgate.ReasonNone {
			continue
		}
		if _, banned := e.ShadowBan(i); !banned {
			t.notice(Exhausted, s.DeniedBy, &s.Decision, e.ShadowKey(i), true)
		}
	}
}
