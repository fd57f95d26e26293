package events

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/headgate/headgate"
	"github.com/headgate/headgate/cmd/headgate/internal/engine"
	"github.com/headgate/headgate/internal/root"
)

// subject is what an event is about.
type subject struct {
	kind string // type of the event
	rule *engine.Rule
	key  string
}

// claim is an event that this instance has noticed.
type claim struct {
	subject
	// until is the time, in ns since the start, until which the event is not noticed again.
	until     atomic.Int64
	remaining int64
	capacity  int64
	shadow    bool
}

// processStart is the time to which the times of claims refer.
var processStart = time.Now()

func sinceStart() int64 { return int64(time.Since(processStart)) }

// claimTimeout is the maximum time for which a claim is repeated. Until then, the event is
// not noticed again.
const claimTimeout = 10 * time.Second

// notice queues the claim of an event, unless it is known to be claimed.
func (t *Teller) notice(kind string, r *engine.Rule, d *headgate.Decision, key string, shadow bool) {
	s := subject{kind, r, key}
	at := sinceStart()
	known, ok := t.remembered.Get(s)
	if ok && at < known.until.Load() {
		return
	}
	if !ok {
		s.key = strings.Clone(key)
		known = t.remembered.Put(s, &claim{subject: s})
	}
	// Only one of several requests queues the claim.
	if last := known.until.Load(); at < last || !known.until.CompareAndSwap(last, at+int64(claimTimeout)) {
		return
	}
	if !t.queue(&claim{subject: known.subject, remaining: d.Remaining, capacity: d.Limit, shadow: shadow}) {
		known.until.Store(0)
	}
}

// queue queues a claim, or drops it.
func (t *Teller) queue(c *claim) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	select {
	case t.claims <- c:
		t.busy++
		return true
	default:
		t.dropped.Add(1)
		return false
	}
}

// claimAll claims events until the teller is closed.
func (t *Teller) claimAll() {
	for {
		select {
		case <-t.ctx.Done():
			return
		case c := <-t.claims:
			t.claim(c)
		}
	}
}

// claim claims an event, and tells it if no other instance has claimed it.
func (t *Teller) claim(c *claim) {
	won, ends, err := t.tryClaim(c)
	known, ok := t.remembered.Get(c.subject)
	if err != nil {
		if ok {
			known.until.Store(0)
		}
		t.opts.Log.Debug("event dropped", "type", c.kind, "error", err)
		t.drop()
		return
	}
	if ok {
		known.until.Store(sinceStart() + int64(ends))
	}
	if !won {
		t.done()
		return
	}
	at := now()
	end := at.Add(ends).Truncate(time.Millisecond)
	e := &Event{Type: c.kind, Time: at, Data: Data{
		Instance: t.opts.Instance, Policy: c.rule.Policy, Limit: c.rule.Text(), Key: t.keyText(c.rule.Policy, c.key),
		Remaining: &c.remaining, Capacity: c.capacity, Ends: &end, Shadow: c.shadow,
	}}
	if c.kind == NearLimit {
		e.Data.Warn = c.rule.WarnAt().String()
	}
	t.tell(e)
}

// The TTL of the hold of a claim is longer than the time for which it is repeated.
const claimTTL = 2 * claimTimeout

// tryClaim opens a hold of the only unit in the window. It repeats the call with the same
// id while the store fails. ends is the time until the end of the window.
func (t *Teller) tryClaim(c *claim) (won bool, ends time.Duration, err error) {
	bound, err := t.window(c)
	if err != nil {
		return false, 0, err
	}
	ctx, cancel := context.WithTimeout(t.ctx, claimTimeout)
	defer cancel()
	ops := []headgate.HoldOp{{Op: headgate.Op{Bound: bound, Key: c.key, Cost: 1}, ID: headgate.NewHoldID()}}
	results := make([]headgate.HoldResult, 1)
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		if _, err = root.ApplyHolds(ctx, t.opts.Store, headgate.StoreClock, headgate.OpenHold, claimTTL, ops, results); err == nil {
			d := &results[0].Decision
			return d.Allowed, max(d.RetryAfter, d.ResetAfter), nil
		}
		select {
		case <-ctx.Done():
			return false, 0, err
		case <-time.After(pause/2 + rand.N(pause)):
		}
	}
}

// windowKey identifies the window of an event.
type windowKey struct {
	kind string
	rule *engine.Rule
}

// window returns the limit of one event in the window of a rule.
func (t *Teller) window(c *claim) (headgate.Bound, error) {
	k := windowKey{c.kind, c.rule}
	if b, ok := t.windows.Get(k); ok {
		return b, nil
	}
	scope := "event:" + c.kind
	if c.kind == NearLimit {
		scope += ":" + c.rule.WarnAt().String()
	}
	rule := headgate.Rule{Scope: scope + ":" + c.rule.Scope(), Name: c.kind, Algorithm: headgate.FixedWindow}
	rule.Limit = headgate.Limit{Rate: 1, Period: max(c.rule.Limit.Period, t.opts.Interval)}
	if c.rule.Algorithm == headgate.CalendarWindow && c.rule.Limit.Calendar.Unit != 0 {
		rule.Algorithm, rule.Limit = headgate.CalendarWindow, headgate.Limit{Rate: 1, Calendar: c.rule.Limit.Calendar}
	}
	b, err := t.opts.Store.Bind(rule)
	if err != nil {
		return nil, err
	}
	return t.windows.Put(k, b), nil
}
